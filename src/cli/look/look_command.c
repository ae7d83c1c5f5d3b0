/* snug snapshot: where the memory of a job in PyTorch goes, from what its allocator recorded. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/memory.h"
#include "cli/look/look.h"
#include "cli/page_file.h"
#include "snapshot/times.h"

static status judge(look_device *d) {
    d->verdicts = memory_new(d->alive.count + 1, sizeof *d->verdicts);
    if (!d->verdicts) return status_set(STATUS_FAILED, "no memory for what is alive in the snapshot");
    for (uint32_t i = 0; i < d->alive.count; i++) {
        const snapshot_piece *p = d->alive.pieces[i];
        d->verdicts[i] = roles_of(&d->roles, p);
        d->by_role[d->verdicts[i].role] += p->bytes;
        d->by_evidence[d->verdicts[i].by] += p->bytes;
    }
    return STATUS_OK;
}

static void choose_instant(const look_file *f, look_device *d) {
    int64_t at = f->words->at;
    d->is_peak = at < 0;
    d->instant = d->is_peak ? d->trace->top_at : (uint32_t)at;
    d->time = d->trace->first ? times_of(d->trace, d->instant) : 0;
}

static status look_at_oom(const look_file *f, const snapshot_trace *t, const snapshot_turn *x, look_oom *o) {
    alive a;
    gaps g;
    TRY(alive_at(t, x->at, &a));
    status result = gaps_at(&f->snapshot, t, x->at, &a, &g);
    if (result == STATUS_OK)
        *o = (look_oom){ .turn = x,
                         .met =
                             gaps_meet(&g, x->bytes, x->lane, snapshot_lane_at(&f->snapshot, x->lane)->pool),
                         .reserved = g.reserved,
                         .used = a.bytes,
                         .known = g.known,
                         .told = g.told };
    if (result == STATUS_OK) gaps_close(&g);
    alive_close(&a);
    return result;
}

enum { MOST_OOMS = 64 }; /* a program that goes on after each may have thousands: the last ones are told */

static status look_at_ooms(const look_file *f, const snapshot_trace *t, look_device *d) {
    uint32_t turns = snapshot_count(&t->turns), first = turns, found = 0;
    while (first > 0 && found < MOST_OOMS) found += snapshot_turn_at(t, --first)->kind == SNAPSHOT_OOM;
    d->ooms = memory_new(found + 1, sizeof *d->ooms);
    if (!d->ooms) return status_set(STATUS_FAILED, "no memory for what ran out");
    for (uint32_t i = first; i < turns; i++)
        if (snapshot_turn_at(t, i)->kind == SNAPSHOT_OOM)
            TRY(look_at_oom(f, t, snapshot_turn_at(t, i), &d->ooms[d->oom_count++]));
    return STATUS_OK;
}

typedef struct {
    const snapshot_piece *piece;
    verdict verdict;
    uint32_t order;
} judged;

static int largest_first(const void *a, const void *b) {
    const judged *x = a, *y = b;
    if (x->piece->bytes != y->piece->bytes) return x->piece->bytes < y->piece->bytes ? 1 : -1;
    return x->order < y->order ? -1 : x->order > y->order;
}

/* When all is found that wants them in the order of their births. */
static status sort_each(look_device *d) {
    judged *all = memory_room(d->alive.count + 1, sizeof *all);
    if (!all) return status_set(STATUS_FAILED, "no memory to sort what is in use");
    for (uint32_t i = 0; i < d->alive.count; i++) all[i] = (judged){ d->alive.pieces[i], d->verdicts[i], i };
    qsort(all, d->alive.count, sizeof *all, largest_first);
    for (uint32_t i = 0; i < d->alive.count; i++)
        d->alive.pieces[i] = all[i].piece, d->verdicts[i] = all[i].verdict;
    memory_free(all);
    return STATUS_OK;
}

static status look_at(const look_file *f, const snapshot_trace *t, look_device *d) {
    d->trace = t;
    choose_instant(f, d);
    TRY(course_open(&f->snapshot, t, &f->traits, &d->course));
    TRY(roles_open(&d->course, &d->roles));
    TRY(alive_at(t, d->instant, &d->alive));
    TRY(judge(d));
    uint32_t blocks;
    TRY(sites_blocks(&d->course, &d->roles, &blocks));
    TRY(sites_open(&d->course, &d->alive, d->verdicts, blocks, &d->sites));
    TRY(gaps_at(&f->snapshot, t, d->instant, &d->alive, &d->gaps));
    TRY(twin_play(&f->snapshot, t, d->instant, &d->twin));
    d->reserved = gaps_course_of(t);
    TRY(levels_open(t, &d->levels));
    TRY(steps_open(&d->course, &d->levels, &d->steps));
    TRY(remedies_find(&d->course, &d->levels, &d->roles, blocks, &d->remedies));
    TRY(look_find_changes(f, d));
    TRY(look_at_ooms(f, t, d));
    TRY(alive_by_stack(&d->alive, &d->groups, &d->group_count));
    return f->words->each ? sort_each(d) : STATUS_OK;
}

int64_t look_steps_left(const look_file *f, const look_device *d) {
    const steps *s = &d->steps;
    uint64_t most = 0, all = f->words->memory;
    if (!s->grows || !all) return -1;
    const steps_step *last = &s->all[s->count - 1];
    if (!last->whole && s->count > 1) last--;
    for (int p = 0; p < COURSE_PHASES; p++)
        if (last->peak[p] > most) most = last->peak[p];
    return most > all ? 0 : (int64_t)((all - most) / s->grows);
}

const char *look_cause_name(const look_oom *o) {
    if (!o->known || o->met.largest >= o->met.rounded) return "unknown";
    if (o->met.own >= o->met.rounded) return "fragmented";
    return o->met.own + o->met.other_streams >= o->met.rounded ? "other-streams" : "full";
}

static bool is_shown(const snapshot_trace *t) { return t->events || t->base; }

bool look_is_over(const look_file *f, const snapshot_trace *t) {
    return is_shown(t) && f->words->at > (int64_t)t->events;
}

/* The one that comes nearest is told. */
static status check_any(const look_file *f) {
    const snapshot_trace *most = NULL;
    for (uint32_t i = 0; i < f->snapshot.trace_count; i++) {
        const snapshot_trace *t = &f->snapshot.traces[i];
        if (is_shown(t) && !look_is_over(f, t)) return STATUS_OK;
        if (is_shown(t) && (!most || t->events > most->events)) most = t;
    }
    if (!most) return STATUS_OK;
    return status_set(STATUS_INVALID, "--at %lld: device %d has %u events", (long long)f->words->at,
                      most->device, most->events);
}

static status look_at_all(look_file *f) {
    TRY(check_any(f));
    f->devices = memory_new(f->snapshot.trace_count, sizeof *f->devices);
    if (!f->devices) return status_set(STATUS_FAILED, "no memory for the devices");
    TRY(traits_open(&f->snapshot, &f->traits));
    for (uint32_t i = 0; i < f->snapshot.trace_count; i++)
        if (is_shown(&f->snapshot.traces[i]) && !look_is_over(f, &f->snapshot.traces[i]))
            TRY(look_at(f, &f->snapshot.traces[i], &f->devices[f->count++]));
    return STATUS_OK;
}

status look_open(look_file *f) {
    TRY(snapshot_open(f->path, &f->snapshot));
    status result = look_at_all(f);
    if (result != STATUS_OK) look_close(f);
    return result;
}

void look_close(look_file *f) {
    for (uint32_t i = 0; i < f->count; i++) {
        look_device *d = &f->devices[i];
        alive_close(&d->alive);
        course_close(&d->course);
        roles_close(&d->roles);
        sites_close(&d->sites);
        gaps_close(&d->gaps);
        levels_close(&d->levels);
        steps_close(&d->steps);
        memory_free(d->ooms);
        memory_free(d->verdicts);
        memory_free(d->groups);
    }
    memory_free(f->devices);
    traits_close(&f->traits);
    snapshot_close(&f->snapshot);
    *f = (look_file){ 0 };
}

/* Of several files one is open at a time; where one can't be read the others are shown. */
typedef struct {
    const options *o;
    text people, json;
    json_writer writer;
    look_page page;
    uint32_t count, shown;
} looking;

/* One that can't be read, among others. */
static void tell_failure(looking *l, uint32_t i) {
    look_file f = {
        .path = l->o->snapshot.files.items[i], .number = i + 1, .words = &l->o->snapshot, .options = l->o
    };
    char out[LOOK_NAME_BYTES], name[REPORT_NAME_BYTES];
    const char *why = f.words->anonymous ? "it can't be read" : status_message();
    if (f.words->anonymous)
        text_add(&l->people, "%s: %s\n", look_path(&f, out), why);
    else
        text_add(&l->people, "%s\n", report_name(why, name));
    json_begin_object(&l->writer, NULL);
    json_put_string(&l->writer, "file", look_path(&f, out));
    json_put_string(&l->writer, "error", why);
    json_end_object(&l->writer);
    if (l->o->html) look_page_miss(&l->page, look_path(&f, out), why);
}

static status look_at_file(looking *l, uint32_t i) {
    look_file f = {
        .path = l->o->snapshot.files.items[i], .number = i + 1, .words = &l->o->snapshot, .options = l->o
    };
    TRY(look_open(&f));
    /* Of one that fails on the page nothing else is told yet, but why. */
    status result = l->o->html ? look_page_add(&l->page, &f) : STATUS_OK;
    if (result == STATUS_OK && l->count == 1) look_say(&l->people, &f);
    if (result == STATUS_OK && l->count > 1) look_say_line(&l->people, &f);
    if (result == STATUS_OK && l->o->json) look_json(&l->writer, &f);
    look_close(&f);
    return result;
}

static status look_at_files(looking *l) {
    bool several = l->count > 1;
    if (several) look_say_heading(&l->people);
    if (several) json_begin_object(&l->writer, NULL), json_begin_array(&l->writer, "files");
    status first = STATUS_OK;
    char why[STATUS_SENTENCE] = "";
    for (uint32_t i = 0; i < l->count; i++) {
        status result = look_at_file(l, i);
        l->shown += result == STATUS_OK;
        if (result == STATUS_OK) continue;
        if (first == STATUS_OK) first = result, snprintf(why, sizeof why, "%s", status_message());
        if (several) tell_failure(l, i);
    }
    if (several) json_end_array(&l->writer), json_end_object(&l->writer);
    text_add(&l->json, "\n");
    return first == STATUS_OK ? STATUS_OK : status_set(first, "%s", why);
}

/* The page must not replace what it is made of. */
static status check_page(const options *o) {
    for (uint32_t i = 0; o->html && i < o->snapshot.files.count; i++)
        if (io_is_same(o->html, o->snapshot.files.items[i]))
            return status_set(STATUS_INVALID, "--html %s is the snapshot itself; choose another name",
                              o->html);
    return STATUS_OK;
}

/* A file among others that can't be read has its line on the page. */
static status write_page(looking *l, cli_streams *streams, io_writer *file, status so_far) {
    page_file_kept kept;
    page_file_keep(&kept, so_far);
    return page_file_end_kept(l->o, streams, file, look_page_write(&l->page, file), &kept);
}

static status look_and_show(const options *o, cli_streams *streams) {
    looking l = { .o = o, .count = o->snapshot.files.count };
    io_writer html = { 0 };
    l.writer = (json_writer){ .out = &l.json, .lines = true };
    TRY(check_page(o));
    TRY(page_file_open(o, &html));
    look_page_begin(&l.page, l.count);
    status result = look_at_files(&l);
    if (result == STATUS_OK && (l.people.failed || l.json.failed))
        result = status_set(STATUS_FAILED, "no memory for what the snapshot tells");
    bool failed = l.people.failed || l.json.failed;
    if (l.shown && !failed && streams->people.file) output_text(&streams->people, &l.people);
    if (l.shown && !failed && o->json) output_text(&streams->result, &l.json);
    if (l.shown && !failed && o->html) result = write_page(&l, streams, &html, result);
    io_writer_discard(&html);
    look_page_close(&l.page);
    text_close(&l.people);
    text_close(&l.json);
    return result;
}

/* What is estimated is of --for, and of the peak. */
static status check_for(const options *o) {
    options d = options_defaults();
    bool others = o->run.batch != d.run.batch || o->run.context != d.run.context || o->estimate.device ||
                  o->estimate.framework != d.estimate.framework || o->estimate.checkpointing;
    if (!o->for_model && others)
        return status_set(STATUS_INVALID,
                          "--batch, --context, --gpu and the like are of a model: say --for MODEL");
    if (o->for_model && o->snapshot.at >= 0)
        return status_set(STATUS_INVALID, "--for is of the peak: leave --at out");
    return o->for_model && !o->snapshot.files.count ? status_set(STATUS_INVALID, "--for wants a FILE")
                                                    : STATUS_OK;
}

status cli_snapshot(const options *o, cli_streams *streams) {
    const char *recipe = look_recipe((int)o->snapshot.recipe);
    TRY(check_for(o));
    if (*recipe && (o->snapshot.files.count || o->json || o->html))
        return status_set(STATUS_INVALID, "--recipe prints lines of Python: %s",
                          o->json   ? "give no --json with it"
                          : o->html ? "give no --html with it"
                                    : "give no FILE with it");
    if (o->snapshot.files.count) return look_and_show(o, streams);
    if (!*recipe)
        return status_set(STATUS_INVALID,
                          "snapshot wants a FILE: snug snapshot FILE; 'snug help snapshot' shows more, "
                          "and --recipe plain how to make one");
    output_bytes(&streams->result, recipe, strlen(recipe));
    return STATUS_OK;
}
