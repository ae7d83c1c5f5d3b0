#include "io/model_files.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>

#include "base/half.h"
#include "base/memory.h"
#include "base/text.h"
#include "base/utf8.h"
#include "io/file.h"
#include "io/json.h"
#include "io/safetensors.h"

enum { PATH_BYTES = 4096 };

static status join(const char *directory, const char *file, char path[PATH_BYTES]) {
    if (snprintf(path, PATH_BYTES, "%s/%s", directory, file) < PATH_BYTES) return STATUS_OK;
    return status_set(STATUS_INVALID, "the path '%.60s...' is too long", directory);
}

/* ---- reading the configuration ---- */

static status read_sizes(json_value root, gpt2_config *c) {
    const struct {
        const char *key;
        int64_t *size;
    } sizes[] = { { "n_layer", &c->layers },
                  { "n_head", &c->heads },
                  { "n_embd", &c->channels },
                  { "n_positions", &c->context },
                  { "vocab_size", &c->vocabulary } };
    for (size_t i = 0; i < sizeof sizes / sizeof *sizes; i++)
        TRY(json_get_integer(root, sizes[i].key, 1, INT32_MAX, sizes[i].size));
    c->inner = 4 * c->channels;
    return json_optional_integer(root, "n_inner", 1, INT32_MAX, &c->inner);
}

/* A probability below 1; transformers' default where there is none. */
static status read_dropout(json_value root, const char *key, double *p) {
    *p = 0.1;
    TRY(json_optional_number(root, key, 0, 1, p));
    json_value v;
    if (*p < 1) return STATUS_OK;
    TRY(json_get(root, key, &v));
    return json_wrong(v, "is 1; a dropout probability must be below 1");
}

static status read_activation(json_value root, gpt2_config *c) {
    static const struct {
        const char *name;
        bool tanh;
    } known[] = { { "gelu_new", true }, { "gelu_pytorch_tanh", true }, { "gelu", false } };
    const char *name = known[0].name;
    TRY(json_optional_string(root, "activation_function", &name));
    for (size_t i = 0; i < sizeof known / sizeof *known; i++) {
        c->tanh = known[i].tanh;
        if (strcmp(name, known[i].name) == 0) return STATUS_OK;
    }
    json_value v;
    TRY(json_get(root, "activation_function", &v));
    return json_wrong(v, "is '%.40s'; supported are gelu_new, gelu_pytorch_tanh and gelu", name);
}

/* Variants of the architecture that would change what is computed. */
static status refuse_variants(json_value root) {
    static const struct {
        const char *key;
        bool usual;
    } variants[] = { { "scale_attn_weights", true },
                     { "scale_attn_by_inverse_layer_idx", false },
                     { "add_cross_attention", false } };
    for (size_t i = 0; i < sizeof variants / sizeof *variants; i++) {
        bool value = variants[i].usual;
        json_value v;
        TRY(json_optional_bool(root, variants[i].key, &value));
        if (value == variants[i].usual) continue;
        TRY(json_get(root, variants[i].key, &v));
        return json_wrong(v, "is %s; that variant of GPT-2 is not supported", value ? "true" : "false");
    }
    return STATUS_OK;
}

static status read_members(json_value root, gpt2_config *c) {
    const char *family;
    json_value v;
    TRY(json_as_object(root));
    TRY(json_get_string(root, "model_type", &family));
    if (strcmp(family, "gpt2") != 0) {
        TRY(json_get(root, "model_type", &v));
        return json_wrong(v, "is '%.40s'; the only family supported is gpt2", family);
    }
    TRY(read_sizes(root, c));
    TRY(read_activation(root, c));
    TRY(refuse_variants(root));
    TRY(read_dropout(root, "embd_pdrop", &c->dropout_embedding));
    TRY(read_dropout(root, "attn_pdrop", &c->dropout_attention));
    TRY(read_dropout(root, "resid_pdrop", &c->dropout_residual));
    TRY(json_optional_number(root, "layer_norm_epsilon", 0, 1, &c->epsilon));
    TRY(json_optional_number(root, "initializer_range", 0, 10, &c->deviation));
    TRY(json_optional_bool(root, "tie_word_embeddings", &c->tied));
    status result = gpt2_check(c);
    return result == STATUS_OK ? result : status_prefix(result, "%s", root.file);
}

status model_files_read_config(const char *path, gpt2_config *c) {
    char inside[PATH_BYTES];
    struct stat about;
    if (stat(path, &about) == 0 && S_ISDIR(about.st_mode)) {
        TRY(join(path, "config.json", inside));
        if (stat(inside, &about) != 0 && errno == ENOENT)
            return status_set(STATUS_INVALID,
                              "the folder %s has no config.json, which a model directory needs", path);
        path = inside;
    }
    json_document d;
    TRY(json_open(path, &d));
    *c = gpt2_default();
    status result = read_members(d.root, c);
    json_close(&d);
    return result;
}

/* ---- writing it ---- */

/* GPT-2's own vocabulary ends in its end-of-text token; others have none that is known here. */
static void put_special_tokens(json_writer *w, const gpt2_config *c) {
    static const char *const keys[] = { "bos_token_id", "eos_token_id" };
    for (int i = 0; i < 2; i++) {
        if (c->vocabulary == 50257)
            json_put_integer(w, keys[i], 50256);
        else
            json_put_null(w, keys[i]);
    }
}

static void put_members(json_writer *w, const gpt2_config *c) {
    json_begin_array(w, "architectures");
    json_put_string(w, NULL, "GPT2LMHeadModel");
    json_end_array(w);
    json_put_string(w, "model_type", "gpt2");
    json_put_integer(w, "n_layer", c->layers);
    json_put_integer(w, "n_head", c->heads);
    json_put_integer(w, "n_embd", c->channels);
    json_put_integer(w, "n_positions", c->context);
    json_put_integer(w, "n_ctx", c->context);
    json_put_integer(w, "vocab_size", c->vocabulary);
    if (c->inner == 4 * c->channels)
        json_put_null(w, "n_inner");
    else
        json_put_integer(w, "n_inner", c->inner);
    json_put_string(w, "activation_function", c->tanh ? "gelu_new" : "gelu");
    json_put_number(w, "embd_pdrop", c->dropout_embedding);
    json_put_number(w, "attn_pdrop", c->dropout_attention);
    json_put_number(w, "resid_pdrop", c->dropout_residual);
    json_put_number(w, "layer_norm_epsilon", c->epsilon);
    json_put_number(w, "initializer_range", c->deviation);
    json_put_bool(w, "scale_attn_weights", true);
    json_put_bool(w, "tie_word_embeddings", c->tied);
    put_special_tokens(w, c);
    json_put_string(w, "torch_dtype", "float32");
    json_put_bool(w, "use_cache", true);
}

static status write_object(const char *directory, const char *file, const gpt2_config *c,
                           void (*put)(json_writer *w, const gpt2_config *c)) {
    char path[PATH_BYTES];
    TRY(join(directory, file, path));
    text out = { 0 };
    json_writer w = { .out = &out, .lines = true };
    json_begin_object(&w, NULL);
    put(&w, c);
    json_end_object(&w);
    text_add(&out, "\n");
    status result = out.failed ? status_set(STATUS_FAILED, "%s: no memory to write it", path)
                               : io_write_file(path, out.data, out.length);
    text_close(&out);
    return result;
}

status model_files_write_config(const char *directory, const gpt2_config *c) {
    TRY(write_object(directory, "config.json", c, put_members));
    return write_object(directory, "generation_config.json", c, put_special_tokens);
}

/* ---- reading weights ---- */

static const char prefix[] = "transformer.";

static const safetensors_entry *find(const safetensors *s, const char *name) {
    const safetensors_entry *e = safetensors_find(s, name);
    if (e || strncmp(name, prefix, sizeof prefix - 1) != 0) return e;
    return safetensors_find(s, name + sizeof prefix - 1);
}

/* Reads n 16-bit floats into the last half of `data` and widens them there, first to last: place i is written
 * after the 16 bits that it covers were read. */
static status read_narrow(const safetensors *s, const safetensors_entry *e, void *into, int64_t n) {
    float *data = into;
    char *narrow = (char *)data + 2 * n;
    bool brain = strcmp(e->dtype, "BF16") == 0;
    TRY(safetensors_read(s, e, narrow, e->bytes));
    for (int64_t i = 0; i < n; i++) {
        uint16_t half;
        memcpy(&half, narrow + 2 * i, sizeof half);
        float value = brain ? half_from_bf16(half) : half_from_f16(half);
        memcpy(data + i, &value, sizeof value);
    }
    return STATUS_OK;
}

/* Reads into a weight of 16 bits what the file has in f32 or in the other 16 bits: part by part. */
static status read_into_half(const safetensors *s, const safetensors_entry *e, const model_weight *w,
                             dtype from) {
    enum { PART = 4096 };
    float wide[PART];
    uint16_t half[PART];
    void *part = from == DTYPE_F32 ? (void *)wide : (void *)half;
    for (int64_t i = 0, all = shape_elements(&w->shape); i < all; i += PART) {
        int64_t n = all - i < PART ? all - i : PART;
        uint64_t bytes = dtype_bytes(from);
        TRY(safetensors_read_part(s, e, (uint64_t)i * bytes, part, (uint64_t)n * bytes));
        if (from != DTYPE_F32) half_widen(from, half, n, wide);
        half_narrow(w->type, wide, n, (uint16_t *)w->data + i);
    }
    return STATUS_OK;
}

static const char *entry_shape_text(const safetensors_entry *e, char into[SHAPE_TEXT_BYTES]) {
    shape s = { .rank = e->rank };
    if (e->rank > SHAPE_MAX_RANK) {
        snprintf(into, SHAPE_TEXT_BYTES, "of rank %u", e->rank);
        return into;
    }
    memcpy(s.dim, e->dim, sizeof s.dim);
    return shape_text(&s, into);
}

static status read_weight(const safetensors *s, const safetensors_entry *e, const model_weight *w) {
    const char *path = s->files[e->file].path;
    char have[SHAPE_TEXT_BYTES], need[SHAPE_TEXT_BYTES];
    if (!safetensors_has_shape(e, &w->shape))
        return status_set(STATUS_INVALID, "%s: the tensor '%s' is %s, the model needs %s", path, w->name,
                          entry_shape_text(e, have), shape_text(&w->shape, need));
    int64_t n = shape_elements(&w->shape);
    dtype from = safetensors_dtype(e->dtype);
    bool known = from == DTYPE_F32 || dtype_is_half(from);
    if (known && from == w->type) return safetensors_read(s, e, w->data, e->bytes);
    if (known && dtype_is_half(w->type)) return read_into_half(s, e, w, from);
    if (known) return read_narrow(s, e, w->data, n);
    return status_set(STATUS_INVALID, "%s: the tensor '%s' is of type %s; weights are F32, BF16 or F16", path,
                      w->name, e->dtype);
}

static bool ends_with(const char *name, const char *end) {
    size_t n = strlen(name), m = strlen(end);
    return n >= m && strcmp(name + n - m, end) == 0;
}

/* Causal masks were once saved as buffers; a tied projection may have been saved beside the embedding. Where
 * it is not tied it was read as a weight. */
static bool may_be_passed_over(const char *name) {
    return ends_with(name, ".attn.bias") || ends_with(name, ".attn.masked_bias") ||
           strcmp(name, "lm_head.weight") == 0;
}

static status read_all(const safetensors *s, const model_weight *weights, uint32_t count, bool *used) {
    for (uint32_t i = 0; i < count; i++) {
        const safetensors_entry *e = find(s, weights[i].name);
        char need[SHAPE_TEXT_BYTES];
        if (!e)
            return status_set(STATUS_INVALID, "%s has no tensor '%s', which the model needs, of shape %s",
                              s->file_count ? s->files[0].path : "the model", weights[i].name,
                              shape_text(&weights[i].shape, need));
        TRY(read_weight(s, e, &weights[i]));
        used[e - s->entries] = true;
    }
    for (uint32_t i = 0; i < s->count; i++)
        if (!used[i] && !may_be_passed_over(s->entries[i].name)) {
            char name[UTF8_QUOTE_BYTES];
            return status_set(STATUS_INVALID, "%s has a tensor '%s', for which the model has no place",
                              s->files[s->entries[i].file].path, utf8_quote(s->entries[i].name, name));
        }
    return STATUS_OK;
}

status model_files_load(const char *directory, const model_weight *weights, uint32_t count) {
    safetensors s;
    TRY(safetensors_open(directory, &s));
    bool *used = memory_new(s.count + 1u, sizeof *used);
    status result = used ? read_all(&s, weights, count, used)
                         : status_set(STATUS_FAILED, "%s: no memory for %u tensors", directory, s.count);
    memory_free(used);
    safetensors_close(&s);
    return result;
}

/* ---- writing weights ---- */

status model_files_save(const char *directory, const model_weight *weights, uint32_t count) {
    char path[PATH_BYTES];
    TRY(join(directory, "model.safetensors", path));
    safetensors_item *items = memory_new(count, sizeof *items);
    if (!items) return status_set(STATUS_FAILED, "%s: no memory for %u tensors", path, count);
    for (uint32_t i = 0; i < count; i++)
        items[i] = (safetensors_item){ .name = weights[i].name,
                                       .dtype = safetensors_dtype_name(weights[i].type),
                                       .shape = weights[i].shape,
                                       .data = weights[i].data,
                                       .bytes = (uint64_t)shape_elements(&weights[i].shape) *
                                                dtype_bytes(weights[i].type) };
    status result = safetensors_write(path, items, count);
    memory_free(items);
    return result;
}
