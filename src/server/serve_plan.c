/* The plan of a server for programs: what `serve --json` writes and /plan answers. */
#include "io/json.h"
#include "ops/cache_write/cache_write.h"
#include "plan/category.h"
#include "run/unconfirmed.h"
#include "server/serve.h"

static void put_budget(json_writer *w, uint64_t budget) {
    if (budget && budget != UINT64_MAX)
        json_put_unsigned(w, "budget_bytes", budget);
    else
        json_put_null(w, "budget_bytes");
}

static void put_held(json_writer *w, const serve_held *h) {
    json_begin_object(w, "server");
    json_put_unsigned(w, "queue", h->queue);
    json_put_unsigned(w, "pages", h->pages);
    json_put_unsigned(w, "connections", h->connections);
    json_put_unsigned(w, "reading", h->reading);
    json_put_unsigned(w, "tokenizer", h->tokenizer);
    json_put_unsigned(w, "templates", h->templates);
    json_put_unsigned(w, "answers", h->answers);
    json_put_unsigned(w, "formats", h->formats);
    json_end_object(w);
}

static void put_predicted(json_writer *w, const serve_plan *s) {
    const plan *p = s->plan;
    json_begin_object(w, "predicted");
    json_put_unsigned(w, "peak_bytes", p->peak_bytes);
    json_put_unsigned(w, "arena_bytes", p->pools[POOL_MEMORY].arena_bytes);
    json_put_unsigned(w, "persistent_bytes", p->pools[POOL_MEMORY].persistent_bytes);
    json_begin_object(w, "by_category");
    for (int c = 0; c < CATEGORY_COUNT; c++)
        json_put_unsigned(w, category_name((category)c), p->by_category[c]);
    json_end_object(w);
    put_held(w, s->held);
    json_begin_array(w, "programs");
    for (uint32_t k = 0; k < p->program_count; k++) {
        json_begin_object(w, NULL);
        json_put_string(w, "name", p->programs[k].program.shape.name);
        json_put_integer(w, "rows", p->programs[k].program.shape.batch);
        json_put_unsigned(w, "arena_bytes", p->programs[k].arena_bytes);
        json_end_object(w);
    }
    json_end_array(w);
    json_end_object(w);
}

static void put_sizes(json_writer *w, const serve_plan *s) {
    const engine_sizes *z = s->sizes;
    json_put_integer(w, "max_model_len", z->text_length);
    json_put_integer(w, "max_num_seqs", z->texts);
    json_put_integer(w, "max_num_batched_tokens", z->rows);
    json_put_integer(w, "max_queue", s->options->queue);
    json_put_integer(w, "max_connections", s->options->connections);
    json_put_string(w, "kv_cache_dtype", dtype_name(z->cache));
    json_put_integer(w, "blocks", z->blocks);
    json_put_integer(w, "block_positions", CACHE_BLOCK);
    json_put_integer(w, "cache_tokens", z->blocks * CACHE_BLOCK);
    json_put_integer(w, "texts_at_once", serve_plan_texts(z));
}

static void put_embeddings(json_writer *w, const pooling *p) {
    if (p->refused[0]) {
        json_put_null(w, "embeddings");
        return;
    }
    json_begin_object(w, "embeddings");
    json_put_integer(w, "dimensions", p->width);
    json_put_string(w, "pooling", pooling_name(p->kind));
    json_put_bool(w, "normalized", p->normalizes);
    json_end_object(w);
}

int64_t serve_plan_texts(const engine_sizes *z) {
    int64_t most = z->blocks / engine_sizes_longest(z);
    if (z->blocks == engine_sizes_useful(z)) return z->texts;
    return most < z->texts ? most : z->texts;
}

void serve_plan_json(text *out, const serve_plan *s) {
    json_writer w = { .out = out, .lines = true };
    uint64_t budget = s->options->within ? s->options->within : s->options->engine.memory;
    json_begin_object(&w, NULL);
    json_put_string(&w, "model", s->options->name);
    json_put_bool(&w, "fits", !budget || s->plan->peak_bytes <= budget);
    put_budget(&w, budget);
    put_sizes(&w, s);
    put_embeddings(&w, s->pooling);
    put_predicted(&w, s);
    if (s->plan->device->kind != DEVICE_CPU) unconfirmed_put(&w, unconfirmed_of(s->plan));
    json_end_object(&w);
    text_add(out, "\n");
}

void serve_plan_result_json(text *out, const serve_result *r) {
    json_writer w = { .out = out, .lines = true };
    json_begin_object(&w, NULL);
    json_put_unsigned(&w, "requests", r->requests);
    json_put_unsigned(&w, "answered", r->answered);
    json_put_unsigned(&w, "left", r->left);
    json_put_unsigned(&w, "refused", r->refused);
    json_put_integer(&w, "prompt_tokens", r->prompt_tokens);
    json_put_integer(&w, "new_tokens", r->new_tokens);
    json_put_unsigned(&w, "planned_bytes", r->planned_bytes);
    json_begin_object(&w, "measured");
    json_put_unsigned(&w, "peak_bytes", r->resident_peak_bytes);
    json_put_unsigned(&w, "arena_live_bytes", r->measured.arena_live_bytes);
    json_begin_object(&w, "by_category");
    for (int c = 0; c < CATEGORY_COUNT; c++)
        json_put_unsigned(&w, category_name((category)c), r->measured.by_category[c]);
    json_end_object(&w);
    json_end_object(&w);
    json_end_object(&w);
    text_add(out, "\n");
}
