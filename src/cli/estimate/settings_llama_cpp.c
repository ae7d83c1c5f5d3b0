/* The settings of llama.cpp, from options. */
#include "cli/estimate/estimate.h"

void estimate_settle_llama_cpp(estimate_question *e) {
    const estimate_options *x = &e->o->estimate;
    e->settings.llama_cpp =
        (llama_cpp_settings){ .mix = x->mix,
                              .keys = llama_cpp_cache_types[x->cache_keys],
                              .values = llama_cpp_cache_types[x->cache_values],
                              .context = e->o->run.context ? e->o->run.context : families_context(&e->config),
                              .context_asked = e->o->run.context != 0,
                              .requests = x->requests,
                              .ubatch = x->ubatch,
                              .gpu_layers = x->gpu_layers,
                              .gpus = x->gpus,
                              .flash = x->attention != ATTENTION_EAGER };
}
