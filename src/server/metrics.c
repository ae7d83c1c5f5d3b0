#include "server/metrics.h"

#include "plan/category.h"

const double metrics_bounds[METRICS_BUCKETS] = { 0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1,
                                                 0.25,  0.5,    1,     2.5,  10,    60 };

void metrics_add(histogram *h, double seconds) {
    int i = 0;
    while (i < METRICS_BUCKETS && seconds > metrics_bounds[i]) i++;
    h->counts[i]++;
    h->sum += seconds;
}

/* ---- families ---- */

typedef struct {
    text *line;
    paper *out;
    pages *pages;
    bool full;
} writer;

static void hand_on(writer *w) {
    w->full |= !pages_add(w->out, w->pages, w->line->data, w->line->length);
    w->line->length = 0;
}

static void begin(writer *w, const char *name, const char *kind, const char *help) {
    if (w->line->length) hand_on(w);
    text_add(w->line, "# HELP %s %s\n# TYPE %s %s\n", name, help, name, kind);
}

static void one(writer *w, const char *name, const char *kind, const char *help, uint64_t value) {
    begin(w, name, kind, help);
    text_add(w->line, "%s %llu\n", name, (unsigned long long)value);
}

static void labelled(writer *w, const char *name, const char *label, const char *word, uint64_t value) {
    text_add(w->line, "%s{%s=\"%s\"} %llu\n", name, label, word, (unsigned long long)value);
}

/* Buckets of Prometheus count all that is below them, too. */
static void spread(writer *w, const char *name, const char *help, const histogram *h) {
    uint64_t all = 0;
    begin(w, name, "histogram", help);
    for (int i = 0; i < METRICS_BUCKETS; i++) {
        all += h->counts[i];
        text_add(w->line, "%s_bucket{le=\"%g\"} %llu\n", name, metrics_bounds[i], (unsigned long long)all);
    }
    all += h->counts[METRICS_BUCKETS];
    text_add(w->line, "%s_bucket{le=\"+Inf\"} %llu\n%s_sum %.9g\n%s_count %llu\n", name,
             (unsigned long long)all, name, h->sum, name, (unsigned long long)all);
}

/* ---- all of them ---- */

static void write_requests(writer *w, const metrics *m, const metrics_now *now) {
    static const char *const words[OUTCOMES] = { "stop", "length", "left",  "refused",
                                                 "full", "closed", "failed" };
    static const char name[] = "snug_requests_total";
    begin(w, name, "counter", "Requests that have ended, by how.");
    for (int i = 0; i < OUTCOMES; i++) labelled(w, name, "outcome", words[i], m->requests[i]);
    one(w, "snug_queue_length", "gauge", "Requests that wait for room.", now->queue);
    one(w, "snug_connections", "gauge", "Connections that are open.", now->connections);
    one(w, "snug_connections_refused_total", "counter", "Connections beyond the planned ones.",
        now->refused_connections);
    begin(w, "snug_pages", "gauge", "Pages of bodies and long answers.");
    labelled(w, "snug_pages", "state", "free", (uint64_t)now->pages_left);
    labelled(w, "snug_pages", "state", "used", (uint64_t)(now->pages - now->pages_left));
}

static void write_engine(writer *w, const engine_stats *e) {
    static const char total[] = "counter", name[] = "snug_blocks";
    one(w, "snug_prompt_tokens_total", total, "Tokens of prompts.", e->prompt_tokens);
    one(w, "snug_cached_tokens_total", total, "Of these: were in the cache.", e->cached_tokens);
    one(w, "snug_drawn_tokens_total", total, "Tokens that were drawn.", e->drawn);
    one(w, "snug_steps_total", total, "Steps of the engine.", e->steps);
    one(w, "snug_rows_total", total, "Rows of steps that stood for a token.", e->rows);
    one(w, "snug_put_back_total", total, "Texts that gave up their blocks for a while.", e->put_back);
    one(w, "snug_recomputed_tokens_total", total, "Tokens that were computed again for them.",
        e->again_tokens);
    one(w, "snug_proposed_tokens_total", total, "Tokens that were looked up and tried.", e->proposed);
    one(w, "snug_accepted_tokens_total", total, "Of these: were drawn indeed.", e->accepted);
    one(w, "snug_failed_texts_total", total, "Texts whose numbers were not finite.", e->failed);
    one(w, "snug_texts", "gauge", "Texts that are written.", (uint64_t)e->texts);
    begin(w, name, "gauge", "Blocks of the cache.");
    labelled(w, name, "state", "used", (uint64_t)e->blocks_used);
    labelled(w, name, "state", "kept", (uint64_t)e->blocks_kept);
    labelled(w, name, "state", "free", (uint64_t)e->blocks_free);
}

static void write_memory(writer *w, const metrics_now *now) {
    static const char name[] = "snug_planned_bytes";
    const plan *p = now->plan->plan;
    begin(w, name, "gauge", "Bytes of the plan.");
    for (int c = 0; c < CATEGORY_COUNT; c++)
        labelled(w, name, "category", category_name((category)c), p->by_category[c]);
    one(w, "snug_resident_bytes", "gauge", "Memory of the process.", now->resident_bytes);
    one(w, "snug_resident_peak_bytes", "gauge", "The most that was.", now->resident_peak_bytes);
}

bool metrics_write(const metrics *m, const metrics_now *now, text *line, paper *out, pages *p) {
    writer w = { line, out, p, false };
    line->length = 0;
    write_requests(&w, m, now);
    write_engine(&w, &now->engine);
    spread(&w, "snug_time_to_first_token_seconds", "From the request to the first token.", &m->first);
    spread(&w, "snug_time_between_tokens_seconds", "From each token of a text to the next.", &m->between);
    write_memory(&w, now);
    hand_on(&w);
    return !w.full;
}
