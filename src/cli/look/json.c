/* The same for programs; keys: docs/json.md. */
#include "cli/look/look.h"

static void put_frames(json_writer *w, const look_file *f, uint32_t stack) {
    const snapshot *s = &f->snapshot;
    char out[LOOK_NAME_BYTES];
    json_begin_array(w, "frames");
    for (uint32_t i = 0; i < stacks_depth(&s->stacks, stack); i++) {
        const stacks_frame *x = stacks_at(&s->stacks, stack, i);
        json_begin_object(w, NULL);
        json_put_string(w, "name", look_function_name(f, x, out));
        json_put_string(w, "file", look_file_name(f, x, out));
        json_put_unsigned(w, "line", x->line);
        json_end_object(w);
    }
    json_end_array(w);
}

static void put_time(json_writer *w, const char *key, const snapshot_trace *t, uint64_t time) {
    if (t->first)
        json_put_unsigned(w, key, time);
    else
        json_put_null(w, key);
}

/* Where it is known. */
static void put_known(json_writer *w, const char *key, uint64_t value, bool known) {
    if (known)
        json_put_unsigned(w, key, value);
    else
        json_put_null(w, key);
}

/* The moment that is looked at; by default it is the peak. */
static void put_moment(json_writer *w, const look_device *d) {
    course_moment m = course_moment_of(&d->course, d->instant);
    json_begin_object(w, "peak");
    json_put_bool(w, "is_peak", d->is_peak);
    json_put_unsigned(w, "bytes", d->alive.bytes);
    json_put_unsigned(w, "event", d->instant);
    put_time(w, "time_us", d->trace, d->time);
    json_put_unsigned(w, "step", m.step);
    json_put_string(w, "phase", course_phase_name(m.phase));
    json_put_unsigned(w, "allocations", d->alive.count);
    json_begin_object(w, "by_category");
    for (int i = 0; i < ROLES_COUNT; i++) json_put_unsigned(w, roles_name((roles_role)i), d->by_role[i]);
    json_end_object(w);
    json_begin_object(w, "by_evidence");
    for (int i = 0; i < EVIDENCES; i++) json_put_unsigned(w, roles_evidence((evidence)i), d->by_evidence[i]);
    json_end_object(w);
    json_end_object(w);
}

static void put_twin(json_writer *w, const look_device *d) {
    const twin *x = &d->twin;
    json_begin_object(w, "twin");
    json_put_string(w, "not_played", x->why);
    json_put_unsigned(w, "turns", x->turns);
    json_put_unsigned(w, "equal", x->equal);
    json_put_unsigned(w, "differs_at", x->differs_at);
    json_put_unsigned(w, "recorded_bytes", x->recorded);
    json_put_unsigned(w, "made_bytes", x->made);
    json_put_unsigned(w, "taken_peak_bytes", x->taken_peak);
    json_put_unsigned(w, "taken_bytes", x->taken);
    json_put_unsigned(w, "reserved_bytes", x->reserved);
    json_end_object(w);
}

static void put_gaps(json_writer *w, const look_device *d) {
    json_begin_object(w, "reserved");
    bool known = d->gaps.known, told = known || d->gaps.told;
    put_known(w, "bytes", d->gaps.reserved, told);
    put_known(w, "free_bytes", d->gaps.free, told);
    put_known(w, "largest_free_bytes", d->gaps.largest, known);
    put_known(w, "pieces", d->gaps.piece_count, known);
    put_known(w, "segments", d->gaps.segment_count, known);
    put_known(w, "most_bytes", d->reserved.most, told);
    put_known(w, "most_at", d->reserved.at, told);
    json_end_object(w);
}

static void put_steps(json_writer *w, const look_device *d) {
    json_begin_array(w, "steps");
    for (uint32_t i = 0; i < d->steps.count; i++) {
        const steps_step *s = &d->steps.all[i];
        json_begin_object(w, NULL);
        json_put_unsigned(w, "step", s->step);
        json_put_bool(w, "whole", s->whole);
        json_put_unsigned(w, "begins", s->begins);
        json_put_unsigned(w, "ends", s->ends);
        json_put_unsigned(w, "forward_peak_bytes", s->peak[COURSE_FORWARD]);
        json_put_unsigned(w, "backward_peak_bytes", s->peak[COURSE_BACKWARD]);
        json_put_unsigned(w, "update_peak_bytes", s->peak[COURSE_UPDATE]);
        json_put_unsigned(w, "end_bytes", s->end);
        put_known(w, "reserved_bytes", s->reserved, d->gaps.known || d->gaps.told);
        json_end_object(w);
    }
    json_end_array(w);
}

/* Steps until the device is full; < 0: nothing grows, or it is not known what the device has. */
static void put_growth(json_writer *w, const look_file *f, const look_device *d) {
    int64_t left = look_steps_left(f, d);
    json_begin_object(w, "growth");
    json_put_unsigned(w, "bytes_a_step", d->steps.grows);
    if (left < 0)
        json_put_null(w, "steps_left");
    else
        json_put_integer(w, "steps_left", left);
    json_begin_array(w, "by");
    for (uint32_t i = 0; i < d->steps.by_count; i++) {
        json_begin_object(w, NULL);
        json_put_unsigned(w, "bytes", d->steps.by[i].bytes);
        json_put_unsigned(w, "allocations", d->steps.by[i].count);
        put_frames(w, f, d->steps.by[i].stack);
        json_end_object(w);
    }
    json_end_array(w);
    json_end_object(w);
}

static void put_remedies(json_writer *w, const look_device *d) {
    const remedies *r = &d->remedies;
    json_begin_object(w, "remedies");
    json_put_unsigned(w, "peak_bytes", r->peak);
    json_put_unsigned(w, "second_step_bytes", r->second);
    json_begin_object(w, "with");
    for (int k = 0; k < REMEDIES_COUNT; k++) {
        json_begin_object(w, remedies_name((remedies_kind)k));
        json_put_unsigned(w, "peak_bytes", r->rows[k].peak);
        json_put_unsigned(w, "saves_bytes", r->rows[k].saves);
        json_end_object(w);
    }
    json_end_object(w);
    json_end_object(w);
}

static void put_ooms(json_writer *w, const look_file *f, const look_device *d) {
    json_begin_array(w, "out_of_memory");
    for (uint32_t i = 0; i < d->oom_count; i++) {
        const look_oom *o = &d->ooms[i];
        json_begin_object(w, NULL);
        json_put_unsigned(w, "event", o->turn->at);
        json_put_unsigned(w, "asked_bytes", o->met.asked);
        put_known(w, "device_free_bytes", o->turn->address, o->turn->free_known);
        json_put_unsigned(w, "used_bytes", o->used);
        put_known(w, "reserved_bytes", o->reserved, o->known || o->told);
        put_known(w, "free_bytes", o->met.own, o->known);
        put_known(w, "largest_free_bytes", o->met.largest, o->known);
        put_known(w, "other_streams_bytes", o->met.other_streams, o->known);
        put_known(w, "other_pool_bytes", o->met.other_pool, o->known);
        put_known(w, "private_pools_bytes", o->met.private_pools, o->known);
        json_put_bool(w, "in_private_pool", o->met.is_private);
        json_put_string(w, "cause", look_cause_name(o));
        put_frames(w, f, o->turn->stack);
        json_end_object(w);
    }
    json_end_array(w);
}

static void put_sites(json_writer *w, const look_file *file, const look_device *d) {
    const snapshot *s = &file->snapshot;
    char out[LOOK_NAME_BYTES];
    json_put_unsigned(w, "blocks", d->sites.blocks);
    json_begin_array(w, "block_bytes");
    for (uint32_t i = 0; i < d->sites.blocks; i++) json_put_unsigned(w, NULL, d->sites.by_block[i]);
    json_end_array(w);
    json_put_unsigned(w, "outside_bytes", d->sites.outside);
    json_begin_array(w, "places");
    for (uint32_t i = 0; i < d->sites.count; i++) {
        const sites_place *x = &d->sites.places[i];
        bool known = x->frame != UINT32_MAX;
        const stacks_frame *f = known ? stacks_at(&s->stacks, x->stack, x->frame) : NULL;
        json_begin_object(w, NULL);
        json_put_string(w, "category", roles_name(x->role));
        json_put_unsigned(w, "bytes", x->bytes);
        json_put_unsigned(w, "allocations", x->count);
        json_put_bool(w, "in_blocks", x->in_blocks);
        json_put_string(w, "name", known ? look_function_name(file, f, out) : NULL);
        json_put_string(w, "file", known ? look_file_name(file, f, out) : NULL);
        json_put_unsigned(w, "line", known ? f->line : 0);
        json_end_object(w);
    }
    json_end_array(w);
}

static void put_each(json_writer *w, const look_device *d) {
    json_begin_array(w, "each");
    for (uint32_t i = 0; i < d->alive.count; i++) {
        const snapshot_piece *p = d->alive.pieces[i];
        json_begin_object(w, NULL);
        json_put_unsigned(w, "address", p->address);
        json_put_unsigned(w, "bytes", p->bytes);
        json_put_string(w, "category", roles_name(d->verdicts[i].role));
        json_put_string(w, "by", roles_evidence(d->verdicts[i].by));
        json_put_unsigned(w, "born", p->born);
        if (p->died == SNAPSHOT_NEVER)
            json_put_null(w, "died");
        else
            json_put_unsigned(w, "died", p->died);
        json_end_object(w);
    }
    json_end_array(w);
}

static void put_stacks(json_writer *w, const look_file *f, const look_device *d) {
    json_begin_array(w, "stacks");
    for (uint32_t i = 0; i < d->group_count; i++) {
        json_begin_object(w, NULL);
        json_put_unsigned(w, "bytes", d->groups[i].bytes);
        json_put_unsigned(w, "allocations", d->groups[i].count);
        put_frames(w, f, d->groups[i].stack);
        json_end_object(w);
    }
    json_end_array(w);
}

static void put_device(json_writer *w, const look_file *f, const look_device *d) {
    const snapshot_trace *t = d->trace;
    json_begin_object(w, NULL);
    json_put_integer(w, "device", t->device);
    json_put_string(w, "type", look_type_name(t));
    json_put_bool(w, "host", t->host);
    json_put_unsigned(w, "events", t->events);
    json_put_unsigned(w, "allocations", t->allocs);
    json_put_unsigned(w, "frees", t->frees);
    put_time(w, "first_time_us", t, t->first);
    put_time(w, "last_time_us", t, t->last);
    json_put_unsigned(w, "before_bytes", t->base);
    json_put_unsigned(w, "end_bytes", alive_end(t));
    put_known(w, "reserved_bytes", t->reserved, d->gaps.known || d->gaps.told);
    json_put_unsigned(w, "lost_frees", t->replaced);
    json_put_unsigned(w, "backward_times", t->backwards);
    json_put_unsigned(w, "unlike_blocks", t->unlike);
    json_put_unsigned(w, "updates", d->course.updates);
    put_moment(w, d);
    put_gaps(w, d);
    put_twin(w, d);
    put_steps(w, d);
    put_growth(w, f, d);
    put_remedies(w, d);
    look_put_changes(w, f, d);
    put_ooms(w, f, d);
    put_sites(w, f, d);
    put_stacks(w, f, d);
    if (f->words->each) put_each(w, d);
    json_end_object(w);
}

void look_json(json_writer *w, const look_file *f) {
    char out[LOOK_NAME_BYTES];
    json_begin_object(w, NULL);
    json_put_string(w, "file", look_path(f, out));
    json_put_string(w, "form", look_form_name(f));
    json_put_unsigned(w, "bytes", f->snapshot.bytes);
    json_begin_array(w, "devices");
    for (uint32_t i = 0; i < f->count; i++) put_device(w, f, &f->devices[i]);
    json_end_array(w);
    json_end_object(w);
}
