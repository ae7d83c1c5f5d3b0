/* The settings of SGLang and of TensorRT-LLM, from options. */
#include "cli/estimate/estimate.h"

static engine_settings common(const estimate_question *e) {
    const estimate_options *x = &e->o->estimate;
    return (engine_settings){ .quantization = x->quantization,
                              .small_cache = x->cache == VLLM_CACHE_FP8,
                              .context = e->o->run.context ? e->o->run.context : families_context(&e->config),
                              .context_asked = e->o->run.context != 0,
                              .gpus = x->gpus,
                              .requests = x->requests,
                              .wide = x->types == TORCH_F32 };
}

static void settle_graphs(const estimate_options *x, engine_settings *s) {
    if (x->graph_batch) s->graph_batch = x->graph_batch;
    if (s->running && s->graph_batch > s->running) s->graph_batch = s->running;
    if (x->no_graphs) s->graph_batch = 0;
}

void estimate_settle_sglang(estimate_question *e) {
    const estimate_options *x = &e->o->estimate;
    engine_settings *s = &e->settings.engine;
    *s = common(e);
    s->is_sglang = true;
    engine_sglang_defaults(&e->hardware, s);
    s->fraction = x->static_fraction;
    s->running = x->running;
    if (x->chunk) s->chunk = x->chunk;
    if (x->page) s->page = x->page;
    settle_graphs(x, s);
}

void estimate_settle_trtllm(estimate_question *e) {
    const estimate_options *x = &e->o->estimate;
    engine_settings *s = &e->settings.engine;
    *s = common(e);
    engine_trtllm_defaults(s);
    s->fraction = x->free_fraction;
    s->chunk = x->step_tokens;
    s->running = x->step_texts;
    s->page = x->tokens_per_block;
    settle_graphs(x, s);
}
