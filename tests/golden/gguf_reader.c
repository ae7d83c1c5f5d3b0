#include "golden/gguf_reader.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/half.h"

enum { U32 = 4, I32 = 5, F32 = 6, BOOL = 7, TEXT = 8, ARRAY = 9 };

typedef struct {
    const uint8_t *at, *end;
    bool short_;
} cursor;

static const uint8_t *take(cursor *c, uint64_t bytes) {
    if (c->short_ || bytes > (uint64_t)(c->end - c->at)) {
        c->short_ = true;
        return NULL;
    }
    c->at += bytes;
    return c->at - bytes;
}

static uint64_t whole(cursor *c, uint32_t bytes) {
    uint64_t value = 0;
    const uint8_t *p = take(c, bytes);
    for (uint32_t i = 0; p && i < bytes; i++) value |= (uint64_t)p[i] << (8 * i);
    return value;
}

static void name(cursor *c, char to[128]) {
    uint64_t bytes = whole(c, 8);
    const uint8_t *p = bytes < 128 ? take(c, bytes) : NULL;
    if (p)
        snprintf(to, 128, "%.*s", (int)bytes, (const char *)p);
    else
        c->short_ = true;
}

static uint64_t width(uint32_t type) {
    return type == BOOL ? 1 : type == U32 || type == I32 || type == F32 ? 4 : 0;
}

static bool read_value(cursor *c, gguf_reader_key *k) {
    k->type = (uint32_t)whole(c, 4);
    k->count = 1;
    if (k->type == ARRAY) k->item = (uint32_t)whole(c, 4);
    if (k->type == ARRAY || k->type == TEXT) k->count = whole(c, 8);
    k->value = c->at;
    if (k->type == TEXT) return take(c, k->count) != NULL;
    if (k->type != ARRAY) return width(k->type) && take(c, width(k->type));
    if (width(k->item)) return k->count < 1u << 30 && take(c, k->count * width(k->item));
    for (uint64_t i = 0; i < k->count && k->item == TEXT && !c->short_; i++) take(c, whole(c, 8));
    return k->item == TEXT && !c->short_;
}

static uint64_t tensor_bytes(const gguf_reader_tensor *t) {
    uint64_t n = 1;
    for (uint32_t d = 0; d < t->rank; d++) n *= t->dim[d];
    switch (t->type) {
    case 0: return 4 * n;
    case 1:
    case 30: return 2 * n;
    case 8: return t->dim[0] % 32 ? 0 : n / 32 * 34;
    default: return 0;
    }
}

static const char *read_tensor(cursor *c, gguf_reader_tensor *t, uint64_t *offset) {
    name(c, t->name);
    t->rank = (uint32_t)whole(c, 4);
    if (t->rank < 1 || t->rank > 4) return "a tensor's dimensions";
    for (uint32_t d = 0; d < t->rank; d++) t->dim[d] = whole(c, 8);
    t->type = (uint32_t)whole(c, 4);
    *offset = whole(c, 8);
    t->bytes = tensor_bytes(t);
    return t->bytes && *offset % 32 == 0 && strlen(t->name) < 64 ? NULL : "a tensor's type, place or name";
}

static const char *parse(gguf_reader *r) {
    cursor c = { r->file, r->file + r->bytes, false };
    uint64_t offset[GGUF_READER_MOST];
    const uint8_t *magic = take(&c, 4);
    if (!magic || memcmp(magic, "GGUF", 4) != 0 || whole(&c, 4) != 3) return "no GGUF of version 3";
    r->tensors = (uint32_t)whole(&c, 8), r->keys = (uint32_t)whole(&c, 8);
    if (r->tensors > GGUF_READER_MOST || r->keys > GGUF_READER_MOST) return "more than this reader keeps";
    for (uint32_t i = 0; i < r->keys; i++) {
        name(&c, r->key[i].name);
        if (!read_value(&c, &r->key[i])) return "a key's value";
        if (gguf_reader_find(r, r->key[i].name) != &r->key[i]) return "a key that is there twice";
    }
    for (uint32_t i = 0; i < r->tensors; i++) {
        const char *why = read_tensor(&c, &r->tensor[i], &offset[i]);
        if (why) return why;
    }
    if (c.short_) return "too short";
    uint64_t data = ((uint64_t)(c.at - r->file) + 31) / 32 * 32, next = 0;
    for (uint32_t i = 0; i < r->tensors; i++) {
        gguf_reader_tensor *t = &r->tensor[i];
        if (offset[i] != next || data + next + t->bytes > r->bytes) return "a tensor elsewhere";
        t->data = r->file + data + next;
        next = (next + t->bytes + 31) / 32 * 32;
    }
    return data + next == r->bytes ? NULL : "something behind the last tensor";
}

gguf_reader *gguf_reader_open(const char *path, const char **why) {
    gguf_reader *r = calloc(1, sizeof *r);
    FILE *file = fopen(path, "rb");
    *why = "no such file";
    if (r && file && fseek(file, 0, SEEK_END) == 0) {
        r->bytes = (uint64_t)ftell(file);
        rewind(file);
        r->file = malloc(r->bytes + 1);
        *why = r->file && fread(r->file, 1, r->bytes, file) == r->bytes ? parse(r) : "unreadable";
    }
    if (file) fclose(file);
    if (!*why) return r;
    gguf_reader_close(r);
    return NULL;
}

void gguf_reader_close(gguf_reader *r) {
    if (r) free(r->file);
    free(r);
}

const gguf_reader_key *gguf_reader_find(const gguf_reader *r, const char *key) {
    for (uint32_t i = 0; i < r->keys; i++)
        if (strcmp(r->key[i].name, key) == 0) return &r->key[i];
    return NULL;
}

const gguf_reader_tensor *gguf_reader_tensor_of(const gguf_reader *r, const char *tensor) {
    for (uint32_t i = 0; i < r->tensors; i++)
        if (strcmp(r->tensor[i].name, tensor) == 0) return &r->tensor[i];
    return NULL;
}

uint32_t gguf_reader_u32(const gguf_reader *r, const char *key) {
    const gguf_reader_key *k = gguf_reader_find(r, key);
    uint32_t value = UINT32_MAX;
    if (k && k->type == U32) memcpy(&value, k->value, sizeof value);
    if (k && k->type == BOOL) value = *k->value;
    return value;
}

float gguf_reader_f32(const gguf_reader *r, const char *key) {
    const gguf_reader_key *k = gguf_reader_find(r, key);
    float value = -1;
    if (k && k->type == F32) memcpy(&value, k->value, sizeof value);
    return value;
}

bool gguf_reader_says(const gguf_reader *r, const char *key, const char *value) {
    const gguf_reader_key *k = gguf_reader_find(r, key);
    return k && k->type == TEXT && k->count == strlen(value) && memcmp(k->value, value, k->count) == 0;
}

bool gguf_reader_item(const gguf_reader *r, const char *key, uint64_t item, const char *value) {
    const gguf_reader_key *k = gguf_reader_find(r, key);
    if (!k || k->type != ARRAY || item >= k->count) return false;
    if (k->item != TEXT) {
        int32_t whole_;
        float number;
        memcpy(&whole_, k->value + 4 * item, 4), memcpy(&number, k->value + 4 * item, 4);
        return k->item == I32 ? whole_ == atoi(value) : number == strtof(value, NULL);
    }
    cursor c = { k->value, r->file + r->bytes, false };
    for (uint64_t i = 0; i < item; i++) take(&c, whole(&c, 8));
    uint64_t bytes = whole(&c, 8);
    return bytes == strlen(value) && memcmp(c.at, value, bytes) == 0;
}

float gguf_reader_number(const gguf_reader_tensor *t, uint64_t i) {
    uint16_t half;
    float number;
    if (t->type == 0) {
        memcpy(&number, t->data + 4 * i, 4);
        return number;
    }
    if (t->type == 8) {
        const uint8_t *block = t->data + i / 32 * 34;
        memcpy(&half, block, 2);
        return half_from_f16(half) * (float)(int8_t)block[2 + i % 32];
    }
    memcpy(&half, t->data + 2 * i, 2);
    return t->type == 1 ? half_from_f16(half) : half_from_bf16(half);
}
