/* What people read of a snapshot. */
#include <stdio.h>
#include <string.h>

#include "base/units.h"
#include "cli/look/look.h"

enum { SHOWN_PLACES = 12 };

/* ---- what is in use ---- */

static void say_categories(text *t, const look_device *d) {
    char bytes[UNITS_TEXT_BYTES];
    text_add(t, "\nWhat is in use then\n");
    for (int i = 0; i < ROLES_COUNT; i++)
        if (d->by_role[i])
            text_add(t, "  %-17s %12s %5.1f %%  %s\n", look_categories[i].title,
                     units_column_text(d->by_role[i], d->alive.bytes, bytes),
                     100.0 * (double)d->by_role[i] / (double)d->alive.bytes, look_categories[i].what);
}

static void add_row(text *t, const char *title, uint64_t bytes, uint64_t whole, const char *what) {
    char column[UNITS_TEXT_BYTES];
    text_add(t, "  %-17s %12s %7s  %s\n", title, units_column_text(bytes, whole, column), "", what);
}

/* What is reserved beside: roundings as the twin makes them, where it makes the recorded segments. */
static void say_reserved(text *t, const look_device *d) {
    char a[UNITS_TEXT_BYTES], what[160];
    uint64_t rounding = 0, whole = d->alive.bytes;
    if (d->gaps.told && d->gaps.reserved) {
        add_row(t, "free", d->gaps.free, whole, "in which pieces is not told");
        add_row(t, "reserved", d->gaps.reserved, whole, "of the device by PyTorch");
    }
    if (!d->gaps.known || !d->gaps.reserved) return;
    if (!d->twin.why && d->twin.taken > d->alive.bytes && !d->twin.differs_at)
        rounding = d->twin.taken - d->alive.bytes;
    if (rounding) add_row(t, "rounding", rounding, whole, "and what is not split off");
    snprintf(what, sizeof what, "in %u pieces, the largest of %s", d->gaps.piece_count,
             units_bytes_text(d->gaps.largest, a));
    uint64_t used = d->alive.bytes + rounding;
    if (d->gaps.reserved > used) add_row(t, "free", d->gaps.reserved - used, whole, what);
    add_row(t, "reserved", d->gaps.reserved, whole, "of the device by PyTorch");
}

static void say_twin(text *t, const look_device *d) {
    const twin *x = &d->twin;
    char a[UNITS_TEXT_BYTES], b[UNITS_TEXT_BYTES];
    if (!x->turns) return;
    if (x->why)
        text_add(t, "\nOur model of the allocator was not played: %s.\n", x->why);
    else if (x->differs_at)
        text_add(t, "\nOur model of the allocator differs at event %u: %s were recorded, it takes %s.\n",
                 x->differs_at, units_bytes_text(x->recorded, a), units_bytes_text(x->made, b));
    else
        text_add(t, "\nOur model of the allocator takes and gives back the same %u segments, to the byte.\n",
                 x->turns);
}

static const char *place_said(const look_file *f, const sites_place *x, char out[LOOK_FRAME_BYTES]) {
    char name[REPORT_NAME_BYTES], number[LOOK_NAME_BYTES];
    *out = 0;
    if (x->said)
        snprintf(out, LOOK_FRAME_BYTES, ", in %.80s",
                 report_name(look_function_name(
                                 f, (const stacks_frame *)f->snapshot.stacks.frames.data + x->said, number),
                             name));
    return out;
}

static void say_places(text *t, const look_file *f, const look_device *d) {
    uint64_t rest = d->alive.bytes;
    char bytes[UNITS_TEXT_BYTES], frame[LOOK_FRAME_BYTES], said[LOOK_FRAME_BYTES];
    bool told = f->snapshot.form == SNAPSHOT_TIMELINE; /* a category is all that is said */
    uint32_t shown = d->sites.count < SHOWN_PLACES ? d->sites.count : SHOWN_PLACES;
    text_add(t, f->snapshot.form == SNAPSHOT_TIMELINE ? "\nBy the profiler's own category\n"
                                                      : "\nBy the line that asked for it\n");
    for (uint32_t i = 0; i < shown; i++) {
        const sites_place *x = &d->sites.places[i];
        text_add(t, "  %12s  %-16s %5u x  %s%s%s%s\n", units_column_text(x->bytes, d->alive.bytes, bytes),
                 look_categories[x->role].title, x->count, look_stack_text(f, x->stack, frame),
                 told ? "" : place_said(f, x, said), x->differs ? " and others" : "",
                 x->in_blocks ? "; in each block" : "");
        rest -= x->bytes;
    }
    if (rest)
        text_add(t, "  %12s  %u other lines\n", units_column_text(rest, d->alive.bytes, bytes),
                 d->sites.count - shown);
}

static void say_each(text *t, const look_file *f, const look_device *d) {
    char bytes[UNITS_TEXT_BYTES], frame[LOOK_FRAME_BYTES], said[LOOK_FRAME_BYTES];
    if (!f->words->each || !d->alive.count) return;
    text_add(t, "\nEach allocation, largest first\n");
    for (uint32_t i = 0; i < d->alive.count; i++) {
        const snapshot_piece *p = d->alive.pieces[i];
        text_add(t, "  %12s  %-16s at 0x%012llx, from event %u%s, %s%s\n", units_bytes_text(p->bytes, bytes),
                 look_categories[d->verdicts[i].role].title, (unsigned long long)p->address, p->born,
                 p->died == SNAPSHOT_NEVER ? ", never freed" : "", look_stack_text(f, p->stack, frame),
                 f->snapshot.form == SNAPSHOT_TIMELINE ? "" : look_said_text(f, p->stack, said));
    }
}

static void say_blocks(text *t, const look_device *d) {
    const sites *x = &d->sites;
    uint64_t least = UINT64_MAX, most = 0;
    char a[UNITS_TEXT_BYTES], b[UNITS_TEXT_BYTES], c[UNITS_TEXT_BYTES];
    for (uint32_t i = 0; i < x->blocks; i++) {
        if (x->by_block[i] < least) least = x->by_block[i];
        if (x->by_block[i] > most) most = x->by_block[i];
    }
    if (!most) return; /* there are none, or nothing of them is in use */
    text_add(t, "\nActivations: %u blocks ", x->blocks);
    if (least == most)
        text_add(t, "of %s each", units_bytes_text(most, a));
    else
        text_add(t, "of %s to %s", units_bytes_text(least, a), units_bytes_text(most, b));
    text_add(t, ", %s outside of them.\n", units_bytes_text(x->outside, c));
}

/* ---- steps ---- */

enum { SHOWN_STEPS = 8, SHOWN_GROWERS = 4 };

static void say_steps(text *t, const look_device *d) {
    char column[5][UNITS_TEXT_BYTES];
    const steps *s = &d->steps;
    if (s->count < 2) return;
    text_add(t, "\n%-10s %12s %12s %12s %12s %12s\n", "Steps", "forward", "backward", "update", "then in use",
             "reserved");
    for (uint32_t i = 0; i < s->count; i++) {
        const steps_step *x = &s->all[i];
        if (i >= SHOWN_STEPS && i + 1 < s->count) continue;
        if (i >= SHOWN_STEPS) text_add(t, "  ...\n");
        const uint64_t bytes[] = { x->peak[COURSE_FORWARD], x->peak[COURSE_BACKWARD], x->peak[COURSE_UPDATE],
                                   x->end, x->reserved };
        for (int k = 0; k < 5; k++) {
            if (bytes[k])
                units_column_text(bytes[k], d->alive.bytes, column[k]);
            else
                snprintf(column[k], UNITS_TEXT_BYTES, "-");
        }
        text_add(t, "  %-8u %12s %12s %12s %12s %12s%s\n", x->step, column[0], column[1], column[2],
                 column[3], column[4], x->whole ? "" : "  (cut)");
    }
}

static void say_growth(text *t, const look_file *f, const look_device *d) {
    const steps *s = &d->steps;
    char bytes[UNITS_TEXT_BYTES], frame[LOOK_FRAME_BYTES], said[LOOK_FRAME_BYTES];
    int64_t left = look_steps_left(f, d);
    if (!s->grows) return;
    text_add(t, "\nWhat is in use between steps grows by %s a step", units_bytes_text(s->grows, bytes));
    if (left >= 0)
        text_add(t, "; %s are full in %lld steps more", units_bytes_text(f->words->memory, bytes),
                 (long long)left);
    text_add(t, ". Kept in each step, and never freed:\n");
    for (uint32_t i = 0; i < s->by_count && i < SHOWN_GROWERS; i++) {
        text_add(t, "  %12s a step  %s%s\n", units_column_text(s->by[i].bytes, s->grows, bytes),
                 look_stack_text(f, s->by[i].stack, frame), look_said_text(f, s->by[i].stack, said));
    }
}

/* ---- what would help ---- */

static void say_second_step(text *t, const look_device *d) {
    char a[UNITS_TEXT_BYTES];
    const remedies *r = &d->remedies;
    if (!r->second) return;
    text_add(
        t, "\nThe recording ends in its first step, in which the optimizer has no state until the update. ");
    if (r->second > alive_peak(d->trace))
        text_add(t, "The second step, played on from it, peaks higher: %s.\n",
                 units_bytes_text(r->second, a));
    else
        text_add(t, "The second step, played on from it, peaks at %s.\n", units_bytes_text(r->second, a));
}

static void say_remedies(text *t, const look_device *d) {
    char a[UNITS_TEXT_BYTES], b[UNITS_TEXT_BYTES];
    const remedies *r = &d->remedies;
    bool done[REMEDIES_COUNT] = { false };
    say_second_step(t, d);
    if (!d->course.count || !r->peak) return;
    text_add(t, "\nWhat would help, of the peak of %s\n", units_bytes_text(r->peak, a));
    for (int n = 0; n < REMEDIES_COUNT; n++) {
        int best = -1;
        for (int k = 0; k < REMEDIES_COUNT; k++)
            if (!done[k] && (best < 0 || r->rows[k].saves > r->rows[best].saves)) best = k;
        done[best] = true;
        const remedies_row *x = &r->rows[best];
        if (x->saves)
            text_add(t, "  %-23s saves %11s, to %11s: %s\n", look_remedies[best].title,
                     units_column_text(x->saves, r->peak, a), units_column_text(x->peak, r->peak, b),
                     look_remedies[best].how);
        else if (best == REMEDIES_CHECKPOINTING && !d->sites.blocks)
            text_add(t, "  %-23s is not known: no blocks of the model were found\n",
                     look_remedies[best].title);
        else
            text_add(t, "  %-23s saves nothing: the peak is elsewhere\n", look_remedies[best].title);
    }
}

/* ---- out of memory ---- */

/* What the device had free, and the end of the sentence. */
static void say_device_free(text *t, const look_oom *o, const char *before) {
    char free[UNITS_TEXT_BYTES];
    if (o->turn->free_known) text_add(t, "%s had %s free", before, units_bytes_text(o->turn->address, free));
    text_add(t, ".\n");
}

static void say_oom(text *t, const look_file *f, const look_device *d, const look_oom *o) {
    char a[UNITS_TEXT_BYTES], b[UNITS_TEXT_BYTES], c[UNITS_TEXT_BYTES], frame[LOOK_FRAME_BYTES],
        said[LOOK_FRAME_BYTES];
    course_moment m = course_moment_of(&d->course, o->turn->at);
    text_add(t, "\nMemory ran out at event %u", o->turn->at);
    if (m.phase != COURSE_OTHER) text_add(t, ", in the %s of step %u", course_phase_name(m.phase), m.step);
    text_add(t, ": %s were asked for", units_bytes_text(o->met.asked, a));
    if (o->turn->stack)
        text_add(t, " (%s%s)", look_stack_text(f, o->turn->stack, frame),
                 look_said_text(f, o->turn->stack, said));
    units_bytes_text(o->used, b);
    if (o->told) {
        text_add(t, ".\nPyTorch had %s reserved and %s in use; in which pieces is not told.\n",
                 units_bytes_text(o->reserved, a), b);
        return;
    }
    if (!o->known) {
        text_add(t, ".\nPyTorch had %s in use; what it had reserved is not known", b);
        say_device_free(t, o, ". The device");
        return;
    }
    text_add(t, ".\nPyTorch had %s reserved and %s in use", units_bytes_text(o->reserved, a), b);
    say_device_free(t, o, "; the device");
    text_add(t, "Free for it were %s, the largest piece %s; %s more of other streams",
             units_bytes_text(o->met.own, a), units_bytes_text(o->met.largest, b),
             units_bytes_text(o->met.other_streams, c));
    text_add(t, ", and %s in segments for %s requests.\n", units_bytes_text(o->met.other_pool, a),
             o->met.rounded <= 1 << 20 ? "large" : "small");
    if (o->met.is_private)
        text_add(
            t,
            "It was asked for in a private pool, as that of a CUDA graph: %s more are free outside of it, "
            "and do not serve it.\n",
            units_bytes_text(o->met.private_pools, a));
    else if (o->met.private_pools)
        text_add(t, "%s more are free in private pools, as those of CUDA graphs, and serve no others.\n",
                 units_bytes_text(o->met.private_pools, a));
    const char *cause = look_cause_name(o);
    if (strcmp(cause, "fragmented") == 0)
        text_add(t, "It would have fit in one piece: PYTORCH_CUDA_ALLOC_CONF=expandable_segments:True.\n");
    else if (strcmp(cause, "unknown") == 0)
        text_add(t, "A piece was large enough. Why it was not taken, the recording does not tell.\n");
    else if (strcmp(cause, "full") == 0)
        text_add(t, "Pieces do not matter: all of them together are too small.\n");
    else
        text_add(t, "Pieces of other streams would do, and are not lent: fewer streams, or empty_cache().\n");
}

/* ---- what may be doubted ---- */

static void say_doubts(text *t, const look_file *f, const look_device *d) {
    const snapshot_trace *x = d->trace;
    if (x->backwards)
        text_add(t, "\nTimes go backwards %u times; the order of the events is kept.\n", x->backwards);
    if (x->replaced)
        text_add(t, "\n%u allocations begin where another one is whose free is missing: events were lost.\n",
                 x->replaced);
    if (x->unlike)
        text_add(t, "\n%u allocations that no event frees are not among the blocks at the end.\n", x->unlike);
    if (f->snapshot.form == SNAPSHOT_TIMELINE)
        text_add(t, "\nA memory timeline has the profiler's own categories, and neither frames nor which "
                    "allocation ends.\n");
    else if (!f->traits.any && f->snapshot.form == SNAPSHOT_TRACE)
        text_add(t, "\nNo allocation lies within a call, so little can be told. Record with "
                    "torch.profiler.profile(profile_memory=True, with_stack=True).\n");
    else if (!f->traits.any)
        text_add(t, "\nNo allocation has frames, so little can be told. Record with "
                    "torch.cuda.memory._record_memory_history(stacks=\"all\").\n");
    else if (!f->traits.native)
        text_add(t, "\nFrames are Python's alone: what has none was taken for backward's.\n");
}

static void say_device(text *t, const look_file *f, const look_device *d) {
    char a[UNITS_TEXT_BYTES], b[UNITS_TEXT_BYTES], name[LOOK_DEVICE_BYTES];
    const snapshot_trace *x = d->trace;
    text_add(t, "%s", look_device_name(x, name));
    text_add(t, d->is_peak ? ": the peak is %s in use, " : ": %s are in use, ",
             units_bytes_text(d->alive.bytes, a));
    look_moment_text(t, d);
    text_add(t, ".\n");
    if (x->reserved)
        text_add(t, "At the end %s are in use of %s reserved.\n", units_bytes_text(alive_end(x), a),
                 units_bytes_text(x->reserved, b));
    say_categories(t, d);
    say_reserved(t, d);
    if (d->oom_count) say_oom(t, f, d, &d->ooms[d->oom_count - 1]);
    say_growth(t, f, d);
    say_remedies(t, d);
    look_say_changes(t, f, d);
    say_steps(t, d);
    say_blocks(t, d);
    say_places(t, f, d);
    say_each(t, f, d);
    say_twin(t, d);
    say_doubts(t, f, d);
}

static void say_skipped(text *t, const look_file *f) {
    char name[LOOK_DEVICE_BYTES];
    for (uint32_t i = 0; i < f->snapshot.trace_count; i++) {
        const snapshot_trace *x = &f->snapshot.traces[i];
        if (!look_is_over(f, x)) continue;
        text_add(t, "%s has %u events and is not shown.\n", look_device_name(x, name), x->events);
    }
}

void look_say(text *t, const look_file *f) {
    char name[REPORT_NAME_BYTES], bytes[UNITS_TEXT_BYTES], number[LOOK_NAME_BYTES];
    text_add(t, "%s: %s\n", report_name(look_path(f, number), name),
             units_bytes_text(f->snapshot.bytes, bytes));
    say_skipped(t, f);
    for (uint32_t i = 0; i < f->count; i++) {
        text_add(t, "\n");
        say_device(t, f, &f->devices[i]);
    }
}

/* ---- several files ---- */

void look_say_heading(text *t) {
    text_add(t, "%12s %12s %12s %12s %12s %12s\n", "peak", "weights", "gradients", "optimizer", "activations",
             "reserved");
}

void look_say_line(text *t, const look_file *f) {
    char column[6][UNITS_TEXT_BYTES], name[REPORT_NAME_BYTES], number[LOOK_NAME_BYTES];
    char where[LOOK_DEVICE_BYTES];
    for (uint32_t i = 0; i < f->count; i++) {
        const look_device *d = &f->devices[i];
        course_moment m = course_moment_of(&d->course, d->instant);
        const uint64_t bytes[] = {
            d->alive.bytes,          d->by_role[ROLES_WEIGHT],     d->by_role[ROLES_GRADIENT],
            d->by_role[ROLES_STATE], d->by_role[ROLES_ACTIVATION], d->gaps.reserved
        };
        for (int k = 0; k < 6; k++) {
            if (bytes[k])
                units_bytes_text(bytes[k], column[k]);
            else
                snprintf(column[k], UNITS_TEXT_BYTES, "-");
        }
        look_device_name(d->trace, where);
        where[0] |= 32; /* within a line */
        text_add(t, "%s, %s: in the %s of step %u\n%12s %12s %12s %12s %12s %12s\n",
                 report_name(look_path(f, number), name), where, course_phase_name(m.phase), m.step,
                 column[0], column[1], column[2], column[3], column[4], column[5]);
    }
}
