/* The driver where there is no libFuzzer: the corpus, then mutations of it, the same in every run.
 * SNUG_TEST_LONG=1 makes a hundred times as many. */
#define _GNU_SOURCE
#include <dirent.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "fuzz/fuzz.h"

enum { MUTATIONS = 3000, MOST_SEEDS = 512, ROOM = 1 << 16 };

static struct {
    uint8_t *data;
    size_t size;
} seeds[MOST_SEEDS];
static size_t seed_count;
static uint64_t state = 0x9e3779b97f4a7c15u;

static uint32_t draw(uint32_t below) {
    state ^= state << 13, state ^= state >> 7, state ^= state << 17;
    return below ? (uint32_t)(state >> 16) % below : 0;
}

static int by_name(const struct dirent **a, const struct dirent **b) {
    return strcmp((*a)->d_name, (*b)->d_name);
}

static void read_seed(const char *folder, const char *name) {
    char path[512];
    if (name[0] == '.' || seed_count == MOST_SEEDS) return;
    snprintf(path, sizeof path, "%s/%s", folder, name);
    FILE *file = fopen(path, "rb");
    uint8_t *data = malloc(ROOM);
    if (!file || !data) abort();
    size_t size = fread(data, 1, ROOM, file);
    seeds[seed_count].size = size;
    seeds[seed_count++].data = realloc(data, size + 1);
    fclose(file);
}

/* Numbers and words that readers stumble over. */
static size_t word(char out[32]) {
    static const char *const words[] = { "-1",
                                         "0",
                                         "18446744073709551615",
                                         "9223372036854775808",
                                         "1e400",
                                         "NaN",
                                         "null",
                                         "true",
                                         "\\u0000",
                                         "\\ud800",
                                         "\xff",
                                         "\xef\xbb\xbf",
                                         "{",
                                         "}",
                                         "[",
                                         "]",
                                         "\"",
                                         "'",
                                         ",",
                                         ":",
                                         "\n",
                                         "\\",
                                         "(",
                                         "4294967296" };
    strcpy(out, words[draw(sizeof words / sizeof *words)]);
    return strlen(out);
}

static size_t replace(uint8_t *data, size_t size, size_t at, size_t gone, const void *with, size_t bytes) {
    if (size - gone + bytes > ROOM) return size;
    memmove(data + at + bytes, data + at + gone, size - at - gone);
    memcpy(data + at, with, bytes);
    return size - gone + bytes;
}

static size_t mutate(uint8_t *data, size_t size) {
    char text[32];
    uint32_t which = draw((uint32_t)seed_count), kind = draw(8);
    size_t at = draw((uint32_t)size + 1), rest = size - at, some = draw(rest < 16 ? (uint32_t)rest + 1 : 16);
    size_t from = draw((uint32_t)seeds[which].size + 1), most = seeds[which].size - from;
    uint8_t byte = (uint8_t)draw(256);
    switch (kind) {
    case 0: return rest ? (data[at] ^= (uint8_t)(1u << draw(8)), size) : size;
    case 1: return rest ? (data[at] = byte, size) : size;
    case 2: return at;
    case 3: return replace(data, size, at, some, "", 0);
    case 4: return replace(data, size, at, 0, &byte, 1);
    case 5: return replace(data, size, at, some, text, word(text));
    case 6:
        return replace(data, size, at, 0, seeds[which].data + from,
                       draw((uint32_t)(most < 64 ? most : 64) + 1));
    default: return replace(data, size, at, rest, seeds[which].data + from, most);
    }
}

int main(int count, char **arguments) {
    static uint8_t buffer[ROOM];
    const char *folder = count > 1 ? arguments[1] : SNUG_CORPUS;
    struct dirent **items;
    int found = scandir(folder, &items, NULL, by_name);
    for (int i = 0; i < found; i++) {
        read_seed(folder, items[i]->d_name);
        free(items[i]);
    }
    if (found >= 0) free(items);
    if (seed_count == 0) {
        fprintf(stderr, "%s has no seeds\n", folder);
        return 1;
    }
    for (size_t i = 0; i < seed_count; i++) LLVMFuzzerTestOneInput(seeds[i].data, seeds[i].size);
    size_t mutations = getenv("SNUG_TEST_LONG") ? 100 * MUTATIONS : MUTATIONS;
    for (size_t i = 0; i < mutations; i++) {
        size_t size = seeds[i % seed_count].size;
        memcpy(buffer, seeds[i % seed_count].data, size);
        for (uint32_t times = 1 + draw(4); times > 0; times--) size = mutate(buffer, size);
        uint8_t *exact = malloc(size ? size : 1); /* so that a byte behind it is noticed */
        memcpy(exact, buffer, size);
        LLVMFuzzerTestOneInput(exact, size);
        free(exact);
    }
    for (size_t i = 0; i < seed_count; i++) free(seeds[i].data);
    printf("%zu inputs and %zu mutations\n", seed_count, mutations);
    return 0;
}
