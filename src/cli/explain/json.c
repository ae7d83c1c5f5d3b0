/* The same for programs: causes, kinds and places are words that stay what they are. */
#include "io/json.h"
#include "cli/explain/explain.h"

static const char *const kinds[OOM_KINDS] = { [OOM_NONE] = "none",
                                              [OOM_TORCH] = "torch",
                                              [OOM_VLLM_LENGTH] = "vllm-length",
                                              [OOM_VLLM_NO_CACHE] = "vllm-no-cache",
                                              [OOM_VLLM_NOT_FREE] = "vllm-not-free",
                                              [OOM_VLLM_WARM_UP] = "vllm-warm-up",
                                              [OOM_LLAMA_CPP] = "llama-cpp",
                                              [OOM_HOST] = "host",
                                              [OOM_TENSORFLOW] = "tensorflow",
                                              [OOM_XLA] = "xla",
                                              [OOM_NCCL] = "nccl",
                                              [OOM_CUDA] = "cuda",
                                              [OOM_BITSANDBYTES] = "bitsandbytes",
                                              [OOM_SHARED] = "shared-memory",
                                              [OOM_KILLED] = "host-killed",
                                              [OOM_WORDS] = "words" };

static const char *const causes[OOM_CAUSES] = { [OOM_FULL] = "full",
                                                [OOM_FRAGMENTED] = "fragmented",
                                                [OOM_OTHERS] = "others",
                                                [OOM_TOO_LARGE] = "too-large",
                                                [OOM_BY_OPTIMIZER] = "optimizer",
                                                [OOM_BY_ATTENTION] = "attention",
                                                [OOM_BY_LOSS] = "loss",
                                                [OOM_BY_VALIDATION] = "validation",
                                                [OOM_BY_SAVING] = "saving",
                                                [OOM_BY_LOADING] = "loading",
                                                [OOM_LEAK] = "leak",
                                                [OOM_LIMIT] = "limit",
                                                [OOM_OUTSIDE] = "outside",
                                                [OOM_CACHE] = "cache",
                                                [OOM_OF_HOST] = "host",
                                                [OOM_SHM] = "shm",
                                                [OOM_UNSAID] = "unsaid" };

static const char *const places[OOM_PLACES] = {
    [OOM_FORWARD] = "forward",     [OOM_BACKWARD] = "backward", [OOM_OPTIMIZER] = "optimizer",
    [OOM_ATTENTION] = "attention", [OOM_LOSS] = "loss",         [OOM_VALIDATION] = "validation",
    [OOM_SAVING] = "saving",       [OOM_LOADING] = "loading",   [OOM_GENERATION] = "generation",
    [OOM_CACHING] = "cache"
};

static void put_sizes(json_writer *w, const oom *m) {
    const struct {
        const char *key;
        uint64_t bytes;
    } sizes[] = { { "tried_bytes", m->tried },         { "total_bytes", m->total },
                  { "allowed_bytes", m->allowed },     { "free_bytes", m->free },
                  { "allocated_bytes", m->allocated }, { "unallocated_bytes", m->unallocated },
                  { "process_bytes", m->process },     { "other_bytes", m->others },
                  { "unclear_bytes", m->unclear },     { "unaccounted_bytes", oom_unaccounted(m) },
                  { "needed_bytes", m->needed },       { "available_bytes", m->available } };
    for (size_t i = 0; i < sizeof sizes / sizeof *sizes; i++)
        json_put_unsigned(w, sizes[i].key, sizes[i].bytes);
}

static void put_missing(json_writer *w, const oom *m) {
    static const char *const names[] = { "message", "traceback", "device", "system" };
    unsigned ask = oom_missing(m);
    json_begin_array(w, "missing");
    for (size_t i = 0; i < sizeof names / sizeof *names; i++)
        if (ask & 1u << i) json_put_string(w, NULL, names[i]);
    json_end_array(w);
}

void explain_json(text *t, const oom *m, oom_verdict why, const explain_advice *a) {
    json_writer w = { .out = t, .lines = true };
    json_begin_object(&w, NULL);
    json_put_string(&w, "kind", kinds[m->kind]);
    json_put_string(&w, "backend", explain_backend_of(m)->name);
    json_put_string(&w, "cause", causes[why.cause]);
    json_put_bool(&w, "sure", why.sure);
    if (places[m->place]) json_put_string(&w, "where", places[m->place]);
    json_put_bool(&w, "host_killed", m->killed);
    if (m->gpu >= 0) json_put_integer(&w, "gpu", m->gpu);
    put_sizes(&w, m);
    if (a->estimate.device) {
        json_put_unsigned(&w, "estimated_bytes", a->estimate.device);
        json_put_bool(&w, "settings_far", a->far);
    }
    put_missing(&w, m);
    json_begin_array(&w, "try");
    for (int i = 0; i < a->count; i++) {
        json_begin_object(&w, NULL);
        json_put_string(&w, "what", a->words[i]);
        if (a->saves[i]) json_put_unsigned(&w, "saves_bytes", a->saves[i]);
        json_end_object(&w);
    }
    json_end_array(&w);
    json_end_object(&w);
    text_add(t, "\n");
}
