/* A folder of its own for each test program: made and entered at the start, removed at the end. nftw wants
 * _GNU_SOURCE at the top of the program. */
#pragma once

#include <ftw.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <unistd.h>

/* One of the whole program: what a file of helpers opens the test closes. */
__attribute__((weak)) char scratch_path[64] = "/tmp/snug-test-XXXXXX";

static inline int scratch_remove_one(const char *path, const struct stat *about, int kind, struct FTW *walk) {
    (void)about, (void)kind, (void)walk;
    return remove(path);
}

/* The user's cache is in it as well: tests neither read what was measured here nor leave anything. */
static inline int scratch_open(void **state) {
    (void)state;
    bool entered = mkdtemp(scratch_path) && chdir(scratch_path) == 0;
    return entered && setenv("XDG_CACHE_HOME", scratch_path, 1) == 0 ? 0 : -1;
}

static inline int scratch_close(void **state) {
    (void)state;
    return chdir("/") == 0 && nftw(scratch_path, scratch_remove_one, 16, FTW_DEPTH | FTW_PHYS) == 0 ? 0 : -1;
}

static inline void scratch_write(const char *path, const void *data, size_t bytes) {
    FILE *file = fopen(path, "wb");
    if (!file || fwrite(data, 1, bytes, file) != bytes || fclose(file) != 0) abort();
}

/* A small generator for tests that draw their cases. */
static inline uint32_t scratch_random(uint64_t *state) {
    *state = *state * 6364136223846793005u + 1442695040888963407u;
    return (uint32_t)(*state >> 33);
}
