#include "io/adapter_files.h"

#include <ctype.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/digest.h"
#include "base/memory.h"
#include "base/utf8.h"
#include "io/config_families.h"
#include "io/file.h"
#include "io/json.h"
#include "io/weight_files.h"
#include "models/head.h"
#include "passes/adapting.h"

enum { PATH_BYTES = 4096, KEY_BYTES = 256 };

static const char CONFIG[] = "adapter_config.json", WEIGHTS[] = "adapter_model.safetensors",
                  BASE[] = "adapter_base.json", PREFIX[] = "base_model.model.";

static status join(const char *directory, const char *file, char path[PATH_BYTES]) {
    if (snprintf(path, PATH_BYTES, "%s/%s", directory, file) < PATH_BYTES) return STATUS_OK;
    return status_set(STATUS_INVALID, "the path '%.60s...' is too long", directory);
}

static bool is_added(const model_weight *w) {
    float deviation;
    return pass_of_parameter(w->name, &w->shape, &deviation) != NULL;
}

uint32_t adapter_files_own(model_weight *weights, uint32_t count) {
    uint32_t own = 0;
    for (uint32_t i = 0; i < count; i++) {
        if (is_added(&weights[i])) continue;
        model_weight w = weights[i];
        memmove(weights + own + 1, weights + own, (i - own) * sizeof w);
        weights[own++] = w;
    }
    return own;
}

static bool has(const model *judge, const model_weight *w) {
    return is_added(w) || (judge && head_owns(judge, w->name));
}

/* ---- reading ---- */

/* What would make it compute something else. */
static status refuse_variants(json_value root, bool takes_head) {
    static const char *const flags[] = { "use_rslora", "use_dora", "lora_bias", "alora_invocation_tokens" };
    static const char *const lists[] = { "rank_pattern", "alpha_pattern", "modules_to_save",
                                         "layers_to_transform", "target_parameters" };
    json_value v;
    const char *bias = "none";
    for (size_t i = 0; i < sizeof flags / sizeof *flags; i++) {
        bool on = false;
        if (!json_find(root, flags[i], &v)) continue;
        if (json_as_bool(v, &on) != STATUS_OK || on)
            return json_wrong(v, "is set; such adapters are not supported");
    }
    for (size_t i = 0; i < sizeof lists / sizeof *lists; i++) {
        void *cursor = NULL;
        size_t count = 0;
        json_value member;
        if (!json_find(root, lists[i], &v)) continue;
        if (takes_head && strcmp(lists[i], "modules_to_save") == 0) continue;
        bool empty = json_as_array(v, &count) == STATUS_OK
                         ? count == 0
                         : json_as_object(v) == STATUS_OK && !json_next(v, &cursor, &member);
        if (!empty) return json_wrong(v, "is not empty; such adapters are not supported");
    }
    TRY(json_optional_string(root, "bias", &bias));
    if (strcmp(bias, "none") == 0) return STATUS_OK;
    TRY(json_get(root, "bias", &v));
    return json_wrong(v, "is '%.40s'; only none is supported", bias);
}

static status read_targets(json_value root, pass_adapter *a) {
    json_value v;
    size_t count;
    const char *one;
    TRY(json_get(root, "target_modules", &v));
    if (json_as_string(v, &one) == STATUS_OK) {
        if (strcmp(one, "all-linear") != 0)
            return json_wrong(v, "is '%.40s'; supported are a list of names and all-linear", one);
        strcpy(a->targets, "all");
        return STATUS_OK;
    }
    TRY(json_as_array(v, &count));
    for (size_t i = 0, used = 0; i < count; i++) {
        TRY(json_as_string(json_item(v, i), &one));
        int n = snprintf(a->targets + used, sizeof a->targets - used, "%s%s", i ? "+" : "", one);
        if (n >= (int)(sizeof a->targets - used))
            return json_wrong(v, "has more names than can be told apart here");
        used += (size_t)n;
    }
    return count ? STATUS_OK : json_wrong(v, "is empty");
}

static status read_config(json_value root, bool takes_head, pass_adapter *a) {
    const char *kind;
    json_value v;
    *a = (pass_adapter){ .alpha = 8 }; /* the library's own */
    TRY(json_as_object(root));
    TRY(json_get_string(root, "peft_type", &kind));
    TRY(json_get(root, "peft_type", &v));
    if (strcmp(kind, "LORA") != 0) return json_wrong(v, "is '%.40s'; only LORA is supported", kind);
    TRY(json_get_integer(root, "r", 1, 1 << 20, &a->rank));
    TRY(json_optional_number(root, "lora_alpha", 1e-6, 1e6, &a->alpha));
    TRY(json_optional_number(root, "lora_dropout", 0, 0.999, &a->dropout));
    TRY(refuse_variants(root, takes_head));
    return read_targets(root, a);
}

static status take_word(json_value root, const char *key, char *into, size_t room) {
    const char *word = NULL;
    json_value v;
    TRY(json_optional_string(root, key, &word));
    if (!word) return STATUS_OK;
    TRY(json_get(root, key, &v));
    if (strlen(word) >= room) return json_wrong(v, "is '%.40s', which is not known", word);
    strcpy(into, word);
    return STATUS_OK;
}

/* What the base was held in and which it was: beside the library's files, which have no place for it. */
static status read_base(const char *directory, pass_adapter *a, char digits[DIGEST_TEXT_BYTES]) {
    char path[PATH_BYTES];
    json_document d;
    strcpy(a->base, "f32");
    digits[0] = 0;
    TRY(join(directory, BASE, path));
    if (access(path, F_OK) != 0) return STATUS_OK;
    TRY(json_open(path, &d));
    status result = json_as_object(d.root);
    if (result == STATUS_OK) result = take_word(d.root, "base", a->base, sizeof a->base);
    if (result == STATUS_OK) result = take_word(d.root, "digest", digits, DIGEST_TEXT_BYTES);
    json_close(&d);
    return result;
}

/* What the folder of the weights beside it was called in training; NULL: not said. Close `d`. */
static status read_name(const char *directory, json_document *d, const char **name) {
    char path[PATH_BYTES];
    *name = NULL;
    TRY(join(directory, CONFIG, path));
    TRY(json_open(path, d));
    TRY(json_as_object(d->root));
    return json_optional_string(d->root, "base_model_name_or_path", name);
}

static status refuse_base(const char *directory, const char *base, const char *was, const char *is) {
    json_document d = { 0 };
    const char *name;
    status result = read_name(directory, &d, &name);
    if (result == STATUS_OK)
        result =
            status_set(STATUS_INVALID,
                       "%s was trained beside the weights that %.200s held then (digest %s), and %s holds "
                       "others (digest %s); name the model with those weights, or train an adapter anew",
                       directory, name ? name : "a model", was, base, is);
    json_close(&d);
    return result;
}

status adapter_files_check_base(const char *directory, const char *base) {
    pass_adapter a;
    uint64_t value;
    char was[DIGEST_TEXT_BYTES], is[DIGEST_TEXT_BYTES];
    TRY(read_base(directory, &a, was));
    if (!was[0]) return STATUS_OK;
    TRY(weight_files_digest(base, &value));
    digest_text_of(value, is);
    return strcmp(was, is) == 0 ? STATUS_OK : refuse_base(directory, base, was, is);
}

status adapter_files_read(const char *directory, bool takes_head, const pass **p, pass_setting *s) {
    char path[PATH_BYTES], digits[DIGEST_TEXT_BYTES];
    json_document d;
    pass_adapter a;
    TRY(join(directory, CONFIG, path));
    TRY(json_open(path, &d));
    status result = read_config(d.root, takes_head, &a);
    json_close(&d);
    if (result == STATUS_OK) result = read_base(directory, &a, digits);
    for (int i = 0; pass_table[i] && result == STATUS_OK; i++) {
        if (!pass_table[i]->adapting) continue;
        *p = pass_table[i];
        return pass_table[i]->adapting->setting(&a, s);
    }
    return result;
}

status adapter_files_check_model(const char *directory) {
    char path[PATH_BYTES];
    json_document d = { 0 };
    const char *name;
    TRY(join(directory, CONFIG, path));
    if (access(path, F_OK) != 0) return STATUS_OK;
    status result = read_name(directory, &d, &name);
    if (result == STATUS_OK)
        result = status_set(
            STATUS_INVALID,
            "%s is an adapter and no model: name the model that it was trained beside, as in 'snug "
            "generate %.200s --adapter %s', or make a model of both with 'snug merge %.200s --adapter "
            "%s --out DIR'",
            directory, name ? name : "MODEL", directory, name ? name : "MODEL", directory);
    json_close(&d);
    return result;
}

/* Under the library's name. */
static status read_one(const safetensors *file, const char *path, const model_weight *w) {
    char key[KEY_BYTES], need[SHAPE_TEXT_BYTES];
    snprintf(key, sizeof key, "%s%s", PREFIX, w->name);
    const safetensors_entry *e = safetensors_find(file, key);
    if (!e) return status_set(STATUS_INVALID, "%s has no tensor '%s', which %s asks for", path, key, CONFIG);
    dtype from = safetensors_dtype(e->dtype);
    if ((from != DTYPE_F32 && !dtype_is_half(from)) || !safetensors_has_shape(e, &w->shape))
        return status_set(
            STATUS_INVALID,
            "%s: '%s' is %s of another shape or type than %s of F32, BF16 or F16, which the model "
            "needs",
            path, key, e->dtype, shape_text(&w->shape, need));
    return weight_files_read(file, e, w);
}

/* PEFT's files may lack parts of a head (BERT's pooler), which are the model's own then. */
static bool may_lack(const safetensors *file, const model_weight *w) {
    char key[KEY_BYTES];
    snprintf(key, sizeof key, "%s%s", PREFIX, w->name);
    return !is_added(w) && !safetensors_find(file, key);
}

status adapter_files_load(const char *directory, const adapter_files_part *part) {
    char path[PATH_BYTES];
    safetensors file;
    uint32_t filled = 0;
    TRY(join(directory, WEIGHTS, path));
    TRY(safetensors_open(path, &file));
    status result = STATUS_OK;
    for (uint32_t i = 0; i < part->count && result == STATUS_OK; i++) {
        const model_weight *w = &part->weights[i];
        if (!has(part->judge, w) || (part->filled && may_lack(&file, w))) continue;
        result = read_one(&file, path, w);
        if (part->filled) part->filled[i] = true;
        filled++;
    }
    if (result == STATUS_OK && file.count != filled)
        result = status_set(STATUS_INVALID, "%s has %u tensors, and the model has a place for %u of them",
                            path, file.count, filled);
    safetensors_close(&file);
    return result;
}

/* ---- writing ---- */

/* The weights of the file: those that passes have added, then the head's. */
typedef struct {
    model_weight *weights;
    uint32_t added, count;
} listed;

static status list_weights(const model *judge, const model_weight *weights, uint32_t count, listed *l) {
    *l = (listed){ .weights = memory_new(count, sizeof *l->weights) };
    if (!l->weights) return status_set(STATUS_FAILED, "no memory for %u tensors of an adapter", count);
    for (int heads = 0; heads < 2; heads++) {
        for (uint32_t i = 0; i < count; i++)
            if (has(judge, &weights[i]) && !is_added(&weights[i]) == heads)
                l->weights[l->count++] = weights[i];
        if (!heads) l->added = l->count;
    }
    return STATUS_OK;
}

/* The last `parts` parts of the product's name: "c_attn" or "attn.c_attn" of
 * "transformer.h.0.attn.c_attn.lora_A.weight". */
static void module_of(const char *parameter, int parts, char module[64]) {
    const char *end = parameter + strlen(parameter), *begin;
    for (int of_adapter = 0; of_adapter < 2; of_adapter++)
        while (end > parameter && *--end != '.') {}
    for (begin = end; begin > parameter && parts; begin--)
        if (begin[-1] == '.' && !--parts) break;
    snprintf(module, 64, "%.*s", (int)(end - begin), begin);
}

/* Do products of one name stand in different modules, as "attention.output.dense" and "intermediate.dense"
 * do? Then one of that name outside of the blocks, which has no adapter, would be taken for a target, too. */
static bool is_ambiguous(const model_weight *weights, uint32_t count, const char *name) {
    char module[64], first[64] = "", other[64];
    for (uint32_t i = 0; i < count; i++) {
        module_of(weights[i].name, 1, other);
        if (strcmp(other, name) != 0) continue;
        module_of(weights[i].name, 2, module);
        if (isdigit((unsigned char)*module)) return false; /* the number of a block */
        if (*first && strcmp(first, module) != 0) return true;
        snprintf(first, sizeof first, "%s", module);
    }
    return false;
}

static void target_of(const model_weight *weights, uint32_t count, uint32_t i, char target[64]) {
    module_of(weights[i].name, 1, target);
    if (is_ambiguous(weights, count, target)) module_of(weights[i].name, 2, target);
}

/* Is target i the first of its name? */
static bool is_first(const model_weight *weights, uint32_t count, uint32_t i, char target[64]) {
    char other[64];
    target_of(weights, count, i, target);
    for (uint32_t k = 0; k < i; k++) {
        target_of(weights, count, k, other);
        if (strcmp(target, other) == 0) return false;
    }
    return true;
}

/* Are they more than can be read back? */
static bool are_many(const model_weight *weights, uint32_t count) {
    char target[64];
    size_t bytes = 0;
    for (uint32_t i = 0; i < count; i++)
        if (is_first(weights, count, i, target)) bytes += strlen(target) + 1;
    return bytes > sizeof(((pass_adapter *)0)->targets);
}

/* PEFT's word for all products but the head means the same; it is written where names are too many, as those
 * of T5's two kinds of attention are. */
static void put_targets(json_writer *w, const pass_adapter *a, const model_weight *weights, uint32_t count) {
    char module[64];
    bool all = strcmp(a->targets, "all") == 0;
    if (all && are_many(weights, count)) {
        json_put_string(w, "target_modules", "all-linear");
        return;
    }
    json_begin_array(w, "target_modules");
    if (!all) {
        for (const char *at = a->targets; *at; at += strspn(at, "+")) {
            size_t n = strcspn(at, "+");
            snprintf(module, sizeof module, "%.*s", (int)n, at);
            json_put_string(w, NULL, module);
            at += n;
        }
        json_end_array(w);
        return;
    }
    for (uint32_t i = 0; i < count; i++)
        if (is_first(weights, count, i, module)) json_put_string(w, NULL, module);
    json_end_array(w);
}

static void put_modules(json_writer *w, const model_weight *weights, uint32_t count) {
    char module[HEAD_MODULE_BYTES], before[HEAD_MODULE_BYTES];
    json_begin_array(w, "modules_to_save");
    for (uint32_t i = 0; i < count; i++) {
        head_module(weights[i].name, module);
        bool met = false;
        for (uint32_t k = 0; k < i && !met; k++)
            met = strcmp(head_module(weights[k].name, before), module) == 0;
        if (!met) json_put_string(w, NULL, module);
    }
    json_end_array(w);
}

static void put_config(text *out, const adapter_files_about *about, const pass_adapter *a, const listed *l) {
    json_writer w = { .out = out, .lines = true };
    json_begin_object(&w, NULL);
    json_put_string(&w, "peft_type", "LORA");
    json_put_string(&w, "task_type", about->judge ? "SEQ_CLS" : about->continues ? "CAUSAL_LM" : NULL);
    json_put_string(&w, "base_model_name_or_path", about->base);
    json_put_integer(&w, "r", a->rank);
    json_put_number(&w, "lora_alpha", a->alpha);
    json_put_number(&w, "lora_dropout", a->dropout);
    put_targets(&w, a, l->weights, l->added);
    if (about->judge) put_modules(&w, l->weights + l->added, l->count - l->added);
    json_put_bool(&w, "fan_in_fan_out", about->in_out);
    json_put_string(&w, "bias", "none");
    json_put_bool(&w, "inference_mode", true);
    json_end_object(&w);
    text_add(out, "\n");
}

static status save_weights(const char *directory, const model_weight *weights, uint32_t count) {
    char path[PATH_BYTES];
    TRY(join(directory, WEIGHTS, path));
    safetensors_item *items = memory_new(count, sizeof *items);
    char(*keys)[KEY_BYTES] = memory_new(count, sizeof *keys);
    for (uint32_t i = 0; items && keys && i < count; i++) {
        snprintf(keys[i], KEY_BYTES, "%s%s", PREFIX, weights[i].name);
        items[i] = weight_files_item(&weights[i], keys[i]);
    }
    status result = items && keys ? safetensors_write(path, items, count)
                                  : status_set(STATUS_FAILED, "%s: no memory for %u tensors", path, count);
    memory_free(keys);
    memory_free(items);
    return result;
}

static status write_text(const char *directory, const char *file, text *t) {
    char path[PATH_BYTES];
    status result = join(directory, file, path);
    if (result == STATUS_OK && t->failed) result = status_set(STATUS_FAILED, "%s: no memory for it", path);
    if (result == STATUS_OK) result = io_write_file(path, t->data, t->length);
    text_close(t);
    return result;
}

static void put_base(text *out, const pass_adapter *a, const adapter_files_about *about) {
    char digits[DIGEST_TEXT_BYTES];
    json_writer w = { .out = out, .lines = true };
    json_begin_object(&w, NULL);
    json_put_string(&w, "base", a->base);
    if (about->base_digest) json_put_string(&w, "digest", digest_text_of(about->base_digest, digits));
    if (about->judge) config_class_put(&w, about->config);
    if (about->judge) config_head_put(&w, about->config);
    json_end_object(&w);
    text_add(out, "\n");
}

status adapter_files_save(const char *directory, const adapter_files_about *about,
                          const model_weight *weights, uint32_t count) {
    pass_adapter a;
    listed l;
    text config = { 0 }, base = { 0 };
    TRY(about->pass->adapting->describe(about->setting, &a));
    TRY(list_weights(about->judge, weights, count, &l));
    status result = save_weights(directory, l.weights, l.count);
    put_config(&config, about, &a, &l);
    memory_free(l.weights);
    if (result == STATUS_OK) result = write_text(directory, CONFIG, &config);
    put_base(&base, &a, about);
    if (result == STATUS_OK) result = write_text(directory, BASE, &base);
    text_close(&config);
    text_close(&base);
    return result;
}
