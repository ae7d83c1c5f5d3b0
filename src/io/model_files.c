#include "io/model_files.h"

#include <stdio.h>
#include <string.h>

#include "base/half.h"
#include "base/memory.h"
#include "base/text.h"
#include "base/utf8.h"
#include "io/coded_files.h"
#include "io/expert_files.h"
#include "io/panel_files.h"
#include "io/timm_files.h"
#include "io/vit_files.h"
#include "io/weight_files.h"
#include "models/head.h"
#include "ops/codes4.h"

enum { PATH_BYTES = 4096 };

static status join(const char *directory, const char *file, char path[PATH_BYTES]) {
    if (snprintf(path, PATH_BYTES, "%s/%s", directory, file) < PATH_BYTES) return STATUS_OK;
    return status_set(STATUS_INVALID, "the path '%.60s...' is too long", directory);
}

/* ---- reading weights ---- */

/* What files of a model without its head leave away, as sentence-transformers saves them. */
static const char *const prefixes[] = { "transformer.", "model.", "bert.", "roberta.", "distilbert." };

/* The first of BERT's files call the scale of a norm gamma and its shift beta. */
static const safetensors_entry *find_older(const safetensors *s, const char *name) {
    static const struct {
        const char *now, *then;
    } words[] = { { ".LayerNorm.weight", ".LayerNorm.gamma" }, { ".LayerNorm.bias", ".LayerNorm.beta" } };
    char older[256];
    size_t length = strlen(name);
    for (size_t i = 0; i < sizeof words / sizeof *words; i++) {
        size_t end = strlen(words[i].now);
        if (length < end || length >= sizeof older - 8 || strcmp(name + length - end, words[i].now) != 0)
            continue;
        snprintf(older, sizeof older, "%.*s%s", (int)(length - end), name, words[i].then);
        return safetensors_find(s, older);
    }
    return NULL;
}

static const safetensors_entry *find(const safetensors *s, const char *name) {
    const safetensors_entry *e = safetensors_find(s, name);
    for (size_t i = 0; !e && i < sizeof prefixes / sizeof *prefixes; i++)
        if (strncmp(name, prefixes[i], strlen(prefixes[i])) == 0)
            e = safetensors_find(s, name + strlen(prefixes[i]));
    char filed[VIT_FILES_NAME_BYTES];
    if (!e && vit_files_name(name, filed)) e = safetensors_find(s, filed);
    return e ? e : find_older(s, name);
}

static status open_files(const char *directory, safetensors *s) {
    TRY(safetensors_open(directory, s));
    status result = timm_files_read(s);
    if (result != STATUS_OK) safetensors_close(s);
    return result;
}

/* Codes of the numbers that the file has, which are read twice: first for the scales. */
static status make_codes(const weight_numbers *x, const model_weight *w, const codes_matrix *m) {
    float wide[WEIGHT_PART];
    int8_t codes[WEIGHT_PART];
    int64_t all = shape_elements(&w->shape);
    for (int64_t i = 0; i < all; i += WEIGHT_PART) {
        int64_t n = all - i < WEIGHT_PART ? all - i : WEIGHT_PART;
        TRY(weight_files_numbers_read(x, i, n, wide));
        codes_matrix_look(m, wide, i, n);
    }
    codes_matrix_scale(m);
    for (int64_t i = 0; i < all; i += WEIGHT_PART) {
        int64_t n = all - i < WEIGHT_PART ? all - i : WEIGHT_PART;
        TRY(weight_files_numbers_read(x, i, n, wide));
        codes_matrix_encode(m, wide, i, n, codes);
        TRY(weight_put_bytes(w, (uint64_t)i, codes, (uint64_t)n));
    }
    return STATUS_OK;
}

static status read_into_codes(const safetensors *s, const safetensors_entry *e, const model_weight *w,
                              const model_weight *scales) {
    codes_matrix m = { .rows = shape_rows(&w->shape),
                       .columns = shape_last(&w->shape),
                       .by_rows = w->by_rows };
    int64_t count = m.by_rows ? m.rows : m.columns;
    m.scales = memory_new((size_t)count, sizeof *m.scales);
    if (!m.scales) return status_set(STATUS_FAILED, "no memory to read '%s'", w->name);
    weight_numbers x = { 0 };
    status result = weight_files_numbers(s, e, w, &x);
    if (result == STATUS_OK) result = make_codes(&x, w, &m);
    if (result == STATUS_OK) result = weight_put(scales, 0, m.scales, count);
    weight_files_numbers_close(&x);
    memory_free(m.scales);
    return result;
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

/* Does the file have the first rows of this table alone? Only tables of the vocabulary change with it. */
static bool is_grown(const safetensors_entry *e, const model_weight *w, const model_files_difference *d) {
    shape was = w->shape;
    if (!d->vocabulary_was || !was.rank || was.dim[0] != d->vocabulary || w->type == DTYPE_U8) return false;
    was.dim[0] = d->vocabulary_was;
    return safetensors_has_shape(e, &was);
}

/* Codes have scales, which new rows would change. */
static status check_numbers(const safetensors *s, const safetensors_entry *e, const model_weight *w) {
    dtype from = safetensors_dtype(e->dtype);
    if (from == DTYPE_F32 || dtype_is_half(from)) return STATUS_OK;
    return status_set(
        STATUS_INVALID,
        "%s: the tensor '%s' is of codes (%s), to which no rows of new tokens can be added; add "
        "them to the model that it was made from",
        s->files[e->file].path, w->name, e->dtype);
}

/* Codes of 4 bits are made of numbers while they are read, but for those that products of integers read. */
static shape shape_in(const safetensors_entry *e, const model_weight *w) {
    if (w->panels) return safetensors_dtype(e->dtype) == DTYPE_U8 ? w->shape : panel_files_shape(w);
    return w->type == DTYPE_U8 ? coded_files_shape(w) : w->shape;
}

/* Is it panels of codes of this matrix of the model's, however that lies? */
static bool is_panels_of(const safetensors_entry *e, const model_weight *w) {
    if (safetensors_dtype(e->dtype) != DTYPE_U8 || !dtype_is_float(w->type) || w->shape.rank != 2)
        return false;
    shape along = codes4_shape(w->shape.dim[0], w->shape.dim[1]),
          across = codes4_shape(w->shape.dim[1], w->shape.dim[0]);
    return safetensors_has_shape(e, &along) || safetensors_has_shape(e, &across);
}

static status check_shape(const safetensors *s, const safetensors_entry *e, const model_weight *w,
                          const model_files_difference *d) {
    char have[SHAPE_TEXT_BYTES], need[SHAPE_TEXT_BYTES];
    shape should = shape_in(e, w);
    if (safetensors_has_shape(e, &should) || is_panels_of(e, w)) return STATUS_OK;
    if (is_grown(e, w, d)) return check_numbers(s, e, w);
    return status_set(STATUS_INVALID, "%s: the tensor '%s' is %s, the model needs %s", s->files[e->file].path,
                      w->name, entry_shape_text(e, have), shape_text(&should, need));
}

static status find_weight_in(const safetensors *s, const model_weight *w, const safetensors_entry **e) {
    char need[SHAPE_TEXT_BYTES];
    *e = find(s, w->name);
    if (*e) return STATUS_OK;
    return status_set(STATUS_INVALID, "%s has no tensor '%s', which the model needs, of shape %s",
                      s->file_count ? s->files[0].path : "the model", w->name, shape_text(&w->shape, need));
}

static status read_weight(const safetensors *s, const safetensors_entry *e, const model_weight *w,
                          const model_weight *scales, const model_files_difference *d) {
    const char *path = s->files[e->file].path;
    TRY(check_shape(s, e, w, d));
    dtype from = safetensors_dtype(e->dtype);
    bool known = from == DTYPE_F32 || dtype_is_half(from);
    if (from == w->type && (from == DTYPE_I8 || w->panels)) return weight_files_read(s, e, w);
    if (known && w->type == DTYPE_I8 && scales) return read_into_codes(s, e, w, scales);
    if (known && w->panels && scales) return panel_files_read(s, e, w, scales);
    if (known && w->type == DTYPE_U8 && scales) return coded_files_read(s, e, w, scales);
    if (w->type == DTYPE_I8)
        return status_set(STATUS_INVALID,
                          "%s: the tensor '%s' is of type %s, which codes of 8 bits aren't made of", path,
                          w->name, e->dtype);
    if (from == DTYPE_I8)
        return status_set(STATUS_INVALID,
                          "%s: the tensor '%s' is of codes of 8 bits (I8); plain numbers are wanted here",
                          path, w->name);
    if (from == DTYPE_U8)
        return status_set(STATUS_INVALID,
                          "%s: the tensor '%s' is of codes of 4 bits (U8); plain numbers are wanted here",
                          path, w->name);
    if (known) return weight_files_read(s, e, w);
    return status_set(STATUS_INVALID, "%s: the tensor '%s' is of type %s; weights are F32, BF16 or F16", path,
                      w->name, e->dtype);
}

/* Causal masks, places and frequencies of rotary positions were once saved as buffers; a tied projection may
 * have been saved beside the embedding, as T5's stacks have it once each. Where it is not tied it was read as
 * a weight. An encoder's pooler and its judge of sentences take no part in filling gaps. */
static bool may_be_passed_over(const char *name) {
    static const char *const buffers[] = { ".attn.bias", ".attn.masked_bias", ".attention.bias",
                                           ".attention.masked_bias", ".rotary_emb.inv_freq",
                                           ".embeddings.position_ids", ".pooler.dense.weight",
                                           ".pooler.dense.bias", ".num_batches_tracked",
                                           /* T5's first files: a table that nobody looked into */
                                           ".EncDecAttention.relative_attention_bias.weight" };
    static const char *const whole[] = { "lm_head.weight",
                                         "embed_out.weight",
                                         "lm_head.decoder.weight",
                                         "lm_head.decoder.bias",
                                         "cls.predictions.decoder.weight",
                                         "cls.predictions.decoder.bias",
                                         "cls.seq_relationship.weight",
                                         "cls.seq_relationship.bias",
                                         "vocab_projector.weight",
                                         "decoder.weight", /* ModernBERT's */
                                         "pooler.dense.weight",
                                         "pooler.dense.bias",
                                         "embeddings.position_ids",
                                         "encoder.embed_tokens.weight",
                                         "decoder.embed_tokens.weight" };
    for (size_t i = 0; i < sizeof buffers / sizeof *buffers; i++)
        if (text_ends_with(name, buffers[i])) return true;
    for (size_t i = 0; i < sizeof whole / sizeof *whole; i++)
        if (strcmp(name, whole[i]) == 0) return true;
    return false;
}

static const model_weight *find_weight(const model_weight *weights, uint32_t count, const char *name,
                                       size_t length) {
    for (uint32_t i = 0; i < count; i++)
        if (strncmp(weights[i].name, name, length) == 0 && !weights[i].name[length]) return &weights[i];
    return NULL;
}

/* Is this the scales of codes that the file has as plain numbers? Then they are made with these. */
static bool is_made(const safetensors *s, const model_weight *weights, uint32_t count, const char *name) {
    size_t length = codes_scales_of(name);
    const model_weight *w = length ? find_weight(weights, count, name, length) : NULL;
    const safetensors_entry *e = w && coded_files_has(w) ? find(s, w->name) : NULL;
    return e && dtype_is_float(safetensors_dtype(e->dtype));
}

static const model_weight *scales_of(const model_weight *weights, uint32_t count, const model_weight *w) {
    char name[CODES_NAME_BYTES];
    if (!coded_files_has(w)) return NULL;
    codes_scales_name(w->name, name);
    return find_weight(weights, count, name, strlen(name));
}

static bool is_left_out(const char *name, const model_files_difference *d) {
    return may_be_passed_over(name) || (d->judge && head_replaces(d->judge, name)) ||
           (d->headless && head_is_language(name));
}

static status all_used(const safetensors *s, const bool *used, const model_files_difference *d) {
    for (uint32_t i = 0; i < s->count; i++)
        if (!used[i] && !is_left_out(s->entries[i].name, d)) {
            char name[UTF8_QUOTE_BYTES];
            return status_set(STATUS_INVALID, "%s has a tensor '%s', for which the model has no place",
                              s->files[s->entries[i].file].path, utf8_quote(s->entries[i].name, name));
        }
    return STATUS_OK;
}

status model_files_all_used(const safetensors *s, const bool *used) {
    return all_used(s, used, &(model_files_difference){ 0 });
}

/* Is this weight one of a new head that the file lacks, or has for another one? That is used up as well. */
static bool is_lacking(const safetensors *s, const model_weight *w, const model *judge, bool *used) {
    if (!judge || !head_owns(judge, w->name)) return false;
    const safetensors_entry *e = find(s, w->name);
    if (!e) return true;
    shape should = shape_in(e, w);
    if (used) used[e - s->entries] = true;
    return !safetensors_has_shape(e, &should);
}

static status read_listed(const safetensors *s, const model_weight *weights, uint32_t count,
                          const model_files_difference *d, bool *used) {
    for (uint32_t i = 0; i < count; i++) {
        if (is_made(s, weights, count, weights[i].name)) continue;
        const safetensors_entry *e;
        if (is_lacking(s, &weights[i], d->judge, used)) continue;
        TRY(find_weight_in(s, &weights[i], &e));
        TRY(read_weight(s, e, &weights[i], scales_of(weights, count, &weights[i]), d));
        used[e - s->entries] = true;
    }
    return all_used(s, used, d);
}

static status read_all(const safetensors *s, const model_weight *weights, uint32_t count,
                       const model_files_difference *d, bool *used) {
    expert_files x;
    TRY(expert_files_list(expert_files_names(s), weights, count, &x));
    status result = read_listed(s, x.weights, x.count, d, used);
    expert_files_close(&x);
    return result;
}

status model_files_load(const char *directory, const model_weight *weights, uint32_t count) {
    return model_files_load_other(directory, weights, count, &(model_files_difference){ 0 });
}

status model_files_load_other(const char *directory, const model_weight *weights, uint32_t count,
                              const model_files_difference *d) {
    safetensors s;
    TRY(open_files(directory, &s));
    bool *used = memory_new(s.count + 1u, sizeof *used);
    status result = used ? read_all(&s, weights, count, d, used)
                         : status_set(STATUS_FAILED, "%s: no memory for %u tensors", directory, s.count);
    memory_free(used);
    safetensors_close(&s);
    return result;
}

status model_files_lack(const char *directory, const model_weight *weights, uint32_t count,
                        const model_files_difference *d, bool *lacks) {
    safetensors s;
    TRY(open_files(directory, &s));
    for (uint32_t i = 0; i < count; i++) lacks[i] = is_lacking(&s, &weights[i], d->judge, NULL);
    safetensors_close(&s);
    return STATUS_OK;
}

status model_files_check(const char *directory, const model_weight *weights, uint32_t count,
                         const model_files_difference *d) {
    safetensors s;
    expert_files x = { 0 };
    TRY(open_files(directory, &s));
    status result = expert_files_list(expert_files_names(&s), weights, count, &x);
    for (uint32_t i = 0; i < x.count && result == STATUS_OK; i++) {
        const safetensors_entry *e;
        if (is_lacking(&s, &x.weights[i], d->judge, NULL)) continue;
        result = find_weight_in(&s, &x.weights[i], &e);
        if (result == STATUS_OK) result = check_shape(&s, e, &x.weights[i], d);
    }
    expert_files_close(&x);
    safetensors_close(&s);
    return result;
}

/* ---- writing weights ---- */

/* How many have another name in files. */
static uint32_t renamed(const model_weight *weights, uint32_t count) {
    char name[VIT_FILES_NAME_BYTES];
    uint32_t n = 0;
    for (uint32_t i = 0; i < count; i++) n += vit_files_name(weights[i].name, name);
    return n;
}

static status write(const char *path, const safetensors_item *items, uint32_t count, bool timm) {
    timm_files t = { 0 };
    if (!timm) return safetensors_write(path, items, count);
    TRY(timm_files_write(items, count, &t));
    status result = safetensors_write(path, t.items, t.count);
    timm_files_close(&t);
    return result;
}

/* ---- how many batches a norm has seen ---- */

static const char RUNNING[] = ".running_var", TRACKED[] = ".num_batches_tracked";

/* One for each norm, all the same number. `items` NULL: only counted. */
static uint32_t add_tracked(const model_weight *weights, uint32_t count, const int64_t *batches,
                            safetensors_item *items, char (*names)[VIT_FILES_NAME_BYTES]) {
    uint32_t n = 0;
    for (uint32_t i = 0; i < count && *batches; i++) {
        if (!text_ends_with(weights[i].name, RUNNING)) continue;
        if (items) {
            int stem = (int)(strlen(weights[i].name) - strlen(RUNNING));
            snprintf(names[n], VIT_FILES_NAME_BYTES, "%.*s%s", stem < 120 ? stem : 120, weights[i].name,
                     TRACKED);
            items[n] = (safetensors_item){ .name = names[n], .dtype = "I64", .data = batches, .bytes = 8 };
        }
        n++;
    }
    return n;
}

/* As the weights are, or cast. */
static status save(const char *directory, const model_weight *weights, uint32_t count,
                   const weight_files_cast *casts, const model_files_form *form) {
    char path[PATH_BYTES];
    uint32_t tracked = add_tracked(weights, count, &form->batches, NULL, NULL);
    TRY(join(directory, form->name ? form->name : "model.safetensors", path));
    safetensors_item *items = memory_new(count + tracked + 1u, sizeof *items);
    char(*names)[VIT_FILES_NAME_BYTES] = memory_new(renamed(weights, count) + tracked + 1u, sizeof *names);
    status result =
        items && names ? STATUS_OK : status_set(STATUS_FAILED, "%s: no memory for %u tensors", path, count);
    uint32_t n = 0;
    for (uint32_t i = 0; result == STATUS_OK && i < count; i++) {
        bool renames = !form->timm && vit_files_name(weights[i].name, names[n]);
        const char *name = renames ? names[n++] : weights[i].name;
        items[i] = casts ? weight_files_item_as(&casts[i], name) : weight_files_item(&weights[i], name);
    }
    if (result == STATUS_OK) {
        add_tracked(weights, count, &form->batches, items + count, names + n);
        result = write(path, items, count + tracked, form->timm);
    }
    memory_free(names);
    memory_free(items);
    return result;
}

static status save_listed(const char *directory, const model_weight *weights, uint32_t count,
                          const model_files_form *form) {
    dtype as = form->type;
    if (!as) return save(directory, weights, count, NULL, form);
    for (uint32_t i = 0; i < count; i++)
        if (weights[i].type == DTYPE_I8 || weights[i].type == DTYPE_U8)
            return status_set(STATUS_INVALID, "'%s' is stored as codes, which can't be cast",
                              weights[i].name);
    weight_files_cast *casts = memory_new(count, sizeof *casts);
    void *block = memory_new(WEIGHT_PART, sizeof(float));
    status result =
        casts && block ? STATUS_OK : status_set(STATUS_FAILED, "no memory to cast %u tensors", count);
    for (uint32_t i = 0; result == STATUS_OK && i < count; i++)
        casts[i] = (weight_files_cast){ &weights[i], as, block };
    if (result == STATUS_OK) result = save(directory, weights, count, casts, form);
    memory_free(block);
    memory_free(casts);
    return result;
}

status model_files_save(const char *directory, const model_weight *weights, uint32_t count) {
    return model_files_save_as(directory, weights, count, &(model_files_form){ 0 });
}

status model_files_save_as(const char *directory, const model_weight *weights, uint32_t count,
                           const model_files_form *form) {
    expert_files x;
    TRY(expert_files_list(form->experts, weights, count, &x));
    status result = save_listed(directory, x.weights, x.count, form);
    expert_files_close(&x);
    return result;
}
