/* The page of a snapshot: the answer, the picture, what would help, what is in use and whose it is, reserved
 * memory, steps. */
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "base/memory.h"
#include "base/units.h"
#include "cli/look/look.h"

enum { MOST_PICTURES = 16, SHOWN_PLACES = 200, SHOWN_BLOCKS = 256, SHOWN_GROWERS = 20, NOTE_BYTES = 256 };

static const page_column word = { "", false }, number = { "", true };

static void put_count(page *p, uint64_t n) {
    char few[REPORT_NUMBER_BYTES];
    page_cell(p, &number, report_count(n, few));
}

/* "what would help", with whose it is before it where there are several. */
static void begin(look_page *l, const char *title) {
    text t = { 0 };
    text_add(&t, "%s%s", l->prefix, title);
    if (!*l->prefix && t.data && *t.data >= 'a' && *t.data <= 'z') t.data[0] += 'A' - 'a';
    l->body.out.failed |= t.failed;
    page_section(&l->body, t.data ? t.data : "");
    text_close(&t);
}

/* ---- the answer ---- */

/* The remedy that saves most; -1: none saves anything. */
static int best_remedy(const remedies *r) {
    int best = -1;
    for (int k = 0; k < REMEDIES_COUNT; k++)
        if (r->rows[k].saves && (best < 0 || r->rows[k].saves > r->rows[best].saves)) best = k;
    return best;
}

static void add_capital(text *t, const char *s) {
    text_add(t, "%c%s", *s >= 'a' && *s <= 'z' ? *s - 'a' + 'A' : *s, s + 1);
}

static void answer_remedy(text *t, const look_device *d) {
    char a[UNITS_TEXT_BYTES], b[UNITS_TEXT_BYTES];
    const remedies *r = &d->remedies;
    int best = d->course.count ? best_remedy(r) : -1;
    if (best >= 0) {
        add_capital(t, look_remedies[best].title);
        text_add(t, " lowers the peak from %s to %s.", units_bytes_text(r->peak, a),
                 units_bytes_text(r->rows[best].peak, b));
    } else if (!d->trace->events) {
        text_add(t, "%s are in use; without events nothing tells what would help.",
                 units_bytes_text(d->alive.bytes, a));
    } else if (!d->course.count) {
        text_add(t, "The peak is %s; nothing tells of steps, so what would help is not known.",
                 units_bytes_text(alive_peak(d->trace), a));
    } else {
        text_add(t, "The peak is %s, and no change that is known here lowers it.",
                 units_bytes_text(alive_peak(d->trace), a));
    }
}

/* True: there is no more to say. */
static bool answer_oom(text *t, const look_device *d) {
    const look_oom *o = &d->ooms[d->oom_count - 1];
    char a[UNITS_TEXT_BYTES], b[UNITS_TEXT_BYTES];
    const char *cause = look_cause_name(o);
    units_bytes_text(o->met.asked, a);
    if (strcmp(cause, "fragmented") == 0)
        text_add(t,
                 "Memory ran out although %s were free for the %s that were asked for, in pieces: "
                 "PYTORCH_CUDA_ALLOC_CONF=expandable_segments:True would have served it.",
                 units_bytes_text(o->met.own, b), a);
    else if (strcmp(cause, "other-streams") == 0)
        text_add(t,
                 "Memory ran out although %s were free, in pieces of other streams: fewer streams, or "
                 "empty_cache(), would have served the %s that were asked for.",
                 units_bytes_text(o->met.own + o->met.other_streams, b), a);
    else
        text_add(t, "Memory ran out when %s were asked for. ", a);
    return strcmp(cause, "fragmented") == 0 || strcmp(cause, "other-streams") == 0;
}

static void add_answer(text *t, const look_file *f, const look_device *d) {
    char a[UNITS_TEXT_BYTES], b[UNITS_TEXT_BYTES], frame[LOOK_FRAME_BYTES];
    int64_t left = look_steps_left(f, d);
    const steps *s = &d->steps;
    if (d->oom_count && answer_oom(t, d)) return;
    if (!s->grows) {
        answer_remedy(t, d);
        return;
    }
    text_add(t, "Memory grows by %s a step", units_bytes_text(s->grows, a));
    if (left >= 0)
        text_add(t, ", and %s are full in %lld steps more", units_bytes_text(f->words->memory, b),
                 (long long)left);
    if (s->by_count)
        text_add(t, ": let go of what %s keeps, %s a step", look_stack_text(f, s->by[0].stack, frame),
                 units_bytes_text(s->by[0].bytes, b));
    text_add(t, ".");
}

/* The three largest categories. */
static void add_shares(text *t, const look_device *d) {
    bool told[ROLES_COUNT] = { false };
    for (int n = 0; n < 3; n++) {
        int best = -1;
        for (int i = 0; i < ROLES_COUNT; i++)
            if (!told[i] && d->by_role[i] && (best < 0 || d->by_role[i] > d->by_role[best])) best = i;
        if (best < 0) break;
        told[best] = true;
        text_add(t, "%s%.0f %% %s", n ? ", " : ": ",
                 100.0 * (double)d->by_role[best] / (double)d->alive.bytes, look_categories[best].title);
    }
}

static void add_further(text *t, const look_device *d) {
    char a[UNITS_TEXT_BYTES], b[UNITS_TEXT_BYTES];
    text_add(t, d->is_peak ? "At the peak %s are in use" : "%s are in use",
             units_bytes_text(d->alive.bytes, a));
    if (d->alive.bytes) add_shares(t, d);
    if ((d->gaps.known || d->gaps.told) && d->gaps.reserved)
        text_add(t, ". PyTorch has reserved %s then", units_bytes_text(d->gaps.reserved, b));
    text_add(t, ". It is ");
    look_moment_text(t, d);
    text_add(t, ".");
}

/* ---- what would help ---- */

static void say_second_step(page *p, const look_device *d) {
    char a[2 * PAGE_VALUE_BYTES];
    const remedies *r = &d->remedies;
    if (!r->second) return;
    page_say(
        p,
        "The recording ends in its first step, in which the optimizer has no state until the update. The "
        "second step, played on from it, peaks %s %s.",
        r->second > alive_peak(d->trace) ? "higher, at" : "at", page_exact(r->second, a));
}

/* In the order of the bars. */
static void put_how(page *p, const look_device *d, const int kinds[REMEDIES_COUNT]) {
    static const page_column columns[] = { { "change", false },
                                           { "bytes that the peak loses", true },
                                           { "what it is", false } };
    page_table_begin(p, "What each change does", columns, 3);
    for (int n = 0; n < REMEDIES_COUNT; n++) {
        uint64_t saves = d->remedies.rows[kinds[n]].saves;
        bool unknown = !saves && kinds[n] == REMEDIES_CHECKPOINTING && !d->sites.blocks;
        page_row(p, n == 0 && saves);
        page_cell(p, &word, look_remedies[kinds[n]].title);
        if (unknown)
            page_cell(p, &number, "not known");
        else
            put_count(p, saves);
        page_cell(p, &word, unknown ? "no blocks of the model were found" : look_remedies[kinds[n]].how);
    }
    page_table_end(p);
}

static void put_remedies(page *p, const look_device *d) {
    const remedies *r = &d->remedies;
    page_bar bars[REMEDIES_COUNT];
    bool done[REMEDIES_COUNT] = { false };
    int kinds[REMEDIES_COUNT];
    say_second_step(p, d);
    if (!d->course.count || !r->peak) {
        page_say(p, "No forward, backward or update was recognized, so what would help is not known.");
        return;
    }
    for (int n = 0; n < REMEDIES_COUNT; n++) {
        int best = -1;
        for (int k = 0; k < REMEDIES_COUNT; k++)
            if (!done[k] && (best < 0 || r->rows[k].saves > r->rows[best].saves)) best = k;
        done[best] = true;
        kinds[n] = best;
        bars[n] = (page_bar){ .label = look_remedies[best].title,
                              .value = (double)r->rows[best].peak,
                              .marks = { (double)r->peak, NAN } };
    }
    page_put_bars(p, &(page_bars){
                         .name = "The peak with each change",
                         .about = "Each change by itself: its bytes are taken out of the recorded course and "
                                  "the peak is found anew, so what is promised is what the peak loses.",
                         .label_word = "change",
                         .unit = PAGE_BYTES,
                         .value_name = "peak with it",
                         .mark_names = { "peak without it", NULL },
                         .bars = bars,
                         .count = REMEDIES_COUNT,
                     });
    put_how(p, d, kinds);
}

/* What --for asks of estimate. */
static void put_changes(page *p, const look_file *f, const look_device *d) {
    static const page_column columns[] = {
        { "change", false }, { "bytes that the peak loses", true }, { "fits", false }, { "", false }
    };
    const cli_changes *c = &d->changes;
    if (!c->framework) return;
    page_bar *bars = memory_new(c->count + 1u, sizeof *bars);
    for (uint32_t i = 0; bars && i < c->count; i++)
        bars[i] = (page_bar){ .label = c->all[i].text,
                              .value = (double)(d->alive.bytes - c->all[i].saves),
                              .marks = { (double)d->alive.bytes, NAN } };
    if (bars)
        page_put_bars(p,
                      &(page_bars){ .name = "The peak with changes of settings, by estimate",
                                    .about = "Each part as it was measured, in place of what is estimated.",
                                    .label_word = "change",
                                    .unit = PAGE_BYTES,
                                    .value_name = "peak with it",
                                    .mark_names = { "peak without it", NULL },
                                    .bars = bars,
                                    .count = c->count });
    else
        p->out.failed = true;
    memory_free(bars);
    if (!c->count) page_say(p, "No change of settings that estimate knows would help.");
    if (c->count) page_table_begin(p, "What each change of settings does", columns, 4);
    for (uint32_t i = 0; i < c->count; i++) {
        page_row(p, false);
        page_cell(p, &word, c->all[i].text);
        put_count(p, c->all[i].saves);
        page_cell(p, &word, !look_memory(f, d) ? "" : look_change_fits(f, d, &c->all[i]) ? "yes" : "no");
        page_cell(p, &word, c->all[i].alters ? "changes what is trained" : "");
    }
    if (c->count) page_table_end(p);
}

/* ---- what is in use ---- */

static void put_categories(page *p, const look_device *d) {
    double pieces[ROLES_COUNT][EVIDENCES] = { { 0 } };
    static const char *const evidence_names[EVIDENCES] = { "by nothing", "by frames", "by lifetime",
                                                           "by size", "by the file" };
    page_bar bars[ROLES_COUNT];
    uint32_t count = 0;
    for (uint32_t i = 0; i < d->alive.count; i++)
        pieces[d->verdicts[i].role][d->verdicts[i].by] += (double)d->alive.pieces[i]->bytes;
    for (int n = 0; n < ROLES_COUNT; n++) {
        roles_role r = look_stacked[n];
        if (!d->by_role[r]) continue;
        bars[count++] =
            (page_bar){ .label = roles_name(r), .value = (double)d->by_role[r], .pieces = pieces[r] };
    }
    page_put_bars(p,
                  &(page_bars){
                      .name = "By category, and what says so",
                      .about = "Evidence: frames of code that name the thing, how long it lives, or a size "
                               "that matches a weight's.",
                      .label_word = "category",
                      .unit = PAGE_BYTES,
                      .value_name = "in use",
                      .piece_names = evidence_names,
                      .piece_count = EVIDENCES,
                      .bars = bars,
                      .count = count,
                  });
}

/* The name of its module, where it was recorded; a timeline's categories are lines already. */
static const char *place_said(const look_file *f, const sites_place *x, char out[LOOK_FRAME_BYTES]) {
    const stacks_frame *frames = f->snapshot.stacks.frames.data;
    char few[LOOK_NAME_BYTES];
    if (!x->said || f->snapshot.form == SNAPSHOT_TIMELINE) return "";
    snprintf(out, LOOK_FRAME_BYTES, "%.120s%s", look_function_name(f, frames + x->said, few),
             x->differs ? " and others" : "");
    return out;
}

static void put_places(page *p, const look_file *f, const look_device *d) {
    static const page_column columns[] = { { "bytes", true },          { "share", true },
                                           { "how many", true },       { "category", false },
                                           { "in each block", false }, { "line", false },
                                           { "said of it", false } };
    char few[2 * PAGE_VALUE_BYTES], frame[LOOK_FRAME_BYTES];
    uint32_t shown = d->sites.count < SHOWN_PLACES ? d->sites.count : SHOWN_PLACES;
    uint64_t rest = d->alive.bytes;
    page_table_begin(p,
                     d->is_peak ? "Alive at the peak, by the line that asked for it, largest first"
                                : "Alive then, by the line that asked for it, largest first",
                     columns, 7);
    for (uint32_t i = 0; i < shown; i++) {
        const sites_place *x = &d->sites.places[i];
        page_row(p, false);
        put_count(p, x->bytes);
        snprintf(few, sizeof few, "%.1f %%", 100.0 * (double)x->bytes / (double)d->alive.bytes);
        page_cell(p, &number, few);
        put_count(p, x->count);
        page_cell(p, &word, roles_name(x->role));
        page_cell(p, &word, x->in_blocks ? "yes" : "");
        page_cell(p, &word, look_stack_text(f, x->stack, frame));
        page_cell(p, &word, place_said(f, x, frame));
        rest -= x->bytes;
    }
    page_table_end(p);
    if (rest)
        page_say(p, "%s more were asked for by %u other lines.", page_exact(rest, few),
                 d->sites.count - shown);
}

static void put_blocks(page *p, const look_device *d) {
    const sites *x = &d->sites;
    uint64_t all = 0;
    for (uint32_t i = 0; i < x->blocks; i++) all += x->by_block[i];
    if (!all || x->blocks > SHOWN_BLOCKS) return;
    page_bar *bars = memory_new(x->blocks + 1u, sizeof *bars);
    char(*names)[NOTE_BYTES] = memory_new(x->blocks + 1u, sizeof *names);
    for (uint32_t i = 0; bars && names && i < x->blocks; i++) {
        snprintf(names[i], NOTE_BYTES, "block %u", i);
        bars[i] = (page_bar){ .label = names[i], .value = (double)x->by_block[i] };
    }
    if (bars && names) {
        bars[x->blocks] = (page_bar){ .label = "outside of blocks", .value = (double)x->outside };
        page_put_bars(p, &(page_bars){
                             .name = "Activations by block",
                             .about = "Blocks of one code are told apart by repetition: how often each line "
                                      "allocates in a forward.",
                             .label_word = "block",
                             .unit = PAGE_BYTES,
                             .value_name = "activations",
                             .bars = bars,
                             .count = x->blocks + 1,
                         });
    } else {
        p->out.failed = true;
    }
    memory_free(bars);
    memory_free(names);
}

/* ---- reserved memory ---- */

static void put_pieces(page *p, const look_device *d) {
    static const struct {
        const char *name;
        uint64_t below;
    } sizes[] = { { "below 64 KiB", 1 << 16 },     { "64 KiB to 1 MiB", 1 << 20 },
                  { "1 to 2 MiB", 1 << 21 },       { "2 to 20 MiB", 20 << 20 },
                  { "20 to 200 MiB", 200 << 20 },  { "200 MiB to 1 GiB", 1 << 30 },
                  { "1 GiB and more", UINT64_MAX } };
    enum { SIZES = sizeof sizes / sizeof *sizes };
    page_bar bars[SIZES];
    char notes[SIZES][NOTE_BYTES];
    uint64_t bytes[SIZES] = { 0 }, counts[SIZES] = { 0 };
    for (uint32_t i = 0; i < d->gaps.piece_count; i++) {
        int k = 0;
        while (d->gaps.pieces[i].bytes >= sizes[k].below && k + 1 < SIZES) k++;
        bytes[k] += d->gaps.pieces[i].bytes, counts[k]++;
    }
    for (int k = 0; k < SIZES; k++) {
        snprintf(notes[k], NOTE_BYTES, "%llu piece%s", (unsigned long long)counts[k],
                 counts[k] == 1 ? "" : "s");
        bars[k] = (page_bar){ .label = sizes[k].name, .note = notes[k], .value = (double)bytes[k] };
    }
    page_put_bars(p,
                  &(page_bars){
                      .name = "Reserved and free, by the size of the piece",
                      .about = "A request takes one piece of its own stream that is large enough; pieces do "
                               "not add up for it.",
                      .label_word = "a piece of",
                      .note_word = "how many",
                      .unit = PAGE_BYTES,
                      .value_name = "free",
                      .bars = bars,
                      .count = SIZES,
                  });
}

static void put_twin(page *p, const look_device *d) {
    const twin *x = &d->twin;
    char a[2 * PAGE_VALUE_BYTES], b[2 * PAGE_VALUE_BYTES];
    if (!x->turns) return;
    if (x->why)
        page_say(p, "Our model of PyTorch's allocator was not played: %s.", x->why);
    else if (x->differs_at)
        page_say(p, "Our model of PyTorch's allocator differs at event %u: %s were recorded, it takes %s.",
                 x->differs_at, page_exact(x->recorded, a), page_exact(x->made, b));
    else
        page_say(p,
                 "Our model of PyTorch's allocator takes and gives back the same %u segments, to the byte.",
                 x->turns);
}

static void put_reserved(look_page *page_of, const look_device *d) {
    page *p = &page_of->body;
    const gaps *g = &d->gaps;
    char values[5][2 * PAGE_VALUE_BYTES], notes[4][NOTE_BYTES];
    page_fact facts[5];
    uint32_t n = 0;
    begin(page_of, "reserved memory and its pieces");
    if (g->told && g->reserved) {
        page_say(p,
                 "PyTorch had %s reserved then, of which %s were in no allocation; in which pieces is not "
                 "told.",
                 page_exact(g->reserved, values[0]), page_exact(g->free, values[1]));
        return;
    }
    if (!g->known || !g->reserved) {
        page_say(p, "The snapshot tells of no segments, so what was reserved is not known.");
        return;
    }
    snprintf(notes[0], NOTE_BYTES, "in %u segments", g->segment_count);
    facts[n++] = (page_fact){ "reserved then", page_exact(g->reserved, values[0]), notes[0] };
    snprintf(notes[1], NOTE_BYTES, "in %u pieces, roundings among them", g->piece_count);
    facts[n++] = (page_fact){ "of it in no allocation", page_exact(g->free, values[1]), notes[1] };
    facts[n++] = (page_fact){ "largest free piece", page_exact(g->largest, values[2]),
                              "a larger request takes new memory of the device" };
    snprintf(notes[2], NOTE_BYTES, "since event %u", d->reserved.at);
    facts[n++] =
        (page_fact){ "most that was ever reserved", page_exact(d->reserved.most, values[3]), notes[2] };
    if (!d->twin.why && !d->twin.differs_at && d->twin.taken > d->alive.bytes)
        facts[n++] = (page_fact){ "lost to rounding", page_exact(d->twin.taken - d->alive.bytes, values[4]),
                                  "and to what is not split off" };
    page_facts(p, facts, n);
    put_pieces(p, d);
    put_twin(p, d);
}

/* ---- out of memory ---- */

static void put_oom(page *p, const look_file *f, const look_device *d, const look_oom *o) {
    char a[2 * PAGE_VALUE_BYTES], b[2 * PAGE_VALUE_BYTES], c[2 * PAGE_VALUE_BYTES], e[2 * PAGE_VALUE_BYTES],
        frame[LOOK_FRAME_BYTES];
    course_moment m = course_moment_of(&d->course, o->turn->at);
    text when = { 0 };
    if (m.phase != COURSE_OTHER)
        text_add(&when, ", in the %s of step %u", course_phase_name(m.phase), m.step);
    page_say(p, "At event %u%s, %s asked for %s.", o->turn->at, when.data ? when.data : "",
             o->turn->stack ? look_stack_text(f, o->turn->stack, frame) : "code that is not known",
             page_exact(o->met.asked, a));
    text_close(&when);
    page_say(p, "PyTorch had %s in use and %s reserved%s%s%s.", page_exact(o->used, a),
             o->known || o->told ? page_exact(o->reserved, b) : "an unknown number of bytes",
             o->turn->free_known ? "; the device had " : "",
             o->turn->free_known ? page_exact(o->turn->address, c) : "", o->turn->free_known ? " free" : "");
    if (!o->known) return;
    page_say(
        p,
        "Free for it were %s, the largest piece %s; %s more of other streams, %s in segments of the other "
        "size, and %s in private pools.",
        page_exact(o->met.own, a), page_exact(o->met.largest, b), page_exact(o->met.other_streams, c),
        page_exact(o->met.other_pool, e), page_exact(o->met.private_pools, frame));
    const char *cause = look_cause_name(o);
    if (strcmp(cause, "fragmented") == 0)
        page_say(p, "In one piece it would have fit: PYTORCH_CUDA_ALLOC_CONF=expandable_segments:True.");
    else if (strcmp(cause, "unknown") == 0)
        page_say(p, "A piece was large enough. Why it was not taken, the recording does not tell.");
    else if (strcmp(cause, "full") == 0)
        page_say(p, "Pieces do not matter: all of them together are too small.");
    else
        page_say(p, "Pieces of other streams would do, and are not lent: fewer streams, or empty_cache().");
}

/* ---- steps ---- */

static void put_step_lines(page *p, const look_device *d) {
    const steps *s = &d->steps;
    double *values = memory_new(6 * (size_t)s->count, sizeof *values);
    if (!values) {
        p->out.failed = true;
        return;
    }
    double *x = values, *y[5];
    for (int k = 0; k < 5; k++) y[k] = values + (size_t)(k + 1) * s->count;
    for (uint32_t i = 0; i < s->count; i++) {
        const steps_step *step = &s->all[i];
        const uint64_t bytes[] = { step->peak[COURSE_FORWARD], step->peak[COURSE_BACKWARD],
                                   step->peak[COURSE_UPDATE], step->end, step->reserved };
        x[i] = step->step;
        for (int k = 0; k < 5; k++) y[k][i] = bytes[k] ? (double)bytes[k] : NAN;
    }
    page_put_lines(p, &(page_lines){ .name = "The most in use in each step",
                                     .x_word = "step",
                                     .unit = PAGE_BYTES,
                                     .lines = (page_line[]){ { "forward", x, y[0], s->count },
                                                             { "backward", x, y[1], s->count },
                                                             { "update", x, y[2], s->count } },
                                     .count = 3 });
    page_put_lines(p,
                   &(page_lines){ .name = "When each step has ended",
                                  .about = "What is reserved beside what is in use is a cache that PyTorch "
                                           "keeps. What is in use rises where something leaks.",
                                  .x_word = "step",
                                  .unit = PAGE_BYTES,
                                  .lines = (page_line[]){ { "in use", x, y[3], s->count },
                                                          { "reserved", x, y[4], s->count } },
                                  .count = d->gaps.known || d->gaps.told ? 2 : 1 });
    memory_free(values);
}

static void put_growth(page *p, const look_file *f, const look_device *d) {
    static const page_column columns[] = { { "bytes a step", true },
                                           { "allocations", true },
                                           { "line", false } };
    const steps *s = &d->steps;
    char few[2 * PAGE_VALUE_BYTES], frame[LOOK_FRAME_BYTES], said[LOOK_FRAME_BYTES],
        line[2 * LOOK_FRAME_BYTES];
    int64_t left = look_steps_left(f, d);
    if (!s->grows) return;
    page_say(p, "What is in use between steps grows by %s a step, seen over %u steps.",
             page_exact(s->grows, few), s->seen);
    if (left >= 0)
        page_say(p, "%s are full in %lld steps more.", page_exact(f->words->memory, few), (long long)left);
    if (!s->by_count) return;
    page_table_begin(p, "Kept in each step, and never freed", columns, 3);
    for (uint32_t i = 0; i < s->by_count && i < SHOWN_GROWERS; i++) {
        page_row(p, false);
        put_count(p, s->by[i].bytes);
        put_count(p, s->by[i].count);
        snprintf(line, sizeof line, "%.199s%.199s", look_stack_text(f, s->by[i].stack, frame),
                 look_said_text(f, s->by[i].stack, said));
        page_cell(p, &word, line);
    }
    page_table_end(p);
}

/* ---- what may be doubted ---- */

static void put_doubts(look_page *page_of, const look_file *f, const look_device *d) {
    page *p = &page_of->body;
    const snapshot_trace *x = d->trace;
    bool any = x->backwards || x->replaced || x->unlike || !f->traits.native ||
               f->snapshot.form == SNAPSHOT_TIMELINE;
    if (!any) return;
    begin(page_of, "what may be doubted");
    if (x->backwards)
        page_say(p, "Times go backwards %u times; the order of the events is kept.", x->backwards);
    if (x->replaced)
        page_say(p, "%u allocations begin where another one is whose free is missing: events were lost.",
                 x->replaced);
    if (x->unlike)
        page_say(p, "%u allocations that no event frees are not among the blocks at the end.", x->unlike);
    if (!f->traits.any)
        page_say(p,
                 "No allocation has frames, so little can be told. Record with "
                 "torch.cuda.memory._record_memory_history(stacks=\"all\"), or the lines of 'snug snapshot "
                 "--recipe plain'.");
    else if (!f->traits.native)
        page_say(p, "Frames are Python's alone: what has none was taken for backward's. Record with "
                    "stacks=\"all\" to know.");
}

/* ---- a device ---- */

static status put_device(look_page *page_of, const look_file *f, const look_device *d) {
    page *p = &page_of->body;
    begin(page_of, "memory over the recording");
    uint32_t share = page_of->files > f->count ? page_of->files : f->count;
    if (share <= MOST_PICTURES)
        TRY(look_page_memory(p, f, d, share ? share : 1));
    else
        page_say(p, "Of so many recordings none has a picture; 'snug snapshot FILE --html' shows one.");
    for (uint32_t i = d->oom_count; i-- > 0;) {
        if (i + 1 == d->oom_count) begin(page_of, "memory ran out");
        if (i + 4 > d->oom_count) put_oom(p, f, d, &d->ooms[i]);
    }
    begin(page_of, "what would help");
    put_remedies(p, d);
    put_changes(p, f, d);
    begin(page_of, d->is_peak ? "what is in use at the peak" : "what is in use at that event");
    put_categories(p, d);
    put_places(p, f, d);
    put_blocks(p, d);
    put_reserved(page_of, d);
    if (d->steps.count > 1) {
        begin(page_of, "from step to step");
        put_step_lines(p, d);
        put_growth(p, f, d);
    }
    put_doubts(page_of, f, d);
    return STATUS_OK;
}

/* ---- the page ---- */

void look_page_begin(look_page *p, uint32_t files) {
    *p = (look_page){ .files = files, .prefix = "" };
    p->body.charts = files > 1; /* the one that stands before all that is gathered here */
    p->body.section = files > 1;
}

static status make_room(look_page *p) {
    if (p->count < p->room) return STATUS_OK;
    uint32_t room = p->room ? 2 * p->room : 8;
    look_page_row *rows = memory_resize(p->rows, room, sizeof *rows);
    if (!rows) return status_set(STATUS_FAILED, "no memory for the page");
    p->rows = rows, p->room = room;
    return STATUS_OK;
}

static status add_row(look_page *p, const look_file *f, const look_device *d) {
    char few[LOOK_NAME_BYTES];
    const char *path = look_path(f, few), *slash = strrchr(path, '/');
    TRY(make_room(p));
    look_page_row *x = &p->rows[p->count++];
    *x = (look_page_row){ .device = d->trace->device,
                          .host = d->trace->host,
                          .known = d->gaps.known || d->gaps.told,
                          .bytes = d->alive.bytes,
                          .reserved = d->gaps.reserved };
    memcpy(x->by_role, d->by_role, sizeof x->by_role);
    text name = { 0 };
    text_add(&name, "%s", slash ? slash + 1 : path);
    char where[LOOK_DEVICE_BYTES];
    look_device_name(d->trace, where);
    where[0] |= 32; /* within a line */
    if (f->count > 1) text_add(&name, ", %s", where);
    x->name = name.data;
    return name.failed ? status_set(STATUS_FAILED, "no memory for the page") : STATUS_OK;
}

/* The device with the highest peak is answered for; pinned memory of the host only where there is no other.
 */
static const look_device *main_device(const look_file *f) {
    const look_device *best = NULL;
    for (uint32_t i = 0; i < f->count; i++) {
        const look_device *d = &f->devices[i];
        if (!best || (best->trace->host && !d->trace->host) ||
            (best->trace->host == d->trace->host && alive_peak(d->trace) > alive_peak(best->trace)))
            best = d;
    }
    return best;
}

status look_page_add(look_page *p, const look_file *f) {
    const look_device *most = main_device(f);
    char few[LOOK_NAME_BYTES];
    if (p->files == 1) text_add(&p->title, "snug snapshot %s", look_path(f, few));
    if (p->files == 1 && most) {
        add_answer(&p->answer, f, most);
        add_further(&p->further, most);
    }
    for (uint32_t i = 0; i < f->count; i++) {
        text prefix = { 0 };
        TRY(add_row(p, f, &f->devices[i]));
        if (p->files > 1 || f->count > 1) text_add(&prefix, "%s: ", p->rows[p->count - 1].name);
        p->prefix = prefix.data ? prefix.data : "";
        status result = put_device(p, f, &f->devices[i]);
        p->prefix = "";
        text_close(&prefix);
        TRY(result);
    }
    return STATUS_OK;
}

void look_page_miss(look_page *p, const char *name, const char *why) {
    begin(p, "not read");
    page_say(&p->body, "%s: %s", name, why);
}

/* Two are before and after; more are ranks. */
static void answer_several(look_page *p) {
    char a[UNITS_TEXT_BYTES], b[UNITS_TEXT_BYTES], c[UNITS_TEXT_BYTES];
    const look_page_row *most = NULL, *least = NULL;
    uint32_t n = p->count;
    for (uint32_t i = 0; i < n; i++) {
        const look_page_row *x = &p->rows[i];
        if (!most || x->bytes > most->bytes) most = x;
        if (!least || x->bytes < least->bytes) least = x;
    }
    if (n == 2) {
        const look_page_row *x = &p->rows[0], *y = &p->rows[1];
        uint64_t change = x->bytes > y->bytes ? x->bytes - y->bytes : y->bytes - x->bytes;
        text_add(&p->answer, "%s peaks at %s, %s at %s: %s %s.", x->name, units_bytes_text(x->bytes, a),
                 y->name, units_bytes_text(y->bytes, b), change ? units_bytes_text(change, c) : "the same",
                 !change               ? "bytes"
                 : y->bytes < x->bytes ? "less"
                                       : "more");
    } else if (most) {
        text_add(&p->answer, "Of %u recordings %s peaks highest, at %s, and %s lowest, at %s.", n, most->name,
                 units_bytes_text(most->bytes, a), least->name, units_bytes_text(least->bytes, b));
    }
}

static void put_rows(page *p, const look_page *l) {
    const char *names[ROLES_COUNT + 1];
    uint32_t n = l->count;
    page_bar *bars = memory_new(n + 1u, sizeof *bars);
    double(*pieces)[ROLES_COUNT + 1] = memory_new(n + 1u, sizeof *pieces);
    for (int k = 0; k < ROLES_COUNT + 1; k++)
        names[k] = k == 7 ? "reserved, not in use" : roles_name(look_stacked[k < 7 ? k : k - 1]);
    for (uint32_t i = 0; bars && pieces && i < n; i++) {
        const look_page_row *x = &l->rows[i];
        for (int k = 0; k < ROLES_COUNT; k++)
            pieces[i][k < 7 ? k : k + 1] = (double)x->by_role[look_stacked[k]];
        bars[i] = (page_bar){ .label = x->name,
                              .value = (double)x->bytes,
                              .marks = { x->known ? (double)x->reserved : NAN, NAN },
                              .pieces = pieces[i] };
    }
    if (bars && pieces)
        page_put_bars(p, &(page_bars){
                             .name = "The peaks beside each other",
                             .label_word = "recording",
                             .unit = PAGE_BYTES,
                             .value_name = "in use at the peak",
                             .mark_names = { "reserved then", NULL },
                             .piece_names = names,
                             .piece_count = ROLES_COUNT + 1,
                             .bars = bars,
                             .count = n,
                         });
    else
        p->out.failed = true;
    memory_free(bars);
    memory_free(pieces);
}

status look_page_write(look_page *l, io_writer *file) {
    page p;
    if (l->files > 1) answer_several(l);
    bool failed = l->body.out.failed || l->title.failed || l->answer.failed || l->further.failed;
    page_begin(&p, file,
               &(page_head){ .title = l->title.data ? l->title.data : "snug snapshot",
                             .answer = l->answer.data ? l->answer.data : "Nothing was in use.",
                             .further = l->further.data });
    if (l->files > 1) {
        page_section(&p, "Beside each other");
        put_rows(&p, l);
    }
    text_add(&p.out, "%s", l->body.out.data ? l->body.out.data : "");
    p.section = l->body.section;
    p.charts = l->body.charts;
    p.out.failed |= failed;
    return page_end(&p);
}

void look_page_close(look_page *p) {
    for (uint32_t i = 0; i < p->count; i++) memory_free(p->rows[i].name);
    memory_free(p->rows);
    text_close(&p->body.out);
    text_close(&p->title);
    text_close(&p->answer);
    text_close(&p->further);
    *p = (look_page){ 0 };
}
