/* GGUF as a test reads it: the whole file in memory, every length looked at. Written by the format's page and
 * not by what writes here. */
#pragma once

#include <stdbool.h>
#include <stdint.h>

enum { GGUF_READER_MOST = 512 };

typedef struct {
    char name[128];
    uint32_t type, item;  /* of a key's value; item: of an array's */
    uint64_t count;       /* of an array; of a text its bytes */
    const uint8_t *value; /* of an array: its first item */
} gguf_reader_key;

typedef struct {
    char name[128];
    uint32_t type, rank;
    uint64_t dim[4]; /* as in the file: columns first */
    const uint8_t *data;
    uint64_t bytes;
} gguf_reader_tensor;

typedef struct {
    uint8_t *file;
    uint64_t bytes;
    uint32_t keys, tensors;
    gguf_reader_key key[GGUF_READER_MOST];
    gguf_reader_tensor tensor[GGUF_READER_MOST];
} gguf_reader;

/* NULL where the file is none that the format allows; `why` says it then. Free with gguf_reader_close. */
gguf_reader *gguf_reader_open(const char *path, const char **why);
void gguf_reader_close(gguf_reader *r);

const gguf_reader_key *gguf_reader_find(const gguf_reader *r, const char *key);
const gguf_reader_tensor *gguf_reader_tensor_of(const gguf_reader *r, const char *name);
uint32_t gguf_reader_u32(const gguf_reader *r, const char *key); /* UINT32_MAX: none such */
float gguf_reader_f32(const gguf_reader *r, const char *key);    /* -1: none such */
/* Is the key there, and its text this one? Of an array: its item of that number. */
bool gguf_reader_says(const gguf_reader *r, const char *key, const char *value);
bool gguf_reader_item(const gguf_reader *r, const char *key, uint64_t item, const char *value);
/* A number of a tensor, widened. */
float gguf_reader_number(const gguf_reader_tensor *t, uint64_t i);
