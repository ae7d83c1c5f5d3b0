/* The settings of vLLM, from options. */
#include "cli/estimate/estimate.h"

void estimate_settle_vllm(estimate_question *e) {
    const estimate_options *x = &e->o->estimate;
    vllm_settings *s = &e->settings.vllm;
    *s = (vllm_settings){ .quantization = x->quantization,
                          .cache = x->cache,
                          .utilization = x->utilization,
                          .context = e->o->run.context ? e->o->run.context : families_context(&e->config),
                          .context_asked = e->o->run.context != 0,
                          .gpus = x->gpus,
                          .block = x->block,
                          .requests = x->requests,
                          .wide = x->types == TORCH_F32,
                          .eager = x->eager };
    vllm_defaults(&e->hardware, s);
    if (x->batched) s->batched = x->batched;
    if (x->sequences) s->sequences = x->sequences;
    if (!x->sequences && s->sequences > s->batched) s->sequences = s->batched;
}
