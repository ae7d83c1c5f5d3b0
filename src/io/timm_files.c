#include "io/timm_files.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/memory.h"

enum { NAME_BYTES = 128, NUMBERS = 3, QKV = 3 };

/* Beginnings of names: '%' is a number, '^' one that timm counts from 1. In the order in which they are
 * tried. */
typedef struct {
    const char *ours, *timm;
} pair;

static const pair vit[] = { { "vit.embeddings.cls_token", "cls_token" },
                            { "vit.embeddings.position_embeddings", "pos_embed" },
                            { "vit.embeddings.patch_embeddings.projection.", "patch_embed.proj." },
                            { "vit.layers.%.attention.o_proj.", "blocks.%.attn.proj." },
                            { "vit.layers.%.layernorm_before.", "blocks.%.norm1." },
                            { "vit.layers.%.layernorm_after.", "blocks.%.norm2." },
                            { "vit.layers.%.mlp.", "blocks.%.mlp." },
                            { "vit.layernorm.", "norm." },
                            { "classifier.", "head." },
                            { NULL, NULL } };
static const pair resnet[] = {
    { "resnet.embedder.embedder.convolution.", "conv1." },
    { "resnet.embedder.embedder.normalization.", "bn1." },
    { "resnet.encoder.stages.^.layers.%.shortcut.convolution.", "layer^.%.downsample.0." },
    { "resnet.encoder.stages.^.layers.%.shortcut.normalization.", "layer^.%.downsample.1." },
    { "resnet.encoder.stages.^.layers.%.layer.^.convolution.", "layer^.%.conv^." },
    { "resnet.encoder.stages.^.layers.%.layer.^.normalization.", "layer^.%.bn^." },
    { "classifier.1.", "fc." },
    { NULL, NULL }
};
static const pair convnext[] = {
    { "convnext.embeddings.patch_embeddings.", "stem.0." },
    { "convnext.embeddings.layernorm.", "stem.1." },
    { "convnext.encoder.stages.%.downsampling_layer.%.", "stages.%.downsample.%." },
    { "convnext.encoder.stages.%.layers.%.layer_scale_parameter", "stages.%.blocks.%.gamma" },
    { "convnext.encoder.stages.%.layers.%.dwconv.", "stages.%.blocks.%.conv_dw." },
    { "convnext.encoder.stages.%.layers.%.layernorm.", "stages.%.blocks.%.norm." },
    { "convnext.encoder.stages.%.layers.%.pwconv1.", "stages.%.blocks.%.mlp.fc1." },
    { "convnext.encoder.stages.%.layers.%.pwconv2.", "stages.%.blocks.%.mlp.fc2." },
    { "convnext.layernorm.", "head.norm." },
    { "classifier.", "head.fc." },
    { NULL, NULL }
};

/* Which family a set of names is of, by one that no other has. */
static const struct {
    const char *ours, *timm;
    const pair *pairs;
} families[] = { { "vit.embeddings.cls_token", "blocks.0.attn.qkv.weight", vit },
                 { "resnet.embedder.embedder.convolution.weight", "layer1.0.conv1.weight", resnet },
                 { "convnext.embeddings.layernorm.weight", "stages.0.blocks.0.conv_dw.weight", convnext } };

/* ---- one name ---- */

/* Goes through a beginning; false where the name does not begin so. `*rest`: what stands behind it. */
static bool matches(const char *name, const char *pattern, int64_t numbers[NUMBERS], const char **rest) {
    int count = 0;
    for (; *pattern; pattern++) {
        if (*pattern != '%' && *pattern != '^') {
            if (*name++ != *pattern) return false;
            continue;
        }
        char *end;
        if (*name < '0' || *name > '9') return false;
        numbers[count++] = strtoll(name, &end, 10);
        name = end;
    }
    *rest = name;
    return true;
}

/* `more` is added to numbers that timm counts from 1. */
static bool put(const char *pattern, const int64_t numbers[NUMBERS], int64_t more, const char *rest,
                char out[NAME_BYTES]) {
    size_t used = 0;
    int count = 0;
    for (; *pattern && used + 24 < NAME_BYTES; pattern++) {
        if (*pattern != '%' && *pattern != '^') {
            out[used++] = *pattern;
            continue;
        }
        int64_t number = numbers[count++] + (*pattern == '^' ? more : 0);
        used += (size_t)snprintf(out + used, NAME_BYTES - used, "%lld", (long long)number);
    }
    return !*pattern && snprintf(out + used, NAME_BYTES - used, "%s", rest) < (int)(NAME_BYTES - used);
}

/* False: there is no pair for it. */
static bool translate(const pair *pairs, bool to_timm, const char *name, char out[NAME_BYTES]) {
    int64_t numbers[NUMBERS];
    const char *rest;
    for (const pair *p = pairs; p->ours; p++)
        if (matches(name, to_timm ? p->ours : p->timm, numbers, &rest))
            return put(to_timm ? p->timm : p->ours, numbers, to_timm ? 1 : -1, rest, out);
    return false;
}

static const char *const thirds[QKV] = { "vit.layers.%.attention.q_proj.", "vit.layers.%.attention.k_proj.",
                                         "vit.layers.%.attention.v_proj." };
static const char packed_name[] = "blocks.%.attn.qkv.";

/* ---- reading ---- */

/* What the translated entries are made of. */
typedef struct {
    safetensors_entry *entries;
    char (*names)[NAME_BYTES];
    uint32_t count;
} translated;

static void add(translated *t, const safetensors_entry *from) {
    t->entries[t->count] = *from;
    t->entries[t->count].name = t->names[t->count];
    t->count++;
}

static void add_thirds(translated *t, const safetensors_entry *e, const int64_t *numbers, const char *rest) {
    for (int k = 0; k < QKV; k++) {
        safetensors_entry third = *e;
        third.dim[0] /= QKV, third.bytes /= QKV;
        third.offset += (uint64_t)k * third.bytes;
        if (put(thirds[k], numbers, 0, rest, t->names[t->count])) add(t, &third);
    }
}

/* A name without a pair stays, and is refused as any other that the model has no place for. */
static void translate_entry(translated *t, const pair *pairs, const safetensors_entry *e) {
    int64_t numbers[NUMBERS];
    const char *rest;
    if (pairs == vit && e->rank && e->dim[0] % QKV == 0 && matches(e->name, packed_name, numbers, &rest)) {
        add_thirds(t, e, numbers, rest);
        return;
    }
    bool known = translate(pairs, false, e->name, t->names[t->count]);
    add(t, e);
    if (!known) t->entries[t->count - 1].name = e->name;
}

static int by_name(const void *a, const void *b) {
    return strcmp(((const safetensors_entry *)a)->name, ((const safetensors_entry *)b)->name);
}

static const pair *pairs_of(const safetensors *s) {
    for (size_t i = 0; i < sizeof families / sizeof *families; i++)
        if (safetensors_find(s, families[i].timm)) return families[i].pairs;
    return NULL;
}

status timm_files_read(safetensors *s) {
    const pair *pairs = pairs_of(s);
    if (!pairs) return STATUS_OK;
    uint32_t most = QKV * s->count;
    translated t = { .entries = memory_new(most, sizeof *t.entries),
                     .names = memory_new(most, sizeof *t.names) };
    if (!t.entries || !t.names) {
        memory_free(t.entries);
        memory_free(t.names);
        return status_set(STATUS_FAILED, "%s: no memory for the names of %u tensors", s->files[0].path,
                          s->count);
    }
    for (uint32_t i = 0; i < s->count; i++) translate_entry(&t, pairs, &s->entries[i]);
    qsort(t.entries, t.count, sizeof *t.entries, by_name);
    memory_free(s->entries);
    s->entries = t.entries, s->count = t.count, s->more_names = t.names;
    return STATUS_OK;
}

/* ---- writing ---- */

/* Three tensors as one, each third given by its own item. */
typedef struct {
    safetensors_item third[QKV];
} joined;

typedef struct {
    char (*names)[NAME_BYTES];
    joined *joined;
} held;

static status give_part(void *context, uint64_t first, const void **data, uint64_t *bytes) {
    const joined *j = context;
    int k = 0;
    while (k + 1 < QKV && first >= j->third[k].bytes) first -= j->third[k++].bytes;
    const safetensors_item *x = &j->third[k];
    if (x->part) return x->part(x->context, first, data, bytes);
    *data = (const char *)x->data + first, *bytes = x->bytes - first;
    return STATUS_OK;
}

static const safetensors_item *find_item(const safetensors_item *items, uint32_t count, const char *name) {
    for (uint32_t i = 0; i < count; i++)
        if (strcmp(items[i].name, name) == 0) return &items[i];
    return NULL;
}

/* Where item i is the first third of such a tensor: all of it. */
static bool join(const safetensors_item *items, uint32_t count, uint32_t i, joined *j, safetensors_item *out,
                 char name[NAME_BYTES]) {
    int64_t numbers[NUMBERS];
    const char *rest;
    if (!matches(items[i].name, thirds[0], numbers, &rest)) return false;
    for (int k = 0; k < QKV; k++) {
        char own[NAME_BYTES];
        const safetensors_item *x =
            put(thirds[k], numbers, 0, rest, own) ? find_item(items, count, own) : NULL;
        if (!x) return false;
        j->third[k] = *x;
    }
    put(packed_name, numbers, 0, rest, name);
    *out = items[i];
    out->name = name, out->data = NULL, out->part = give_part, out->context = j;
    out->shape.dim[0] *= QKV, out->bytes *= QKV;
    return true;
}

static bool is_other_third(const char *name) {
    int64_t numbers[NUMBERS];
    const char *rest;
    return matches(name, thirds[1], numbers, &rest) || matches(name, thirds[2], numbers, &rest);
}

static const pair *pairs_of_items(const safetensors_item *items, uint32_t count) {
    for (size_t i = 0; i < sizeof families / sizeof *families; i++)
        if (find_item(items, count, families[i].ours)) return families[i].pairs;
    return NULL;
}

status timm_files_write(const safetensors_item *items, uint32_t count, timm_files *t) {
    const pair *pairs = pairs_of_items(items, count);
    held *h = memory_new(1, sizeof *h);
    *t = (timm_files){ .items = memory_new(count + 1u, sizeof *t->items), .held = h };
    if (h)
        h->names = memory_new(count + 1u, sizeof *h->names),
        h->joined = memory_new(count + 1u, sizeof *h->joined);
    if (!pairs || !t->items || !h || !h->names || !h->joined) {
        timm_files_close(t);
        return status_set(STATUS_FAILED, "no memory to write %u tensors by timm's names", count);
    }
    for (uint32_t i = 0; i < count; i++) {
        uint32_t n = t->count;
        if (pairs == vit && is_other_third(items[i].name)) continue;
        if (!join(items, count, i, &h->joined[n], &t->items[n], h->names[n])) {
            t->items[n] = items[i];
            if (translate(pairs, true, items[i].name, h->names[n])) t->items[n].name = h->names[n];
        }
        t->count++;
    }
    return STATUS_OK;
}

void timm_files_close(timm_files *t) {
    held *h = t->held;
    if (h) memory_free(h->names), memory_free(h->joined);
    memory_free(h);
    memory_free(t->items);
    *t = (timm_files){ 0 };
}
