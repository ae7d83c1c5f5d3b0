/* snug estimate: what a step takes on hardware, and in frameworks, that are elsewhere. */
#include <stdio.h>
#include <string.h>

#include "base/units.h"
#include "cli/cli.h"
#include "cli/hardware.h"
#include "io/json.h"
#include "io/model_config.h"
#include "models/published.h"

/* ---- what is asked ---- */

typedef struct {
    const options *o;
    model_config config;
    model model;
    hardware hardware; /* memory 0: none is named */
    torch_settings settings;
    torch_result result;
    text notes;
} estimate;

static status open_model(estimate *e, const char *name) {
    const char *published = NULL;
    if (published_find(name, &e->config, &published)) {
        if (strcmp(name, published) != 0)
            text_add(&e->notes, "of the published models %s is nearest\n", published);
        name = published;
    } else if (!families_preset(name, &e->config)) {
        TRY(model_config_read(name, &e->config, &e->notes));
    }
    if (e->o->run.dropout >= 0) families_set_dropout(&e->config, e->o->run.dropout);
    TRY(families_check(&e->config));
    families_model(&e->config, name, &e->model);
    return STATUS_OK;
}

static status check(const estimate *e) {
    const estimate_options *x = &e->o->estimate;
    if (x->state_bits != 8 && x->state_bits != 32)
        return status_set(STATUS_INVALID, "--optimizer-bits %lld: states have 32 bits, or 8",
                          (long long)x->state_bits);
    if (x->base_bits != 4 && x->base_bits != 16 && x->base_bits != 32)
        return status_set(STATUS_INVALID, "--base-bits %lld: frozen weights have 32 bits, 16 or 4",
                          (long long)x->base_bits);
    if (x->base_bits == 4 && !x->adapter_rank)
        return status_set(STATUS_INVALID,
                          "--base-bits 4 is for weights that are not trained; say --adapter-rank 16 as well");
    if (x->shard != TORCH_ALONE && x->gpus < 2)
        return status_set(STATUS_INVALID, "--shard shares among several devices; say --gpus N");
    if (x->gpus > 1 && x->shard == TORCH_ALONE)
        return status_set(STATUS_INVALID, "--gpus %lld: say --shard ddp, zero1, zero2, zero3 or fsdp",
                          (long long)x->gpus);
    int64_t context = e->o->run.context, most = families_context(&e->config);
    if (context > most && e->config.family == FAMILY_GPT2)
        return status_set(STATUS_INVALID,
                          "--context %lld is longer than the %lld positions that %s has learned",
                          (long long)context, (long long)most, e->model.name);
    return STATUS_OK;
}

static void settle(estimate *e) {
    const estimate_options *x = &e->o->estimate;
    const setup_options *run = &e->o->run;
    bool hf = x->framework == FRAMEWORK_HF;
    torch_update update = x->update == UPDATE_AUTO ? hf ? TORCH_FUSED : TORCH_FOREACH
                                                   : (torch_update)(x->update - UPDATE_FOREACH);
    e->settings = (torch_settings){ .transformers = hf,
                                    .cuda = !x->device || strcmp(x->device, "cpu") != 0,
                                    .types = x->types,
                                    .attention = x->attention,
                                    .update = update,
                                    .shard = x->shard,
                                    .optimizer = run->optimizer.kind,
                                    .momentum = run->optimizer.momentum,
                                    .state_bits = x->state_bits,
                                    .batch = run->micro_batch ? run->micro_batch : run->batch,
                                    .context = run->context ? run->context : families_context(&e->config),
                                    .adapter_rank = x->adapter_rank,
                                    .base_bits = x->base_bits,
                                    .gpus = x->gpus,
                                    .checkpointing = x->checkpointing,
                                    .fused_loss = x->loss == LOSS_FUSED };
    if (e->hardware.no_bf16 && x->types != TORCH_F32)
        text_add(&e->notes, "%s has no bf16: 16 bits are f16, with a loss scaler\n", e->hardware.name);
    if (e->hardware.no_flash && x->attention == TORCH_FLASH)
        text_add(&e->notes, "%s has no flash attention: torch takes its memory-efficient kernel\n",
                 e->hardware.name);
}

/* ---- what it comes to ---- */

static torch_bytes whole_device(const estimate *e, const torch_result *r) {
    const hardware *h = &e->hardware;
    return (torch_bytes){ r->reserved.low + h->context[0], r->reserved.likely + h->context[1] + h->workspace,
                          r->reserved.high + h->context[2] + h->workspace };
}

static bool fits(const estimate *e, const torch_result *r) {
    return !e->hardware.memory || whole_device(e, r).likely <= e->hardware.memory;
}

static tape_term largest(const torch_result *r) {
    tape_term most = TAPE_WEIGHTS;
    for (int t = 0; t < TAPE_TERMS; t++)
        if (r->by_term[t] > r->by_term[most]) most = (tape_term)t;
    return most;
}

/* ---- what would help ---- */

/* From those that cost nothing to those that change what is trained. False: it is so already. */
typedef bool change_body(const estimate *e, torch_settings *s, char text[64]);

static bool to_flash(const estimate *e, torch_settings *s, char out[64]) {
    (void)e;
    snprintf(out, 64, "--attn flash");
    return s->attention != TORCH_FLASH && (s->attention = TORCH_FLASH, true);
}

static bool to_fused_update(const estimate *e, torch_settings *s, char out[64]) {
    (void)e;
    snprintf(out, 64, "--optimizer-kernels fused");
    return s->update != TORCH_FUSED && s->optimizer == OPTIMIZER_ADAMW && (s->update = TORCH_FUSED, true);
}

static bool to_fused_loss(const estimate *e, torch_settings *s, char out[64]) {
    (void)e;
    snprintf(out, 64, "--loss fused");
    return !s->fused_loss && (s->fused_loss = true);
}

static bool to_smaller(const estimate *e, torch_settings *s, char out[64]) {
    (void)e;
    if (s->batch < 2) return false;
    s->batch = (s->batch + 1) / 2;
    snprintf(out, 64, "--micro-batch %lld", (long long)s->batch);
    return true;
}

static bool to_checkpointing(const estimate *e, torch_settings *s, char out[64]) {
    (void)e;
    snprintf(out, 64, "--gradient-checkpointing");
    return !s->checkpointing && (s->checkpointing = true);
}

static bool to_one(const estimate *e, torch_settings *s, char out[64]) {
    (void)e;
    snprintf(out, 64, "--micro-batch 1");
    return s->batch > 1 && (s->batch = 1, true);
}

static bool to_codes(const estimate *e, torch_settings *s, char out[64]) {
    (void)e;
    snprintf(out, 64, "--optimizer-bits 8");
    return s->state_bits != 8 && s->optimizer == OPTIMIZER_ADAMW && (s->state_bits = 8, true);
}

static bool to_half(const estimate *e, torch_settings *s, char out[64]) {
    snprintf(out, 64, "--dtype half");
    return !e->hardware.no_bf16 && s->types != TORCH_HALF && (s->types = TORCH_HALF, true);
}

static bool to_adapters(const estimate *e, torch_settings *s, char out[64]) {
    (void)e;
    snprintf(out, 64, "--adapter-rank 16");
    return !s->adapter_rank && (s->adapter_rank = 16, s->base_bits = 16, true);
}

static bool to_coded_base(const estimate *e, torch_settings *s, char out[64]) {
    (void)e;
    snprintf(out, 64, "--adapter-rank %lld --base-bits 4",
             s->adapter_rank ? (long long)s->adapter_rank : 16LL);
    if (s->adapter_rank && s->base_bits == 4) return false;
    if (!s->adapter_rank) s->adapter_rank = 16;
    s->base_bits = 4;
    return true;
}

static bool to_more(const estimate *e, torch_settings *s, char out[64]) {
    (void)e;
    s->gpus = s->gpus < 2 ? 2 : 2 * s->gpus, s->shard = TORCH_FSDP;
    snprintf(out, 64, "--gpus %lld --shard fsdp", (long long)s->gpus);
    return s->gpus <= 1024;
}

static change_body *const changes[] = { to_flash,         to_fused_update, to_fused_loss, to_smaller,
                                        to_checkpointing, to_one,          to_codes,      to_half,
                                        to_adapters,      to_coded_base,   to_more };
enum { CHANGES = sizeof changes / sizeof *changes };

typedef struct {
    char text[256];
    uint64_t device_bytes;
    bool fits;
} advice;

static status try_settings(const estimate *e, const torch_settings *s, advice *a) {
    torch_result r;
    TRY(torch_estimate(&e->model, s, &r));
    a->device_bytes = whole_device(e, &r).likely;
    a->fits = fits(e, &r);
    return STATUS_OK;
}

/* The first change that suffices alone; else as many as it takes, one after the other. */
static status advise(const estimate *e, advice *out) {
    char one[64];
    for (int i = 0; i < CHANGES; i++) {
        torch_settings s = e->settings;
        if (!changes[i](e, &s, one)) continue;
        snprintf(out->text, sizeof out->text, "%s", one);
        TRY(try_settings(e, &s, out));
        if (out->fits) return STATUS_OK;
    }
    torch_settings s = e->settings;
    out->text[0] = 0;
    for (int i = 0; i < CHANGES; i++) {
        bool last = changes[i] == to_more;
        if (changes[i] == to_smaller || changes[i] == to_half || changes[i] == to_adapters) continue;
        if (changes[i] == to_coded_base) continue; /* more devices before another way of training */
        do {
            torch_settings before = s;
            size_t length = strlen(out->text);
            if (!changes[i](e, &s, one)) {
                s = before;
                break;
            }
            char *at = last ? strstr(out->text, "--gpus") : NULL;
            if (at) length = (size_t)(at - out->text), *at = 0;
            snprintf(out->text + length, sizeof out->text - length, "%s%s", length && !at ? " " : "", one);
            TRY(try_settings(e, &s, out));
            if (out->fits) return STATUS_OK;
        } while (last);
    }
    out->text[0] = 0;
    return STATUS_OK;
}

/* ---- what is said ---- */

static void add_row(text *t, const char *name, const torch_bytes *b) {
    char low[UNITS_TEXT_BYTES], likely[UNITS_TEXT_BYTES], high[UNITS_TEXT_BYTES];
    text_add(t, "  %-14s %12s   %s to %s\n", name, units_bytes_text(b->likely, likely),
             units_bytes_text(b->low, low), units_bytes_text(b->high, high));
}

static void add_terms(text *t, const torch_result *r) {
    char bytes[UNITS_TEXT_BYTES];
    uint64_t whole = r->live.likely ? r->live.likely : 1;
    text_add(t, "\nLive at the peak, in %s\n", r->peak_in);
    for (int k = 0; k < TAPE_TERMS; k++)
        if (r->by_term[k])
            text_add(t, "  %-14s %12s  %5.1f %%%s\n", tape_term_name((tape_term)k),
                     units_bytes_text(r->by_term[k], bytes), 100.0 * (double)r->by_term[k] / (double)whole,
                     (int)largest(r) == k ? "  the largest" : "");
}

static void add_verdict(text *t, const estimate *e, const advice *a) {
    torch_bytes device = whole_device(e, &e->result);
    uint64_t memory = e->hardware.memory;
    char has[UNITS_TEXT_BYTES], more[UNITS_TEXT_BYTES], then[UNITS_TEXT_BYTES];
    units_bytes_text(memory, has);
    if (device.likely <= memory) {
        text_add(t, "\nFits %s, which reports %s: %s are left%s.\n", e->hardware.title, has,
                 units_bytes_text(memory - device.likely, more),
                 device.high > memory ? ", and the upper end of the interval does not fit" : "");
        return;
    }
    text_add(t, "\nDoes not fit %s, which reports %s: %s too much.\n", e->hardware.title, has,
             units_bytes_text(device.likely - memory, more));
    if (a->text[0])
        text_add(t, "The cheapest change that makes it fit: %s, then %s of the device.\n", a->text,
                 units_bytes_text(a->device_bytes, then));
    else
        text_add(t, "Nothing that this command knows makes it fit.\n");
}

static void say(text *t, const estimate *e, const advice *a) {
    static const char *const types[] = { "float32", "autocast to 16 bits", "16 bits" };
    static const char *const frameworks[] = { "Hugging Face's transformers", "PyTorch", "snug" };
    const torch_settings *s = &e->settings;
    text_add(t, "%s in %s: %.2f billion parameters, %.2f million trained, %lld x %lld tokens at once, %s\n",
             e->model.name, frameworks[e->o->estimate.framework], (double)e->result.parameters / 1e9,
             (double)e->result.trained / 1e6, (long long)s->batch, (long long)s->context, types[s->types]);
    if (e->notes.length) text_add(t, "%s", e->notes.data);
    text_add(t, "\n  %-14s %12s   %s\n", "", "estimate", "interval");
    add_row(t, "live", &e->result.live);
    if (s->cuda) add_row(t, "reserved", &e->result.reserved);
    torch_bytes device = whole_device(e, &e->result);
    if (e->hardware.memory) add_row(t, "whole device", &device);
    add_terms(t, &e->result);
    if (e->hardware.memory) add_verdict(t, e, a);
}

static void put_bytes(json_writer *w, const char *key, const torch_bytes *b) {
    json_begin_object(w, key);
    json_put_unsigned(w, "low", b->low);
    json_put_unsigned(w, "likely", b->likely);
    json_put_unsigned(w, "high", b->high);
    json_end_object(w);
}

static void put_json(text *t, const estimate *e, const advice *a) {
    static const char *const frameworks[] = { "hf", "pytorch", "snug" };
    json_writer w = { .out = t, .lines = true };
    torch_bytes device = whole_device(e, &e->result);
    json_begin_object(&w, NULL);
    json_put_string(&w, "model", e->model.name);
    json_put_string(&w, "framework", frameworks[e->o->estimate.framework]);
    json_put_unsigned(&w, "parameters", e->result.parameters);
    json_put_unsigned(&w, "trained", e->result.trained);
    json_put_bool(&w, "fits", fits(e, &e->result));
    put_bytes(&w, "live_bytes", &e->result.live);
    put_bytes(&w, "reserved_bytes", &e->result.reserved);
    if (e->hardware.memory) {
        put_bytes(&w, "device_bytes", &device);
        json_put_string(&w, "device", e->hardware.name);
        json_put_unsigned(&w, "reported_bytes", e->hardware.memory);
    }
    json_begin_object(&w, "by_term");
    for (int k = 0; k < TAPE_TERMS; k++)
        json_put_unsigned(&w, tape_term_name((tape_term)k), e->result.by_term[k]);
    json_end_object(&w);
    json_put_string(&w, "largest_term", tape_term_name(largest(&e->result)));
    json_put_string(&w, "peak_in", e->result.peak_in);
    if (a->text[0]) {
        json_put_string(&w, "change", a->text);
        json_put_unsigned(&w, "changed_device_bytes", a->device_bytes);
    }
    json_end_object(&w);
    text_add(t, "\n");
}

static status estimate_torch(estimate *e, cli_streams *streams) {
    advice a = { .text = "" };
    settle(e);
    TRY(torch_estimate(&e->model, &e->settings, &e->result));
    bool fit = fits(e, &e->result);
    if (!fit) TRY(advise(e, &a));
    text t = { 0 };
    if (streams->people.file) {
        say(&t, e, &a);
        output_text(&streams->people, &t);
    }
    if (e->o->json) {
        put_json(&t, e, &a);
        output_text(&streams->result, &t);
    }
    if (fit) return STATUS_OK;
    char more[UNITS_TEXT_BYTES];
    return status_set(STATUS_NO_FIT, "%s does not fit %s: %s too much", e->model.name, e->hardware.name,
                      units_bytes_text(whole_device(e, &e->result).likely - e->hardware.memory, more));
}

/* The plan itself, for the device's memory less what a process takes of it. */
static status estimate_snug(const estimate *e, cli_streams *streams) {
    options o = *e->o;
    uint64_t beside = e->hardware.context[2];
    if (o.estimate.gpus > 1)
        return status_set(STATUS_INVALID, "--gpus %lld: snug trains on one device",
                          (long long)o.estimate.gpus);
    if (e->hardware.memory) o.run.memory = e->hardware.memory > beside ? e->hardware.memory - beside : 1;
    return cli_plan(&o, streams);
}

status cli_estimate(const options *o, cli_streams *streams) {
    estimate e = { .o = o };
    const char *device = o->estimate.device;
    if (device && strcmp(device, "cpu") != 0) TRY(hardware_find(device, &e.hardware));
    status result = open_model(&e, o->subject);
    if (result == STATUS_OK) result = check(&e);
    if (result == STATUS_OK)
        result = o->estimate.framework == FRAMEWORK_SNUG ? estimate_snug(&e, streams)
                                                         : estimate_torch(&e, streams);
    text_close(&e.notes);
    return result;
}

static status find_savings(estimate *e, cli_saving *out, uint32_t room, uint32_t *count) {
    torch_result r;
    TRY(check(e));
    settle(e);
    TRY(torch_estimate(&e->model, &e->settings, &e->result));
    uint64_t before = whole_device(e, &e->result).likely;
    for (int i = 0; i < CHANGES && *count < room; i++) {
        torch_settings s = e->settings;
        cli_saving *x = &out[*count];
        if (!changes[i](e, &s, x->text)) continue;
        TRY(torch_estimate(&e->model, &s, &r));
        uint64_t after = whole_device(e, &r).likely;
        if (after + before / 64 >= before) continue;
        x->bytes = before - after;
        (*count)++;
    }
    return STATUS_OK;
}

status cli_estimate_savings(const options *o, const char *model_name, cli_saving *out, uint32_t room,
                            uint32_t *count) {
    estimate e = { .o = o };
    *count = 0;
    if (o->estimate.device && strcmp(o->estimate.device, "cpu") != 0)
        TRY(hardware_find(o->estimate.device, &e.hardware));
    status result = open_model(&e, model_name);
    if (result == STATUS_OK) result = find_savings(&e, out, room, count);
    text_close(&e.notes);
    return result;
}
