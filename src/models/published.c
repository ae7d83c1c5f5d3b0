#include "models/published.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

/* From the models' config.json on huggingface.co. */
const published_model published_models[] = {
    { "pythia-70m", "gpt_neox", 6, 8, 8, 64, 512, 2048, 2048, 50304, 1e4, false },
    { "smollm2-135m", "llama", 30, 9, 3, 64, 576, 1536, 8192, 49152, 1e5, true },
    { "pythia-160m", "gpt_neox", 12, 12, 12, 64, 768, 3072, 2048, 50304, 1e4, false },
    { "pythia-410m", "gpt_neox", 24, 16, 16, 64, 1024, 4096, 2048, 50304, 1e4, false },
    { "qwen2.5-0.5b", "qwen2", 24, 14, 2, 64, 896, 4864, 32768, 151936, 1e6, true },
    { "qwen3-0.6b", "qwen3", 28, 16, 8, 128, 1024, 3072, 40960, 151936, 1e6, true },
    { "pythia-1b", "gpt_neox", 16, 8, 8, 256, 2048, 8192, 2048, 50304, 1e4, false },
    { "tinyllama-1.1b", "llama", 22, 32, 4, 64, 2048, 5632, 2048, 32000, 1e4, false },
    { "llama-3.2-1b", "llama", 16, 32, 8, 64, 2048, 8192, 131072, 128256, 5e5, true },
    { "pythia-1.4b", "gpt_neox", 24, 16, 16, 128, 2048, 8192, 2048, 50304, 1e4, false },
    { "qwen2.5-1.5b", "qwen2", 28, 12, 2, 128, 1536, 8960, 131072, 151936, 1e6, true },
    { "qwen3-1.7b", "qwen3", 28, 16, 8, 128, 2048, 6144, 40960, 151936, 1e6, true },
    { "gemma-2b", "gemma", 18, 8, 1, 256, 2048, 16384, 8192, 256000, 1e4, true },
    { "phi-2", "phi", 32, 32, 32, 80, 2560, 10240, 2048, 51200, 1e4, false },
    { "pythia-2.8b", "gpt_neox", 32, 32, 32, 80, 2560, 10240, 2048, 50304, 1e4, false },
    { "qwen2.5-3b", "qwen2", 36, 16, 2, 128, 2048, 11008, 32768, 151936, 1e6, true },
    { "llama-3.2-3b", "llama", 28, 24, 8, 128, 3072, 8192, 131072, 128256, 5e5, true },
    { "phi-3-mini", "phi3", 32, 32, 32, 96, 3072, 8192, 4096, 32064, 1e4, false },
    { "qwen3-4b", "qwen3", 36, 32, 8, 128, 2560, 9728, 40960, 151936, 1e6, true },
    { "llama-2-7b", "llama", 32, 32, 32, 128, 4096, 11008, 4096, 32000, 1e4, false },
    { "pythia-6.9b", "gpt_neox", 32, 32, 32, 128, 4096, 16384, 2048, 50432, 1e4, false },
    { "olmoe-1b-7b", "olmoe", 16, 16, 16, 128, 2048, 1024, 4096, 50304, 1e4, false },
    { "mistral-7b", "mistral", 32, 32, 8, 128, 4096, 14336, 32768, 32000, 1e4, false },
    { "qwen2.5-7b", "qwen2", 28, 28, 4, 128, 3584, 18944, 131072, 152064, 1e6, false },
    { "llama-3-8b", "llama", 32, 32, 8, 128, 4096, 14336, 8192, 128256, 5e5, false },
    { "llama-3.1-8b", "llama", 32, 32, 8, 128, 4096, 14336, 131072, 128256, 5e5, false },
    { "qwen3-8b", "qwen3", 36, 32, 8, 128, 4096, 12288, 40960, 151936, 1e6, false },
    { "gemma-7b", "gemma", 28, 16, 16, 256, 3072, 24576, 8192, 256000, 1e4, true },
    { "pythia-12b", "gpt_neox", 36, 40, 40, 128, 5120, 20480, 2048, 50688, 1e4, false },
    { "llama-2-13b", "llama", 40, 40, 40, 128, 5120, 13824, 4096, 32000, 1e4, false },
    { "phi-3-medium", "phi3", 40, 40, 10, 128, 5120, 17920, 4096, 32064, 1e4, false },
    { "qwen1.5-moe-a2.7b", "qwen2_moe", 24, 16, 16, 128, 2048, 5632, 8192, 151936, 1e6, false },
    { "qwen2.5-14b", "qwen2", 48, 40, 8, 128, 5120, 13824, 131072, 152064, 1e6, false },
    { "qwen3-14b", "qwen3", 40, 40, 8, 128, 5120, 17408, 40960, 151936, 1e6, false },
    { "gpt-neox-20b", "gpt_neox", 44, 64, 64, 96, 6144, 24576, 2048, 50432, 1e4, false },
    { "qwen3-30b-a3b", "qwen3_moe", 48, 32, 4, 128, 2048, 6144, 40960, 151936, 1e6, false },
    { "qwen2.5-32b", "qwen2", 64, 40, 8, 128, 5120, 27648, 131072, 152064, 1e6, false },
    { "qwen3-32b", "qwen3", 64, 64, 8, 128, 5120, 25600, 40960, 151936, 1e6, false },
    { "mixtral-8x7b", "mixtral", 32, 32, 8, 128, 4096, 14336, 32768, 32000, 1e6, false },
    { "llama-2-70b", "llama", 80, 64, 8, 128, 8192, 28672, 4096, 32000, 1e4, false },
    { "llama-3-70b", "llama", 80, 64, 8, 128, 8192, 28672, 8192, 128256, 5e5, false },
    { "llama-3.1-70b", "llama", 80, 64, 8, 128, 8192, 28672, 131072, 128256, 5e5, false },
    { "qwen2.5-72b", "qwen2", 80, 64, 8, 128, 8192, 29568, 131072, 152064, 1e6, false },
    { "mixtral-8x22b", "mixtral", 56, 48, 8, 128, 6144, 16384, 65536, 32000, 1e6, false },
    { "qwen3-235b-a22b", "qwen3_moe", 94, 64, 4, 128, 4096, 12288, 40960, 151936, 1e6, false },
    { "llama-3.1-405b", "llama", 126, 128, 8, 128, 16384, 53248, 131072, 128256, 5e5, false },
    { 0 }
};

/* Of those, what the mixtures of experts have in their feed-forward halves. */
static const struct {
    const char *name;
    decoder_experts has;
} mixtures[] = {
    { "olmoe-1b-7b", { .count = 64, .chosen = 8, .inner = 1024 } },
    { "qwen1.5-moe-a2.7b", { .count = 60, .chosen = 4, .inner = 1408, .shared = 5632 } },
    { "qwen3-30b-a3b", { .count = 128, .chosen = 8, .inner = 768, .normalised = true } },
    { "mixtral-8x7b", { .count = 8, .chosen = 2, .inner = 14336, .normalised = true, .wide = true } },
    { "mixtral-8x22b", { .count = 8, .chosen = 2, .inner = 16384, .normalised = true, .wide = true } },
    { "qwen3-235b-a22b", { .count = 128, .chosen = 8, .inner = 1536, .normalised = true } }
};

static decoder_experts experts_of(const published_model *p) {
    for (size_t i = 0; i < sizeof mixtures / sizeof *mixtures; i++)
        if (strcmp(mixtures[i].name, p->name) == 0) return mixtures[i].has;
    return (decoder_experts){ 0 };
}

double published_parameters(const published_model *p) {
    const decoder_kind *k = decoder_kind_find(p->type);
    double attention = (double)(p->channels * p->head_size) * (double)(2 * p->heads + 2 * p->kv_heads);
    double feed = (double)(p->channels * p->inner) * (k->gate ? 3 : 2);
    decoder_experts e = experts_of(p);
    if (e.count) feed = (double)p->channels * (double)(3 * e.count * e.inner + e.count + 3 * e.shared);
    return (double)p->layers * (attention + feed) + (double)(p->vocabulary * p->channels) * (p->tied ? 1 : 2);
}

/* A number and M, B or T; 0: it is none. */
static double size_of(const char *text) {
    char *end;
    double n = strtod(text, &end);
    double unit = *end == 'B' || *end == 'b'   ? 1e9
                  : *end == 'M' || *end == 'm' ? 1e6
                  : *end == 'T'                ? 1e12
                                               : 0;
    return end != text && unit > 0 && !end[1] && n > 0 && n < 1e6 ? n * unit : 0;
}

static const published_model *find(const char *text) {
    const published_model *near = NULL;
    double size = size_of(text), best = INFINITY;
    for (const published_model *p = published_models; p->name; p++) {
        double away = fabs(log(published_parameters(p) / size));
        if (strcmp(p->name, text) == 0) return p;
        if (size > 0 && !experts_of(p).count && away < best) best = away, near = p;
    }
    return near;
}

bool published_find(const char *text, model_config *c, const char **name) {
    const published_model *p = find(text);
    if (!p) return published_images_find(text, c, name) || published_texts_find(text, c, name);
    *c = (model_config){ .family = FAMILY_DECODER };
    decoder_config *d = &c->decoder;
    *d = (decoder_config){ .kind = decoder_kind_find(p->type),
                           .layers = p->layers,
                           .heads = p->heads,
                           .kv_heads = p->kv_heads,
                           .head_size = p->head_size,
                           .channels = p->channels,
                           .inner = p->inner,
                           .context = p->context,
                           .vocabulary = p->vocabulary,
                           .tied = p->tied,
                           .experts = experts_of(p),
                           .epsilon = 1e-5,
                           .deviation = 0.02,
                           .untrained = "this name stands for its sizes only; give a config.json, or a model "
                                        "directory" };
    const decoder_kind *k = d->kind;
    bool phi = strcmp(p->type, "phi") == 0; /* the published one turns less than its kind by default */
    double share = k->share > 0 ? k->share : 1;
    int64_t turned = phi ? 32 : (int64_t)(share * (double)p->head_size);
    d->order = k->order;
    d->rotary = (rotary_angles_attributes){ .theta = p->theta, .turned = (int32_t)turned };
    d->activation = k->activation;
    d->bias_qkv = k->bias_qkv, d->bias_o = k->bias_o, d->bias_feed = k->bias_feed,
    d->bias_head = k->bias_head;
    *name = p->name;
    return true;
}
