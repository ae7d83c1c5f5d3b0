#include "io/model_config.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/nearest.h"
#include "base/utf8.h"
#include "io/adapter_files.h"
#include "io/config_families.h"
#include "io/file.h"
#include "io/safetensors.h"
#include "io/weight_files.h"

enum { PATH_BYTES = 4096 };

/* ---- reading ---- */

status model_config_dropout(json_value root, const char *key, double *p) {
    json_value v;
    TRY(json_optional_number(root, key, 0, 1, p));
    if (*p < 1) return STATUS_OK;
    TRY(json_get(root, key, &v));
    return json_wrong(v, "is 1; a dropout probability must be below 1");
}

/* What no reader asks for, because it says nothing of shapes or sums. */
static bool says_nothing(const char *key) {
    static const char *const keys[] = { "architectures",
                                        "auto_map",
                                        "bos_token_id",
                                        "chunk_size_feed_forward",
                                        "dtype",
                                        "eod_token_id",
                                        "eos_token_id",
                                        "id2label",
                                        "is_decoder",
                                        "label2id",
                                        "model_type",
                                        "n_special",
                                        "num_labels",
                                        "output_attentions",
                                        "output_hidden_states",
                                        "output_past",
                                        "pad_token_id",
                                        "predict_special_tokens",
                                        "pretraining_tp",
                                        "problem_type",
                                        "quantization_config",
                                        "return_dict",
                                        "task_specific_params",
                                        "tie_word_embeddings",
                                        "tokenizer_class",
                                        "torch_dtype",
                                        "transformers_version",
                                        "unsloth_fixed",
                                        "use_cache",
                                        "use_return_dict" };
    for (size_t i = 0; i < sizeof keys / sizeof *keys; i++)
        if (strcmp(key, keys[i]) == 0) return true;
    return key[0] == '_';
}

static void note_unknown(json_value root, bool (*knows)(const char *key), text *notes) {
    enum { NAMED = 8 };
    void *cursor = NULL;
    json_value member;
    uint32_t count = 0;
    while (json_next(root, &cursor, &member)) {
        char name[UTF8_QUOTE_BYTES];
        if (says_nothing(member.key) || knows(member.key)) continue;
        if (count++ < NAMED)
            text_add(notes, "%s%s", count > 1 ? ", " : "keys of config.json that are ignored: ",
                     utf8_quote(member.key, name));
    }
    if (count > NAMED) text_add(notes, " and %u more", count - NAMED);
    if (count) text_add(notes, "\n");
}

static bool is_listed(const char *type, const char *names) {
    size_t length = strlen(type);
    for (const char *at = names; *type && (at = strstr(at, type)); at += length)
        if ((at == names || at[-1] == ' ') && (at[length] == ',' || !at[length])) return true;
    return false;
}

/* Of a model that sees and reads: what its part that reads is, where that has a builder; else NULL. */
static const char *text_part(json_value root, const char *names) {
    json_value part;
    const char *type = NULL;
    bool there = json_find(root, "text_config", &part) && json_as_object(part) == STATUS_OK &&
                 json_optional_string(part, "model_type", &type) == STATUS_OK;
    return there && type && is_listed(type, names) ? type : NULL;
}

void model_config_remedy(model_config_use use, const char *recipe, const char *file,
                         char out[CONFIG_REMEDY_BYTES]) {
    if (use == MODEL_CONFIG_SERVED)
        snprintf(out, CONFIG_REMEDY_BYTES, ". A recorded step is of training and tells nothing of serving");
    else
        snprintf(out, CONFIG_REMEDY_BYTES,
                 ". A recorded step of it can be estimated: snug estimate --recipe %s > step.py && python "
                 "step.py %.300s, then snug estimate step.json",
                 recipe, file);
}

/* Weights and cache of a decoder follow from sizes, which most of them name alike. */
static void add_stand_in(const char *near, char remedy[CONFIG_REMEDY_BYTES]) {
    size_t length = strlen(remedy);
    bool decodes = decoder_kind_find(near) || strcmp(near, "gpt2") == 0;
    snprintf(remedy + length, CONFIG_REMEDY_BYTES - length,
             "; of a decoder ask for a copy of config.json that says \"model_type\": \"%s\", of whose sizes "
             "weights and cache then are",
             decodes ? near : "llama");
}

static status unknown_type(json_value root, model_config_use use, const char *type) {
    char near[NEAREST_BYTES], names[FAMILIES_NAMES_BYTES], hint[128], remedy[CONFIG_REMEDY_BYTES];
    json_value v;
    TRY(json_get(root, "model_type", &v));
    const char *reads = text_part(root, families_types(names));
    nearest_listed(type, names, near);
    if (reads)
        snprintf(hint, sizeof hint, "its text_config alone, as a config.json, is a %.40s, which has one",
                 reads);
    else
        snprintf(hint, sizeof hint, "the nearest %s%s", *near ? "is " : "of most decoders is llama", near);
    model_config_remedy(use, "hf", root.file, remedy);
    if (use == MODEL_CONFIG_SERVED && !reads) add_stand_in(near, remedy);
    return json_wrong(v, "is '%.40s', for which there is no builder; %s%s. Builders: %s", type, hint, remedy,
                      names);
}

/* A configuration of the diffusers library names its class and has no model_type. */
static bool is_of_diffusers(json_value root) {
    return json_has(root, "_class_name") && !json_has(root, "model_type");
}

static status no_builder_for_diffusers(json_value root, model_config_use use) {
    const char *name;
    char remedy[CONFIG_REMEDY_BYTES];
    json_value v;
    TRY(json_get_string(root, "_class_name", &name));
    TRY(json_get(root, "_class_name", &v));
    model_config_remedy(use, "diffusers", root.file, remedy);
    return json_wrong(v, "is '%.60s', a network of diffusers, and there is no builder for one%s", name,
                      remedy);
}

/* The end is one token or a list. */
static status read_special_tokens(json_value root, families_tokens *t) {
    json_value end;
    size_t count;
    *t = (families_tokens){ .has_begin = json_has(root, "bos_token_id") };
    t->has_padding = json_find(root, "pad_token_id", &end) && /* some say -1 where there is none */
                     json_as_integer(end, 0, INT32_MAX, &t->padding) == STATUS_OK;
    TRY(json_optional_integer(root, "bos_token_id", 0, INT32_MAX, &t->begin));
    if (!json_find(root, "eos_token_id", &end)) return STATUS_OK;
    if (!json_is_array(end)) {
        t->ends = 1;
        return json_get_integer(root, "eos_token_id", 0, INT32_MAX, &t->end[0]);
    }
    TRY(json_as_array(end, &count));
    if (count > FAMILIES_MOST_ENDS)
        return json_wrong(end, "lists %zu tokens that end a text; at most %d are kept", count,
                          FAMILIES_MOST_ENDS);
    for (; t->ends < count; t->ends++)
        TRY(json_as_integer(json_item(end, t->ends), 0, INT32_MAX, &t->end[t->ends]));
    return STATUS_OK;
}

/* The members that a family has of its own; `knows`: the keys that it reads. */
static status read_family(json_value root, model_config_use use, const char *type, model_config *c,
                          bool (**knows)(const char *key)) {
    const decoder_kind *decoder = decoder_kind_find(type);
    const encoder_kind *encoder = encoder_kind_find(type);
    if (strcmp(type, "gpt2") == 0) {
        *knows = config_gpt2_knows, c->family = FAMILY_GPT2;
        return config_gpt2_read(root, &c->gpt2);
    }
    if (decoder) {
        *knows = config_decoder_knows, c->family = FAMILY_DECODER, c->decoder.kind = decoder;
        return config_decoder_read(root, &c->decoder);
    }
    if (config_images_find(type, &c->family)) {
        *knows = config_images_knows;
        return config_images_read(root, type, c);
    }
    if (encoder) {
        *knows = config_encoder_knows, c->family = FAMILY_ENCODER, c->encoder.kind = encoder;
        return config_encoder_read(root, &c->encoder);
    }
    if (strcmp(type, "modernbert") == 0) {
        *knows = config_modernbert_knows, c->family = FAMILY_MODERNBERT;
        return config_modernbert_read(root, &c->modernbert);
    }
    for (int i = 0; t5_types[i]; i++)
        if (strcmp(type, t5_types[i]) == 0) {
            *knows = config_t5_knows, c->family = FAMILY_T5, c->t5.type = t5_types[i];
            return config_t5_read(root, &c->t5);
        }
    return unknown_type(root, use, type);
}

static status read_members(json_value root, model_config_use use, model_config *c, text *notes) {
    const char *type;
    bool (*knows)(const char *key) = NULL;
    TRY(json_as_object(root));
    *c = (model_config){ 0 };
    if (config_timm_is(root)) {
        knows = config_timm_knows;
        TRY(config_timm_read(root, use, c));
    } else if (is_of_diffusers(root)) {
        return no_builder_for_diffusers(root, use);
    } else {
        TRY(json_get_string(root, "model_type", &type));
        TRY(read_family(root, use, type, c, &knows));
    }
    TRY(read_special_tokens(root, &c->tokens));
    if (families_fills(c)) c->tokens.has_padding = false, c->tokens.padding = 0; /* it has its own */
    if (c->family == FAMILY_T5) config_t5_tokens(root, &c->tokens);
    TRY(config_head_read(root, c));
    if (notes) note_unknown(root, knows, notes);
    status result = families_check(c);
    return result == STATUS_OK ? result : status_prefix(result, "%s", root.file);
}

status model_config_parse(const char *name, const char *json, model_config *c) {
    json_document d;
    TRY(json_parse(name, json, strlen(json), &d));
    status result = read_members(d.root, MODEL_CONFIG_TRAINED, c, NULL);
    json_close(&d);
    return result;
}

/* The file of a directory. */
static status find_config(const char **path, char inside[PATH_BYTES]) {
    struct stat about;
    if (stat(*path, &about) != 0 || !S_ISDIR(about.st_mode)) return STATUS_OK;
    if (snprintf(inside, PATH_BYTES, "%s/config.json", *path) >= PATH_BYTES)
        return status_set(STATUS_INVALID, "the path '%.60s...' is too long", *path);
    bool missing = stat(inside, &about) != 0 && errno == ENOENT;
    if (missing) TRY(adapter_files_check_model(*path));
    if (missing)
        return status_set(STATUS_INVALID, "the folder %s has no config.json, which a model directory needs",
                          *path);
    *path = inside;
    return STATUS_OK;
}

status model_config_answers(const char *directory, bool *answers) {
    char path[PATH_BYTES];
    json_document d;
    const char *type = "";
    *answers = false;
    if (snprintf(path, sizeof path, "%s/config.json", directory) >= PATH_BYTES || access(path, F_OK) != 0)
        return STATUS_OK;
    TRY(json_open(path, &d));
    status result = json_as_object(d.root);
    if (result == STATUS_OK) result = json_optional_string(d.root, "model_type", &type);
    for (int i = 0; result == STATUS_OK && t5_types[i]; i++)
        *answers = *answers || strcmp(type, t5_types[i]) == 0;
    json_close(&d);
    return result;
}

status model_config_labels(const char *path, const model_config *c, label_names *names) {
    char inside[PATH_BYTES];
    json_document d;
    TRY(find_config(&path, inside));
    TRY(json_open(path, &d));
    status result =
        c->timm.architecture[0] ? config_timm_names(d.root, c, names) : config_head_names(d.root, c, names);
    json_close(&d);
    return result;
}

/* transformers (5) says of every T5 that its head is its table, and writes the head that one has all the
 * same; those that have one don't scale what it reads. */
static status find_t5_head(const char *directory, model_config *c) {
    safetensors s;
    const char *file = weight_files_in(directory);
    bool there = file && strncmp(file, "model.", strlen("model.")) == 0;
    if (c->family != FAMILY_T5 || !c->t5.tied || c->t5.scaled || !there) return STATUS_OK;
    TRY(safetensors_open(directory, &s));
    c->t5.tied = safetensors_find(&s, "lm_head.weight") == NULL;
    safetensors_close(&s);
    return STATUS_OK;
}

status model_config_read(const char *path, model_config *c, text *notes) {
    return model_config_read_for(MODEL_CONFIG_TRAINED, path, c, notes);
}

status model_config_read_for(model_config_use use, const char *path, model_config *c, text *notes) {
    char inside[PATH_BYTES];
    const char *given = path;
    TRY(find_config(&path, inside));
    json_document d;
    TRY(json_open(path, &d));
    status result = read_members(d.root, use, c, notes);
    json_close(&d);
    return result == STATUS_OK && given != path ? find_t5_head(given, c) : result;
}

/* ---- writing ---- */

/* Those that were read; GPT-2's own vocabulary ends in its end-of-text token. */
static void put_special_tokens(json_writer *w, const model_config *c) {
    families_tokens t = c->tokens;
    if (!t.has_begin && !t.ends && families_vocabulary(c) == 50257)
        t.has_begin = true, t.begin = 50256, t.ends = 1, t.end[0] = 50256;
    bool padded = t.has_padding || (c->head.kind != HEAD_LANGUAGE && !families_images(c));
    if (padded && !families_fills(c)) /* which has put it */
        json_put_integer(w, "pad_token_id", families_padding(c));
    if (t.has_begin)
        json_put_integer(w, "bos_token_id", t.begin);
    else
        json_put_null(w, "bos_token_id");
    if (t.ends == 0)
        json_put_null(w, "eos_token_id");
    else if (t.ends == 1)
        json_put_integer(w, "eos_token_id", t.end[0]);
    else {
        json_begin_array(w, "eos_token_id");
        for (uint32_t i = 0; i < t.ends; i++) json_put_integer(w, NULL, t.end[i]);
        json_end_array(w);
    }
}

static const char *torch_type(const model_config_stored *stored) {
    dtype type = stored ? stored->type : DTYPE_NONE;
    return type == DTYPE_BF16 ? "bfloat16" : type == DTYPE_F16 ? "float16" : "float32";
}

static void put_members(json_writer *w, const model_config *c, const model_config_stored *stored) {
    if (c->timm.architecture[0]) {
        config_timm_put(w, c);
        return;
    }
    config_class_put(w, c);
    switch (c->family) {
    case FAMILY_GPT2: config_gpt2_put(w, &c->gpt2); break;
    case FAMILY_DECODER: config_decoder_put(w, &c->decoder); break;
    case FAMILY_VIT:
    case FAMILY_RESNET:
    case FAMILY_CONVNEXT: config_images_put(w, c); break;
    case FAMILY_ENCODER: config_encoder_put(w, &c->encoder); break;
    case FAMILY_MODERNBERT: config_modernbert_put(w, &c->modernbert); break;
    case FAMILY_T5: config_t5_put(w, &c->t5); break;
    }
    config_head_put(w, c);
    put_special_tokens(w, c);
    json_put_string(w, "torch_dtype", torch_type(stored));
    json_put_bool(w, "use_cache", true);
    if (!stored || !stored->method) return;
    json_begin_object(w, "quantization_config");
    json_put_string(w, "quant_method", stored->method);
    json_put_string(w, "setting", stored->setting);
    json_end_object(w);
}

/* Of generation_config.json. */
static void put_generation(json_writer *w, const model_config *c, const model_config_stored *stored) {
    (void)stored;
    if (c->family == FAMILY_T5) json_put_integer(w, "decoder_start_token_id", c->t5.start);
    put_special_tokens(w, c);
}

typedef void (*put_body)(json_writer *w, const model_config *c, const model_config_stored *stored);

static void write_object(const model_config *c, const model_config_stored *stored, put_body put, text *out) {
    json_writer w = { .out = out, .lines = true };
    json_begin_object(&w, NULL);
    put(&w, c, stored);
    json_end_object(&w);
    text_add(out, "\n");
}

static status write_file(const char *directory, const char *file, const model_config *c,
                         const model_config_stored *stored, put_body put) {
    char path[PATH_BYTES];
    if (snprintf(path, sizeof path, "%s/%s", directory, file) >= PATH_BYTES)
        return status_set(STATUS_INVALID, "the path '%.60s...' is too long", directory);
    text out = { 0 };
    write_object(c, stored, put, &out);
    status result = out.failed ? status_set(STATUS_FAILED, "%s: no memory to write it", path)
                               : io_write_file(path, out.data, out.length);
    text_close(&out);
    return result;
}

status model_config_write(const char *directory, const model_config *c, const model_config_stored *stored) {
    TRY(write_file(directory, "config.json", c, stored, put_members));
    return write_file(directory, "generation_config.json", c, stored, put_generation);
}

void model_config_text(const model_config *c, text *out) { write_object(c, NULL, put_members, out); }

/* Leaves `*t` as it is where the file is not there or says nothing of ends. */
static status read_ends(const char *directory, const char *name, families_tokens *t) {
    char path[PATH_BYTES];
    json_document d;
    if (snprintf(path, sizeof path, "%s/%s", directory, name) >= PATH_BYTES || access(path, F_OK) != 0)
        return STATUS_OK;
    TRY(json_open(path, &d));
    status result = json_as_object(d.root);
    if (result == STATUS_OK && json_has(d.root, "eos_token_id")) result = read_special_tokens(d.root, t);
    json_close(&d);
    return result;
}

status model_config_ends(const char *directory, const model_config *c, families_tokens *t) {
    *t = c ? c->tokens : (families_tokens){ 0 };
    if (!c) TRY(read_ends(directory, "config.json", t));
    return read_ends(directory, "generation_config.json", t);
}
