#include "report/places.h"

#include <string.h>

#include "base/units.h"
#include "device/device_gpu.h"

/* ---- the GPU ---- */

void places_add_gpu(text *out, const plan *p) {
    char is[DEVICE_GPU_TEXT_BYTES];
    const device_gpu *g = p->device->gpu;
    if (!g || !g->capability) return;
    text_add(out, "  %-15s %s: %s%s%s\n", "device", g->title, device_gpu_text(g, is),
             g->chosen[0] ? "; " : "", g->chosen);
}

void places_put_gpu(json_writer *w, const plan *p) {
    const device_gpu *g = p->device->gpu;
    if (!g || !g->capability) return;
    json_begin_object(w, "gpu");
    json_put_string(w, "name", g->name);
    json_put_string(w, "title", g->title);
    json_put_number(w, "capability", g->capability / 10.0);
    json_put_integer(w, "multiprocessors", g->multiprocessors);
    json_put_unsigned(w, "memory_bytes", g->memory);
    json_put_string(w, "chosen", g->chosen);
    json_end_object(w);
}

/* ---- planned ---- */

static void add_budget(text *out, uint64_t budget) {
    char bytes[UNITS_TEXT_BYTES];
    if (budget && budget < UINT64_MAX)
        text_add(out, "of %s", units_bytes_text(budget, bytes));
    else
        text_add(out, "no budget");
}

/* What a context takes is known within an interval, of which a plan takes the upper end. */
static void add_runtime(text *out, const plan *p) {
    char a[UNITS_TEXT_BYTES], b[UNITS_TEXT_BYTES], c[UNITS_TEXT_BYTES], e[UNITS_TEXT_BYTES];
    const device_gpu *g = p->device->gpu;
    text_add(out, "  %-15s %11s  context %s", "runtime there",
             units_bytes_text(device_parts_sum(&p->beside), a), units_bytes_text(p->beside.context, b));
    if (g && g->context[2])
        text_add(out, " (at least %s, likely %s)", units_bytes_text(g->context[0], c),
                 units_bytes_text(g->context[1], e));
    text_add(out, ", code %s, handles %s", units_bytes_text(p->beside.code, b),
             units_bytes_text(p->beside.handles, c));
    if (p->beside.captured) text_add(out, ", captured programs %s", units_bytes_text(p->beside.captured, e));
    if (p->beside.ranks) text_add(out, ", transport %s", units_bytes_text(p->beside.ranks, e));
    text_add(out, "\n");
}

static void add_host(text *out, const setup *s, const plan *p) {
    char a[UNITS_TEXT_BYTES], b[UNITS_TEXT_BYTES], c[UNITS_TEXT_BYTES];
    text_add(out, "  %-15s %11s  ", "host's", units_bytes_text(plan_taken(p, POOL_HOST), a));
    add_budget(out, s->request.run.away_limit);
    text_add(out, "; its pool %s, the process itself %s\n", units_bytes_text(plan_allocated(p, POOL_HOST), b),
             units_bytes_text(p->pools[POOL_HOST].runtime_bytes, c));
}

static void add_files(text *out, const setup *s, const plan *p) {
    char bytes[UNITS_TEXT_BYTES], folder[REPORT_NAME_BYTES];
    if (!plan_file_bytes(p)) {
        text_add(out, "  %-15s %11s\n", "in files", "none");
        return;
    }
    text_add(out, "  %-15s %11s  ", "on disk", units_bytes_text(plan_file_bytes(p), bytes));
    if (s->request.run.away_limit && !p->device->apart)
        add_budget(out, s->request.run.away_limit), text_add(out, ", ");
    text_add(out, "in %s while it runs\n", report_name(p->folder, folder));
}

void places_add(text *out, const setup *s, const decision *d, const parts_colours *k) {
    char bytes[UNITS_TEXT_BYTES];
    const plan *p = &d->plan;
    if (!p->device->apart) { /* the host's memory is the device's, and above stands all of it */
        if (plan_file_bytes(p)) add_files(out, s, p);
        return;
    }
    add_runtime(out, p);
    text_add(out, "\n%sThree kinds of memory%s\n", k->bold, k->end);
    text_add(out, "  %-15s %11s  ", "device's", units_bytes_text(plan_taken(p, POOL_MEMORY), bytes));
    add_budget(out, d->budget);
    text_add(out, "; its pool %s\n", units_bytes_text(plan_pool_bytes(p), bytes));
    add_host(out, s, p);
    add_files(out, s, p);
}

/* ---- for programs ---- */

void places_put_budget(json_writer *w, const char *key, uint64_t bytes) {
    if (bytes == UINT64_MAX)
        json_put_null(w, key);
    else
        json_put_unsigned(w, key, bytes);
}

static void put_measured(json_writer *w, const char *key, const uint64_t *bytes) {
    if (bytes)
        json_put_unsigned(w, key, *bytes);
    else
        json_put_null(w, key);
}

/* What is measured is NULL before a run; budget 0: there is none. */
static void begin_pool(json_writer *w, const char *name, const char *place, uint64_t budget,
                       uint64_t predicted, const uint64_t *measured) {
    json_begin_object(w, NULL);
    json_put_string(w, "name", name);
    json_put_string(w, "device", place);
    places_put_budget(w, "budget_bytes", budget ? budget : UINT64_MAX);
    json_put_unsigned(w, "predicted_bytes", predicted);
    put_measured(w, "measured_bytes", measured);
}

static void put_parts(json_writer *w, const char *key, const device_parts *parts) {
    json_begin_object(w, key);
    json_put_unsigned(w, "context_bytes", parts->context);
    json_put_unsigned(w, "code_bytes", parts->code);
    json_put_unsigned(w, "handles_bytes", parts->handles);
    if (parts->captured) json_put_unsigned(w, "captured_bytes", parts->captured);
    if (parts->ranks) json_put_unsigned(w, "transport_bytes", parts->ranks);
    json_end_object(w);
}

static void put_runtime(json_writer *w, const plan *p, const parts_measured *m) {
    const device_gpu *g = p->device->gpu;
    json_put_unsigned(w, "pool_bytes", plan_pool_bytes(p));
    put_parts(w, "runtime", &p->beside);
    if (g && g->context[2]) {
        json_begin_array(w, "context_interval_bytes");
        for (int i = 0; i < 3; i++) json_put_unsigned(w, NULL, g->context[i]);
        json_end_array(w);
    }
    if (!m) return;
    put_parts(w, "measured_runtime", &m->beside);
    json_put_unsigned(w, "moved_bytes", m->moved_bytes);
}

/* The file and the host's pool have their whole length from the beginning. */
void places_put(json_writer *w, const setup *s, const decision *d, const parts_measured *m) {
    const plan *p = &d->plan;
    uint64_t file = plan_file_bytes(p), host = plan_allocated(p, POOL_HOST),
             limit = s->request.run.away_limit;
    json_begin_array(w, "pools");
    begin_pool(w, "main", p->device->name, d->budget, p->peak_bytes, m ? &m->peak_bytes : NULL);
    if (p->device->apart) put_runtime(w, p, m);
    json_end_object(w);
    if (file) {
        begin_pool(w, "file", "disk", p->device->apart ? 0 : limit, file, m ? &m->pools[POOL_FILE] : NULL);
        json_end_object(w);
    }
    if (host) {
        begin_pool(w, "host", "cpu", limit, host, m ? &m->pools[POOL_HOST] : NULL);
        json_put_unsigned(w, "process_bytes", p->pools[POOL_HOST].runtime_bytes);
        json_end_object(w);
    }
    json_end_array(w);
}
