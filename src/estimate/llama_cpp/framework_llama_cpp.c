/* llama.cpp as a framework that is asked: how much of a model fits a device, and what stays with the host. */
#include <stdio.h>

#include "estimate/framework.h"
#include "estimate/solve.h"

/* ---- asking ---- */

static status check(const framework_subject *q, const framework_settings *s) {
    return llama_cpp_check(q->model, q->config, &s->llama_cpp);
}

static interval sum(const llama_cpp_place *p) {
    uint64_t kept = p->weights + p->cache;
    return (interval){ kept + p->compute.low, kept + p->compute.likely, kept + p->compute.high };
}

/* It holds no kernels of a framework around it, and takes about what the driver itself does. */
static void place(const framework_subject *q, const llama_cpp_result *l, framework_result *r) {
    hardware h = *q->hardware;
    framework_subject less = *q;
    less.hardware = &h;
    interval reserved = sum(&l->device);
    h.context[1] = h.context[0], h.context[0] /= 2, h.workspace = 0;
    framework_place(&less, r, &reserved);
}

typedef struct {
    const framework_subject *subject;
    llama_cpp_settings settings;
} layering;

static status layers_fit(void *context, int64_t layers, bool *fits) {
    layering *x = context;
    llama_cpp_result l;
    framework_result r = { .fits = false };
    x->settings.gpu_layers = layers;
    TRY(llama_cpp_estimate(x->subject->model, x->subject->config, &x->settings, &l));
    place(x->subject, &l, &r);
    *fits = r.fits;
    return STATUS_OK;
}

/* The head counts as one. */
static status most_layers(const framework_subject *q, const llama_cpp_settings *s, int64_t *most) {
    layering x = { q, *s };
    return solve_largest(q->model->layers + 1, layers_fit, &x, most);
}

static framework_fact bytes_fact(const char *key, const char *label, const interval *b) {
    return (framework_fact){
        key, label, FRAMEWORK_BYTES, FRAMEWORK_RESERVED, (double)b->low, (double)b->likely, (double)b->high
    };
}

static framework_fact count_fact(const char *key, const char *label, framework_unit unit, double n) {
    return (framework_fact){ key, label, unit, FRAMEWORK_RESERVED, n, n, n };
}

static status add_facts(const framework_subject *q, const llama_cpp_settings *s, const llama_cpp_result *l,
                        framework_result *r) {
    interval host = sum(&l->host);
    int64_t most = l->layers;
    if (q->hardware->memory) TRY(most_layers(q, s, &most));
    const framework_fact facts[] = {
        count_fact("layers", "layers, the head among them", FRAMEWORK_COUNT, (double)l->layers),
        count_fact("layers_on_device", s->gpus > 1 ? "of them on the devices" : "of them on the device",
                   FRAMEWORK_COUNT, (double)l->on_device),
        count_fact("most_layers", "that would fit there", FRAMEWORK_COUNT, (double)most),
        count_fact("weight_bits", "bits of a weight", FRAMEWORK_TIMES, l->bits),
        bytes_fact("host_bytes", "with the host", &host),
        bytes_fact("host_weights_bytes", "  weights",
                   &(interval){ l->host.weights, l->host.weights, l->host.weights }),
        bytes_fact("host_cache_bytes", "  keys and values",
                   &(interval){ l->host.cache, l->host.cache, l->host.cache }),
        bytes_fact("host_compute_bytes", "  buffers", &l->host.compute),
    };
    for (size_t i = 0; i < sizeof facts / sizeof *facts; i++) framework_add_fact(r, &facts[i]);
    return STATUS_OK;
}

static status bytes_of(const framework_subject *q, const framework_settings *s, llama_cpp_result *l,
                       framework_result *r) {
    *r = (framework_result){ .terms_of = FRAMEWORK_RESERVED,
                             .least_layer = FRAMEWORK_RESERVED,
                             .last_layer = q->hardware->memory ? FRAMEWORK_DEVICE : FRAMEWORK_RESERVED };
    TRY(llama_cpp_estimate(q->model, q->config, &s->llama_cpp, l));
    r->parameters = l->parameters;
    place(q, l, r);
    r->layers[FRAMEWORK_LIVE] = r->layers[FRAMEWORK_RESERVED];
    framework_add_term(r, "weights", l->device.weights);
    framework_add_term(r, "cache", l->device.cache);
    framework_add_term(r, "compute", l->device.compute.likely);
    r->least = l->device.weights;
    return STATUS_OK;
}

static status estimate(const framework_subject *q, const framework_settings *s, framework_result *r) {
    llama_cpp_result l;
    TRY(bytes_of(q, s, &l, r));
    return add_facts(q, &s->llama_cpp, &l, r);
}

static void describe(const framework_subject *q, const framework_settings *settings,
                     const framework_result *r, text *out) {
    const llama_cpp_settings *s = &settings->llama_cpp;
    (void)q;
    text_add(out, "%.2f billion parameters, %s, %lld x %lld tokens of context, keys %s, values %s, %s\n",
             (double)r->parameters / 1e9, gguf_mix_name(s->mix), (long long)s->requests,
             (long long)s->context, llama_cpp_cache_name(s->keys), llama_cpp_cache_name(s->values),
             s->flash ? "flash attention" : "scores as matrices");
    if (s->gpus > 1)
        text_add(out, "layers shared out among %lld devices; bytes are those of the fullest\n",
                 (long long)s->gpus);
}

static int64_t *variable(framework_settings *s, framework_variable v) {
    switch (v) {
    case FRAMEWORK_BATCH: return &s->llama_cpp.requests;
    case FRAMEWORK_CONTEXT: return &s->llama_cpp.context;
    case FRAMEWORK_GPUS: return &s->llama_cpp.gpus;
    }
    return NULL;
}

/* ---- changes ---- */

static bool fits(const framework_subject *q, const framework_settings *s) {
    llama_cpp_result l;
    framework_result r;
    return bytes_of(q, s, &l, &r) == STATUS_OK && r.fits;
}

static bool to_flash(const framework_subject *q, framework_settings *s, char *out) {
    (void)q;
    snprintf(out, FRAMEWORK_CHANGE_BYTES, "--attn flash");
    return !s->llama_cpp.flash && (s->llama_cpp.flash = true);
}

static bool to_what_fits(const framework_subject *q, framework_settings *s, char *out) {
    return !s->llama_cpp.context_asked && framework_shorten(&framework_llama_cpp, q, s, out);
}

static bool to_shorter(const framework_subject *q, framework_settings *s, char *out) {
    return s->llama_cpp.context_asked && framework_shorten(&framework_llama_cpp, q, s, out);
}

static bool to_small_cache(const framework_subject *q, framework_settings *s, char *out) {
    llama_cpp_settings *l = &s->llama_cpp;
    if (gguf_bits(l->keys) < 16 || gguf_bits(l->values) < 16 || !l->flash) return false;
    l->keys = l->values = GGUF_Q8_0;
    snprintf(out, FRAMEWORK_CHANGE_BYTES, "--cache-type-k q8_0 --cache-type-v q8_0");
    return check(q, s) == STATUS_OK;
}

static bool to_short_steps(const framework_subject *q, framework_settings *s, char *out) {
    (void)q;
    snprintf(out, FRAMEWORK_CHANGE_BYTES, "--ubatch-size 128");
    return s->llama_cpp.ubatch > 128 && (s->llama_cpp.ubatch = 128, true);
}

/* The widest of the usual mixes that fits; below four bits answers suffer. */
static bool to_narrower(const framework_subject *q, framework_settings *s, char *out) {
    static const gguf_mix usual[] = { GGUF_MIX_Q8_0, GGUF_MIX_Q6_K, GGUF_MIX_Q5_K_M, GGUF_MIX_Q4_K_M };
    for (size_t i = 0; i < sizeof usual / sizeof *usual; i++) {
        if (usual[i] <= s->llama_cpp.mix) continue;
        s->llama_cpp.mix = usual[i];
        snprintf(out, FRAMEWORK_CHANGE_BYTES, "--gguf %s", gguf_mix_name(usual[i]));
        if (fits(q, s)) return true;
    }
    return false;
}

static bool to_fewer_layers(const framework_subject *q, framework_settings *s, char *out) {
    int64_t most = 0;
    if (!q->hardware->memory || most_layers(q, &s->llama_cpp, &most) != STATUS_OK) return false;
    if (most >= s->llama_cpp.gpu_layers) return false;
    s->llama_cpp.gpu_layers = most;
    snprintf(out, FRAMEWORK_CHANGE_BYTES, "--gpu-layers %lld", (long long)most);
    return true;
}

static const framework_change changes[] = {
    { .apply = to_flash },
    { .apply = to_what_fits },
    { .apply = to_small_cache, .alone = true },
    { .apply = to_short_steps, .alone = true },
    { .apply = to_narrower },
    { .apply = to_shorter, .alone = true },
    { .apply = to_fewer_layers },
};

const framework framework_llama_cpp = { .name = "llama.cpp",
                                        .title = "llama.cpp",
                                        .changes = changes,
                                        .change_count = sizeof changes / sizeof *changes,
                                        .check = check,
                                        .estimate = estimate,
                                        .describe = describe,
                                        .variable = variable };
