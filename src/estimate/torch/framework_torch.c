/* PyTorch and Hugging Face's transformers on it, as frameworks that are asked. */
#include <stdio.h>
#include <string.h>

#include "base/units.h"
#include "estimate/framework.h"
#include "estimate/heads.h"
#include "estimate/torch/torch_besides.h"
#include "estimate/torch/torch_beyond.h"
#include "estimate/torch/torch_check.h"
#include "estimate/torch/torch_grpo.h"
#include "estimate/torch/torch_host.h"
#include "estimate/torch/torch_process.h"
#include "estimate/torch/torch_time.h"
#include "estimate/torch/torch_versions.h"

/* ---- asking ---- */

/* transformers can compute blocks again of those that are made of transformers' blocks. */
static bool has_checkpointing(const framework_subject *q) {
    return q->config->family != FAMILY_RESNET && q->config->family != FAMILY_CONVNEXT;
}

/* Of the blocks, which adapters stand beside. */
static bool has_products(const framework_subject *q) { return q->config->family != FAMILY_RESNET; }

/* Models of images: what belongs to tokens is refused. */
static status check_images(const framework_subject *q, const torch_settings *s) {
    if (q->model->context) return STATUS_OK;
    if (s->context)
        return status_set(STATUS_INVALID,
                          "--context %lld: %s sees images, which have no length; leave it out",
                          (long long)s->context, q->model->name);
    if (s->fused_loss)
        return status_set(STATUS_INVALID, "--loss fused is for vocabularies; %s has few classes",
                          q->model->name);
    if (s->checkpointing && !has_checkpointing(q))
        return status_set(STATUS_INVALID, "--gradient-checkpointing: transformers has none for %s",
                          q->model->family);
    return STATUS_OK;
}

/* What the rules of litgpt were written for. It refuses codes under autocast (finetune/lora.py), which older
 * releases did not. */
static status check_litgpt(const framework_subject *q, const torch_settings *s) {
    const model_config *c = q->config;
    if (s->base_bits == 4 && s->types == TORCH_AUTOCAST && !s->older)
        return status_set(STATUS_INVALID,
                          "--base-bits 4: litgpt has it without autocast alone; say --dtype half as well");
    bool knows = c->family == FAMILY_DECODER && !(c->decoder.cap_logits > 0) && !c->decoder.experts.count;
    if (knows) return STATUS_OK;
    return status_set(STATUS_INVALID,
                      "--framework litgpt is for decoders without experts and caps on logits, and %s is %s; "
                      "take --framework hf",
                      q->model->name,
                      c->family != FAMILY_DECODER ? q->model->family
                      : c->decoder.experts.count  ? "a mixture of experts"
                                                  : "one with caps");
}

/* Its kernels take 16 bits, which weights have that are f32 nowhere; T5 adds a bias by distance, of which
 * they know nothing. */
static status check_flash_attn(const framework_subject *q, const torch_settings *s) {
    if (s->attention != TORCH_FLASH_ATTN) return STATUS_OK;
    if (!s->cuda)
        return status_set(STATUS_INVALID, "--attn flash_attention_2 has kernels for GPUs alone, and here it "
                                          "is --device cpu; say --attn sdpa");
    if (s->types == TORCH_F32 && (!s->adapter_rank || s->base_bits == 32))
        return status_set(STATUS_INVALID, "--attn flash_attention_2 has kernels for 16 bits alone; say "
                                          "--dtype autocast or half, or --attn sdpa");
    if (q->config->family == FAMILY_T5)
        return status_set(STATUS_INVALID,
                          "--attn flash_attention_2: transformers has it not for %s, whose scores have a "
                          "bias by distance; say --attn sdpa",
                          q->model->name);
    return STATUS_OK;
}

static status check(const framework_subject *q, const framework_settings *settings) {
    const torch_settings *s = &settings->torch;
    TRY(torch_check_cut(s));
    if (s->litgpt) TRY(check_litgpt(q, s));
    TRY(torch_check_version(s));
    TRY(torch_check_beyond(q, s));
    TRY(check_images(q, s));
    TRY(torch_check_bits(s));
    TRY(check_flash_attn(q, s));
    if (s->adapter_rank && !has_products(q))
        return status_set(STATUS_INVALID,
                          "--adapter-rank %lld: adapters stand beside products, and %s has convolutions",
                          (long long)s->adapter_rank, q->model->name);
    if (s->reentrant && !s->checkpointing)
        return status_set(STATUS_INVALID,
                          "--reentrant is a way of --gradient-checkpointing; say that as well");
    TRY(torch_check_shares(s));
    TRY(torch_grpo_check(q->model, s,
                         q->config->family == FAMILY_DECODER || q->config->family == FAMILY_GPT2));
    int64_t most = families_context(q->config);
    if (s->context > most && (q->config->family == FAMILY_GPT2 || q->config->family == FAMILY_ENCODER))
        return status_set(STATUS_INVALID,
                          "--context %lld is longer than the %lld positions that %s has learned",
                          (long long)s->context, (long long)most, q->model->name);
    return STATUS_OK;
}

/* Models without a length see images. */
static interval beside_of(const framework_subject *q, const framework_settings *s) {
    return torch_process(!q->model->context, s->torch.gpus, torch_loads_at_once(&s->torch));
}

/* What is left for the allocator. */
static uint64_t room_of(const framework_subject *q, const framework_settings *s) {
    const hardware *h = q->hardware;
    uint64_t beside = h->overhead ? h->overhead : h->context[1] + beside_of(q, s).likely;
    return h->memory > beside ? h->memory - beside : 0;
}

/* Workspaces are the allocator's, so they are in what is reserved. */
static void place(const framework_subject *q, const interval *reserved, framework_result *r) {
    hardware h = *q->hardware;
    framework_subject less = *q;
    less.hardware = &h;
    h.workspace = 0;
    framework_place(&less, r, reserved);
}

/* No device shows more than it has, so a run that surely fits still does. */
static void add_unequal(const framework_subject *q, const torch_settings *s, const torch_result *t,
                        framework_result *r) {
    uint64_t adds = torch_unequal_adds(s, t), memory = q->hardware->memory;
    interval *whole = &r->layers[FRAMEWORK_DEVICE];
    if (!r->surely) return;
    if (memory && adds > memory - whole->high) adds = memory - whole->high;
    r->layers[FRAMEWORK_RESERVED].high += adds, whole->high += adds;
}

/* What lies free in segments is in the interval of what is reserved, and a full device gets it back before a
 * request fails. So a run fits also where the step could be as large as live bytes may be: played on a device
 * that is smaller by that factor it stays within. Rules of the libraries of 2023 are too low by what is not
 * explained (bench/results/fits.md), which that interval holds for them. */
static status give_back(const framework_subject *q, const torch_settings *s, framework_result *r) {
    const hardware *h = q->hardware;
    const interval *live = &r->layers[FRAMEWORK_LIVE];
    uint64_t beside = h->overhead ? h->overhead : h->context[2] + r->beside.high;
    if (!r->fits || r->surely || !s->cuda || s->older || beside >= h->memory) return STATUS_OK;
    torch_settings smaller = *s;
    torch_result played;
    uint64_t room = h->memory - beside;
    smaller.limit = (uint64_t)((double)room * (double)live->likely / (double)live->high);
    TRY(torch_estimate(q->model, &smaller, &played));
    if (played.held > smaller.limit) return STATUS_OK;
    r->layers[FRAMEWORK_RESERVED].high = room, r->layers[FRAMEWORK_DEVICE].high = h->memory;
    r->surely = true;
    return STATUS_OK;
}

/* Of no device, and of those whose file is silent: an A100's. */
static const int64_t usual_multiprocessors = 108, usual_threads = 2048;

/* ---- besides the step ---- */

typedef struct {
    const char *key, *label;
    const interval *bytes;
} besides_fact;

/* Those that are not 0, below a heading. */
static void add_facts(const char *under, framework_layer layer, const besides_fact *facts, size_t count,
                      framework_result *r) {
    for (size_t i = 0; i < count; i++) {
        const interval *b = facts[i].bytes;
        if (!b->high) continue;
        framework_add_fact(r, &(framework_fact){ .key = facts[i].key,
                                                 .label = facts[i].label,
                                                 .unit = FRAMEWORK_BYTES,
                                                 .layer = layer,
                                                 .low = (double)b->low,
                                                 .likely = (double)b->likely,
                                                 .high = (double)b->high });
        r->under[r->fact_count - 1] = under, under = NULL;
    }
}

/* Saving reads storages one by one, so where nothing is gathered for it, it takes nothing more. */
static void add_besides(const torch_settings *s, const torch_result *t, framework_result *r) {
    const torch_besides *b = &t->besides;
    const interval none = { 0, 0, 0 };
    const besides_fact facts[] = { { "evaluating_bytes", "validation, as many at once", &b->evaluating },
                                   { "generating_bytes", "generating, texts as long",
                                     s->grpo.asked ? &none : &b->generating },
                                   { "loading_bytes", "loading weights", &b->loading },
                                   { "resuming_bytes", "loading a checkpoint", &b->resuming },
                                   { "misplaced_bytes", "others' copies, if misplaced", &b->misplaced },
                                   { "saving_bytes", "saving", &b->saving } };
    add_facts(b->saving.likely ? "Besides the step, live"
                               : "Besides the step, live; saving takes nothing more",
              FRAMEWORK_LIVE, facts, sizeof facts / sizeof *facts, r);
    r->unknown_count = (uint32_t)torch_besides_unknown(s, r->unknown);
}

/* What a step of GRPO's does one after the other, and how many texts vLLM makes at once. */
static void add_phases(const torch_settings *s, const torch_result *t, const vllm_result *v,
                       framework_result *r) {
    const interval *p = t->phases;
    const besides_fact facts[] = {
        { "rollouts_bytes", "texts are made", &p[TORCH_PHASE_GENERATING] },
        { "old_bytes", "the model's chances of them", &p[TORCH_PHASE_OLD] },
        { "reference_bytes", "the reference's", &p[TORCH_PHASE_REFERENCE] },
        { "training_bytes", "training", &p[TORCH_PHASE_TRAINING] },
    };
    if (!s->grpo.asked) return;
    add_facts("Phases of a step, live", FRAMEWORK_LIVE, facts, sizeof facts / sizeof *facts, r);
    if (!s->grpo.awake) return;
    framework_add_fact(r, &(framework_fact){ .key = "concurrency",
                                             .label = "texts of --context at once",
                                             .unit = FRAMEWORK_TIMES,
                                             .low = v->concurrency[0],
                                             .likely = v->concurrency[1],
                                             .high = v->concurrency[2] });
    r->under[r->fact_count - 1] = "In vLLM's cache";
}

/* Weights as they are loaded: with autocast those of 16 bits become f32, whatever DeepSpeed makes of them. */
static void add_host(const torch_settings *s, const torch_result *t, framework_result *r) {
    double numbers = (double)(t->parameters - (s->adapter_rank ? t->trained : 0));
    bool half = s->types == TORCH_HALF || (s->adapter_rank && s->base_bits == 16);
    torch_host h;
    torch_host_find(&(torch_host_of){ .s = s,
                                      .weights = numbers * (half ? 2 : 4),
                                      .narrow = numbers * 2,
                                      .state = (double)t->state,
                                      .adapters = s->adapter_rank ? (double)t->trained_bytes : 0,
                                      .coded = s->adapter_rank && s->base_bits == 4 ? numbers / 2 : 0,
                                      .batch = (double)t->by_term[TAPE_INPUTS],
                                      .gradients = (double)t->trained * (s->types == TORCH_HALF ? 2 : 4),
                                      .workers = s->workers },
                    &h);
    bool several = s->gpus > 1 && s->node_gpus != 1;
    const besides_fact facts[] = {
        { "host_process_bytes", "each process itself", &h.process },
        { "host_loader_bytes", "its data loader", &h.loader },
        { "host_shared_bytes", "of that in /dev/shm", &h.shared },
        { "host_kept_bytes", "kept there, of each process", &h.kept },
        { "host_loading_bytes", several ? "loading weights, all processes" : "loading weights", &h.loading },
        { "host_resuming_bytes", several ? "a checkpoint, all processes" : "loading a checkpoint",
          &h.resuming },
        { "host_saving_bytes", several ? "saving, all processes" : "saving", &h.saving },
        { "host_bytes", several ? "the most of all processes" : "the most of all that", &h.whole },
    };
    r->host = h.whole;
    add_facts(s->node_gpus ? "Host memory of a node, resident" : "Host memory, resident", FRAMEWORK_DEVICE,
              facts, sizeof facts / sizeof *facts, r);
}

/* Hours, where they are asked for. */
static void add_time(const torch_settings *s, const hardware *h, const torch_result *t, framework_result *r) {
    char steps[UNITS_TEXT_BYTES], shares[64];
    torch_time w;
    if (!(s->tokens > 0) && !s->steps) return;
    if (s->grpo.asked) {
        r->unknown[r->unknown_count++] = "hours of making texts have no rule";
        return;
    }
    if (s->host_keeps) {
        r->unknown[r->unknown_count++] = "hours with updates on the host have no rule";
        return;
    }
    if (!torch_time_find(s, h, t, &w)) {
        r->unknown[r->unknown_count++] =
            "hours have no rule: the device's file has no rate for products of this type";
        return;
    }
    double devices = s->gpus > 1 ? (double)s->gpus : 1;
    if (s->share > 0)
        snprintf(shares, sizeof shares, "%.3g %%, as --mfu says,", 100 * s->share);
    else
        snprintf(shares, sizeof shares, "%.0f %%, %.0f to %.0f,", 100 * w.share, 100 * w.share_low,
                 100 * w.share_high);
    snprintf(r->time_is, sizeof r->time_is, "Time of %s steps, at %s of %.4g trillion operations a second",
             units_count_text((uint64_t)(w.steps + 0.5), steps), shares, w.peak / 1e12);
    const struct {
        const char *key, *label;
        double times;
    } facts[] = { { "gpu_hours", "hours of devices", devices }, { "hours", "hours by the clock", 1 } };
    for (size_t i = 0; i < sizeof facts / sizeof *facts; i++)
        framework_add_fact(r, &(framework_fact){ .key = facts[i].key,
                                                 .label = facts[i].label,
                                                 .unit = FRAMEWORK_HOURS,
                                                 .low = w.clock.low * facts[i].times,
                                                 .likely = w.clock.likely * facts[i].times,
                                                 .high = w.clock.high * facts[i].times });
    r->under[r->fact_count - 2] = r->time_is;
}

/* What a token leaves in a cache, of models that continue texts. */
static void set_cache(const framework_subject *q, torch_settings *s) {
    heads h;
    if (!heads_of(q->config, &h)) return;
    s->cache_numbers = 2 * h.kv_heads * h.head_size;
    s->turns_keys = h.rotated > 0 && !q->model->spelling.wide_turns;
    s->layers = h.layers, s->near_layers = h.window ? h.near : 0, s->window = h.window;
}

/* The settings with what the device says. */
static torch_settings settings_on(const framework_subject *q, const framework_settings *s) {
    torch_settings with = s->torch;
    with.limit = room_of(q, s);
    with.workspace = q->hardware->workspace;
    with.unfused = q->hardware->no_fused;
    bool known = q->hardware->multiprocessors && q->hardware->threads;
    with.multiprocessors = known ? q->hardware->multiprocessors : usual_multiprocessors;
    with.threads = known ? q->hardware->threads : usual_threads;
    set_cache(q, &with);
    return with;
}

/* vLLM beside the trainer, as TRL starts it (_init_vllm of generation/vllm_generation.py), for texts no
 * longer than --context. Of a device it fills its share; asleep it keeps graphs and what is not its
 * allocator's. */
static status set_engine(const framework_subject *q, torch_settings *s, vllm_result *v) {
    torch_grpo *g = &s->grpo;
    *v = (vllm_result){ 0 };
    if (!g->asked || (g->rollouts != TORCH_COLOCATES && g->rollouts != TORCH_SLEEPS)) return STATUS_OK;
    int64_t texts = torch_grpo_texts(s);
    vllm_settings engine = { .utilization = g->share,
                             .context = s->context,
                             .gpus = 1,
                             .block = 16,
                             .requests = texts,
                             .batched = 4096,
                             .sequences = texts,
                             .quantization = s->base_bits == 4 ? SERVED_BITSANDBYTES : SERVED_PLAIN };
    TRY(vllm_estimate(q->model, q->config, q->hardware, &engine, v));
    g->asleep = v->graphs.likely + v->libraries.likely;
    g->awake = q->hardware->memory ? v->share
                                   : g->asleep + v->weights.likely + v->activations.likely + v->cache.likely;
    return STATUS_OK;
}

/* It does not start where not one of the longest texts has room in its cache. */
static void judge_engine(const torch_settings *s, const vllm_result *v, framework_result *r) {
    double one = v->needed / (double)torch_grpo_texts(s);
    if (!s->grpo.awake || (double)v->cache.likely >= one) return;
    if (r->fits) r->beyond = 0;
    r->fits = r->surely = r->spares = false;
    r->beyond += (uint64_t)one - v->cache.likely;
}

static status watch(const framework_subject *q, const framework_settings *s, tape_watcher *w) {
    torch_settings with = settings_on(q, s);
    if (with.grpo.asked)
        return status_set(STATUS_INVALID, "--html has no picture of GRPO's phases; leave it out");
    return torch_watch(q->model, &with, w);
}

static status estimate(const framework_subject *q, const framework_settings *s, framework_result *r) {
    torch_result t;
    *r = (framework_result){ .terms_of = FRAMEWORK_LIVE, .last_layer = FRAMEWORK_DEVICE };
    vllm_result engine;
    torch_settings with = settings_on(q, s);
    TRY(set_engine(q, &with, &engine));
    TRY(torch_estimate(q->model, &with, &t));
    torch_reach_beyond(q, &with, &t);
    r->layers[FRAMEWORK_LIVE] = t.live;
    for (int k = 0; k < TAPE_TERMS; k++)
        if (k < TAPE_REFERENCE || t.by_term[k])
            framework_add_term(r, tape_term_name((tape_term)k), t.by_term[k]);
    r->peak_in = t.peak_in;
    r->parameters = t.parameters, r->trained = t.trained;
    if (!q->hardware->memory) r->last_layer = s->torch.cuda ? FRAMEWORK_RESERVED : FRAMEWORK_LIVE;
    r->beside = beside_of(q, s);
    add_phases(&with, &t, &engine, r);
    add_besides(&with, &t, r);
    add_host(&with, &t, r);
    add_time(&with, q->hardware, &t, r);
    place(q, &t.reserved, r);
    add_unequal(q, &with, &t, r);
    TRY(give_back(q, &with, r));
    judge_engine(&with, &engine, r);
    return STATUS_OK;
}

/* Encoders are read with the head that they are trained with before they are given another one. */
static void describe_head(const framework_subject *q, const framework_result *r, text *out) {
    char logits[UNITS_TEXT_BYTES];
    if (!families_fills(q->config) || families_token_labels(q->config)) return;
    for (uint32_t i = 0; i < r->term_count; i++)
        if (strcmp(r->terms[i].name, "logits") == 0 && r->terms[i].bytes)
            text_add(out,
                     "with the head that fills gaps, whose logits a classifier (--labels) doesn't have: up "
                     "to %s less\n",
                     units_bytes_text(r->terms[i].bytes, logits));
}

/* Whose samples --batch counts is not the same on one device and on several, so both are said. */
static void describe_step(const torch_settings *s, text *out) {
    int64_t devices = s->gpus > 1 ? s->gpus : 1, samples = s->batch * devices * torch_accumulation(s);
    text_add(out, "%lld ", (long long)s->batch);
    if (s->context) text_add(out, "x %lld tokens", (long long)s->context);
    if (!s->context) text_add(out, "images");
    text_add(out, " at once");
    if (devices > 1) text_add(out, " on each of %lld devices", (long long)devices);
    if (samples != s->batch) text_add(out, ", %lld samples a step", (long long)samples);
}

static void describe(const framework_subject *q, const framework_settings *settings,
                     const framework_result *r, text *out) {
    static const char *const types[] = { "float32", "autocast to 16 bits", "16 bits" };
    const torch_settings *s = &settings->torch;
    const hardware *h = q->hardware;
    char count[UNITS_TEXT_BYTES];
    text_add(out, "%s parameters, ", units_count_text(r->parameters, count));
    if (r->trained == r->parameters)
        text_add(out, "all trained, ");
    else
        text_add(out, "%s trained, ", units_count_text(r->trained, count));
    describe_step(s, out);
    text_add(out, ", %s\n", types[s->types]);
    describe_head(q, r, out);
    if (s->host_keeps)
        text_add(out, "%s with the host, and the update is made there\n",
                 s->host_keeps == TORCH_KEEPS_ALL ? "weights, gradients and the optimizer's state are kept"
                                                  : "gradients and the optimizer's state are kept");
    if (s->adapter_rank && s->base_bits == 4 && q->config->family == FAMILY_DECODER &&
        q->config->decoder.experts.count && !s->older)
        text_add(
            out,
            "experts are one tensor today, which bitsandbytes doesn't code: of them --base-bits 4 is %d\n",
            s->types == TORCH_HALF ? 16 : 32);
    torch_grpo_describe(s, out);
    if (torch_accumulation(s) > 1)
        text_add(out, "gradients of %lld micro-batches add up before a step\n",
                 (long long)torch_accumulation(s));
    if (s->version) torch_describe_version(s, out);
    torch_describe_beyond(q, s, out);
    if (h->no_bf16 && s->types != TORCH_F32)
        text_add(out, "%s has no bf16: 16 bits are f16, with a loss scaler\n", h->name);
    if (h->no_fused && s->attention == TORCH_FLASH)
        text_add(out, "%s has no fused attention of torch's: scores are written out\n", h->name);
    else if (h->no_flash && s->attention == TORCH_FLASH)
        text_add(out, "%s has no flash attention: torch takes its memory-efficient kernel\n", h->name);
    else if ((h->no_fused || h->no_flash) && s->attention == TORCH_FLASH_ATTN)
        text_add(out, "%s has no kernels of flash-attn's: the model does not run so; say --attn sdpa\n",
                 h->name);
}

static int64_t *variable(framework_settings *s, framework_variable v) {
    switch (v) {
    case FRAMEWORK_BATCH: return &s->torch.batch;
    case FRAMEWORK_CONTEXT: return &s->torch.context;
    case FRAMEWORK_GPUS: return &s->torch.gpus;
    }
    return NULL;
}

/* ---- changes ---- */

static bool to_flash(const framework_subject *q, framework_settings *settings, char *out) {
    torch_settings *s = &settings->torch;
    (void)q;
    snprintf(out, FRAMEWORK_CHANGE_BYTES, "--attn flash");
    return !s->litgpt && !torch_is_before(s, TORCH_2_0) && s->attention == TORCH_EAGER &&
           (s->attention = TORCH_FLASH, true);
}

static bool to_fused_update(const framework_subject *q, framework_settings *settings, char *out) {
    torch_settings *s = &settings->torch;
    (void)q;
    snprintf(out, FRAMEWORK_CHANGE_BYTES, "--optimizer-kernels fused");
    return s->update != TORCH_FUSED && !torch_is_before(s, TORCH_2_0) && s->optimizer == OPTIMIZER_ADAMW &&
           (s->update = TORCH_FUSED, true);
}

static bool to_fused_loss(const framework_subject *q, framework_settings *settings, char *out) {
    torch_settings *s = &settings->torch;
    snprintf(out, FRAMEWORK_CHANGE_BYTES, "--loss fused");
    return q->model->vocabulary && !s->litgpt && !s->grpo.asked && !s->fused_loss && (s->fused_loss = true);
}

static bool to_sleep(const framework_subject *q, framework_settings *settings, char *out) {
    torch_grpo *g = &settings->torch.grpo;
    (void)q;
    snprintf(out, FRAMEWORK_CHANGE_BYTES, "--rollouts vllm-sleep");
    return g->asked && g->rollouts == TORCH_COLOCATES && (g->rollouts = TORCH_SLEEPS, true);
}

/* Whole groups of texts are made at once. */
static bool to_fewer_texts(const framework_subject *q, framework_settings *settings, char *out) {
    torch_settings *s = &settings->torch;
    int64_t devices = s->gpus > 1 ? s->gpus : 1, passes = 1;
    (void)q;
    if (!s->grpo.asked || s->grpo.rollouts != TORCH_GENERATES) return false;
    while (s->batch * devices * passes % s->grpo.generations) passes++;
    if (passes >= torch_grpo_passes(s)) return false;
    s->grpo.passes = passes;
    snprintf(out, FRAMEWORK_CHANGE_BYTES, "--steps-per-generation %lld", (long long)passes);
    return true;
}

/* The largest micro-batch up to `most` that a step is a whole number of. */
static int64_t even_cut(const torch_settings *s, int64_t most) {
    int64_t gpus = s->gpus > 1 ? s->gpus : 1, samples = s->step > gpus ? s->step / gpus : s->batch;
    while (most > 1 && samples % most) most--;
    return most;
}

/* A batch norm learns from all samples of a batch at once: cut into parts it is another training. */
static bool may_be_cut(const framework_subject *q) { return q->config->family != FAMILY_RESNET; }

/* Of GRPO as many texts are made at once as before. */
static void cut_to(torch_settings *s, int64_t batch) {
    if (s->grpo.passes) s->grpo.passes = torch_grpo_texts(s) / batch;
    s->batch = batch;
}

static bool to_smaller(const framework_subject *q, framework_settings *settings, char *out) {
    torch_settings *s = &settings->torch;
    if (s->batch < 2 || !may_be_cut(q)) return false;
    cut_to(s, even_cut(s, (s->batch + 1) / 2));
    snprintf(out, FRAMEWORK_CHANGE_BYTES, "--micro-batch %lld", (long long)s->batch);
    return true;
}

static bool to_checkpointing(const framework_subject *q, framework_settings *settings, char *out) {
    torch_settings *s = &settings->torch;
    snprintf(out, FRAMEWORK_CHANGE_BYTES, "--gradient-checkpointing");
    return has_checkpointing(q) && !s->checkpointing && (s->checkpointing = true);
}

static bool to_one(const framework_subject *q, framework_settings *settings, char *out) {
    torch_settings *s = &settings->torch;
    snprintf(out, FRAMEWORK_CHANGE_BYTES, "--micro-batch 1");
    return s->batch > 1 && may_be_cut(q) && (cut_to(s, 1), true);
}

static bool to_codes(const framework_subject *q, framework_settings *settings, char *out) {
    torch_settings *s = &settings->torch;
    snprintf(out, FRAMEWORK_CHANGE_BYTES, "--optimizer-bits 8");
    return !q->hardware->mps && s->state_bits != 8 && s->optimizer == OPTIMIZER_ADAMW &&
           (s->state_bits = 8, true);
}

static bool to_half(const framework_subject *q, framework_settings *settings, char *out) {
    torch_settings *s = &settings->torch;
    snprintf(out, FRAMEWORK_CHANGE_BYTES, "--dtype half");
    return !q->hardware->no_bf16 && s->types != TORCH_HALF && (s->types = TORCH_HALF, true);
}

static bool to_adapters(const framework_subject *q, framework_settings *settings, char *out) {
    torch_settings *s = &settings->torch;
    snprintf(out, FRAMEWORK_CHANGE_BYTES, "--adapter-rank 16");
    return has_products(q) && !s->adapter_rank && (s->adapter_rank = 16, s->base_bits = 16, true);
}

static bool to_coded_base(const framework_subject *q, framework_settings *settings, char *out) {
    torch_settings *s = &settings->torch;
    snprintf(out, FRAMEWORK_CHANGE_BYTES, "--adapter-rank %lld --base-bits 4",
             s->adapter_rank ? (long long)s->adapter_rank : 16LL);
    if (!has_products(q) || q->hardware->mps || (s->adapter_rank && s->base_bits == 4)) return false;
    if (!s->adapter_rank) s->adapter_rank = 16;
    s->base_bits = 4;
    return true;
}

/* ZeRO stays ZeRO, which is all there is before torch has FSDP. */
static bool to_more(const framework_subject *q, framework_settings *settings, char *out) {
    torch_settings *s = &settings->torch;
    bool zero = s->shard == TORCH_ZERO1 || s->shard == TORCH_ZERO2 || s->shard == TORCH_ZERO3 ||
                torch_is_before(s, TORCH_1_12);
    s->gpus = s->gpus < 2 ? 2 : 2 * s->gpus, s->shard = zero ? TORCH_ZERO3 : TORCH_FSDP;
    snprintf(out, FRAMEWORK_CHANGE_BYTES, "--gpus %lld --shard %s", (long long)s->gpus,
             zero ? "zero3" : "fsdp");
    return s->gpus <= 1024 && !q->hardware->mps;
}

/* ---- the same in their own words ---- */

/* Arguments of transformers' TrainingArguments and from_pretrained, or what PyTorch has itself. */
static void say(char *out, const framework_settings *s, const char *transformers, const char *torch) {
    snprintf(out, FRAMEWORK_CHANGE_BYTES, "%s", s->torch.transformers ? transformers : torch);
}

static void say_flash(const framework_settings *s, char *out) {
    say(out, s, "attn_implementation=\"sdpa\"", "torch.nn.functional.scaled_dot_product_attention");
}

static void say_fused_update(const framework_settings *s, char *out) {
    say(out, s, "optim=\"adamw_torch_fused\"", "AdamW(..., fused=True)");
}

static void say_fused_loss(const framework_settings *s, char *out) {
    say(out, s, "use_liger_kernel=True", "LigerFusedLinearCrossEntropyLoss");
}

static void say_sleep(const framework_settings *s, char *out) {
    say(out, s, "vllm_enable_sleep_mode=True", "");
}

static void say_fewer_texts(const framework_settings *s, char *out) {
    snprintf(out, FRAMEWORK_CHANGE_BYTES, "steps_per_generation=%lld", (long long)s->torch.grpo.passes);
}

static void say_micro_batch(const framework_settings *s, char *out) {
    snprintf(out, FRAMEWORK_CHANGE_BYTES,
             s->torch.transformers ? "per_device_train_batch_size=%lld, gradient_accumulation_steps=%lld"
                                   : "%lld samples at once, and a step after %lld backward passes",
             (long long)s->torch.batch, (long long)torch_accumulation(&s->torch));
}

static void say_checkpointing(const framework_settings *s, char *out) {
    say(out, s, "gradient_checkpointing=True", "torch.utils.checkpoint.checkpoint(block, x) for each block");
}

static void say_codes(const framework_settings *s, char *out) {
    say(out, s, "optim=\"adamw_bnb_8bit\"", "bitsandbytes.optim.AdamW8bit");
}

static void say_half(const framework_settings *s, char *out) {
    say(out, s, "dtype=torch.bfloat16 where the model is loaded", "model.to(torch.bfloat16)");
}

static void say_adapters(const framework_settings *s, char *out) {
    bool coded = s->torch.base_bits == 4;
    snprintf(out, FRAMEWORK_CHANGE_BYTES, "PEFT's LoraConfig(r=%lld)%s", (long long)s->torch.adapter_rank,
             coded ? " over BitsAndBytesConfig(load_in_4bit=True)" : "");
}

static void say_more(const framework_settings *s, char *out) {
    bool zero = s->torch.shard == TORCH_ZERO3;
    snprintf(out, FRAMEWORK_CHANGE_BYTES, "%s over %lld devices",
             zero                    ? "DeepSpeed's ZeRO of stage 3"
             : s->torch.transformers ? "fsdp=\"full_shard auto_wrap\""
                                     : "torch.distributed.fsdp.fully_shard",
             (long long)s->torch.gpus);
}

/* Those behind `to_more` are another training: states in codes, sums in 16 bits, fewer numbers that learn. */
static const framework_change changes[] = {
    { .apply = to_flash, .own = say_flash },
    { .apply = to_fused_update, .own = say_fused_update },
    { .apply = to_fused_loss, .own = say_fused_loss },
    { .apply = to_fewer_texts, .own = say_fewer_texts },
    { .apply = to_sleep, .own = say_sleep },
    { .apply = to_smaller, .own = say_micro_batch, .alone = true },
    { .apply = to_checkpointing, .own = say_checkpointing },
    { .apply = to_one, .own = say_micro_batch },
    { .apply = to_more, .own = say_more, .repeats = true },
    { .apply = to_codes, .own = say_codes, .alters = true },
    { .apply = to_half, .own = say_half, .alone = true, .alters = true },
    { .apply = to_adapters, .own = say_adapters, .alone = true, .alters = true },
    { .apply = to_coded_base, .own = say_adapters, .alone = true, .alters = true },
};
enum { CHANGES = sizeof changes / sizeof *changes };

const framework framework_hf = {
    "hf", "Hugging Face's transformers", changes, CHANGES, check, estimate, describe, variable, watch
};
const framework framework_pytorch = { "pytorch", "PyTorch", changes,  CHANGES, check,
                                      estimate,  describe,  variable, watch };
const framework framework_litgpt = {
    "litgpt", "Lightning's litgpt", changes, CHANGES, check, estimate, describe, variable, watch
};
