#define _GNU_SOURCE
#include "fuzz/fuzz.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "data/text_source.h"

static char folder[64];
static const char *const names[] = { "x.json",        "x.safetensors", "x.index.json",  "x.bin",
                                     "x.u32",         "x.npy",         "x.jsonl",       "x.txt",
                                     "x.yaml",        "a.safetensors", "b.safetensors", "trainer_state.json",
                                     "metrics.jsonl", "d.parquet",     "d.json",        "d.csv",
                                     "d.jsonl.gz",    "d.txt.zst" };

static void remove_folder(void) {
    char path[128];
    for (size_t i = 0; i < sizeof names / sizeof *names; i++) {
        snprintf(path, sizeof path, "%s/%s", folder, names[i]);
        unlink(path);
    }
    rmdir(folder);
}

const char *fuzz_folder(void) {
    if (folder[0]) return folder;
    strcpy(folder, access("/dev/shm", W_OK) == 0 ? "/dev/shm/snug-fuzz-XXXXXX" : "/tmp/snug-fuzz-XXXXXX");
    if (!mkdtemp(folder)) abort();
    atexit(remove_folder);
    return folder;
}

const char *fuzz_file(const char *name, const void *data, size_t size) {
    static char path[128];
    snprintf(path, sizeof path, "%s/%s", fuzz_folder(), name);
    FILE *file = fopen(path, "wb");
    if (!file || fwrite(data, 1, size, file) != size || fclose(file) != 0) abort();
    return path;
}

status fuzz_said(status result) {
    const char *sentence = status_message();
    if (result == STATUS_OK) return result;
    FUZZ_EXPECT(strlen(sentence) > 10 && strlen(sentence) < 1024);
    return result;
}

enum { CONTEXT = 5, MOST_SAMPLES = 64 };

static void read_samples(const data_source *s) {
    static int32_t first[MOST_SAMPLES][CONTEXT], tokens[CONTEXT], labels[CONTEXT];
    uint64_t samples = s->samples < MOST_SAMPLES ? s->samples : MOST_SAMPLES;
    char *scratch = aligned_alloc(64, (s->scratch_bytes + 63) / 64 * 64);
    memset(scratch, 0, s->scratch_bytes);
    status got[MOST_SAMPLES];
    for (uint64_t k = 0; k < samples; k++) {
        got[k] = fuzz_said(s->read(s, k, scratch, (void *[]){ first[k], labels }));
        for (int i = 0; got[k] == STATUS_OK && i < CONTEXT; i++)
            FUZZ_EXPECT(first[k][i] >= 0 && first[k][i] < 50257 && labels[i] >= 0 && labels[i] < 50257);
    }
    for (uint64_t k = samples; k-- > 0;) {
        FUZZ_EXPECT(s->read(s, k, scratch, (void *[]){ tokens, labels }) == got[k]);
        if (got[k] != STATUS_OK) continue;
        FUZZ_EXPECT(memcmp(first[k], tokens, sizeof tokens) == 0);
        if (k + 1 < samples && got[k + 1] == STATUS_OK) FUZZ_EXPECT(labels[CONTEXT - 1] == first[k + 1][0]);
    }
    free(scratch);
}

void fuzz_data(const char *path) {
    text_source_options o = { .path = path, .hold_out = true, .context = CONTEXT, .vocabulary = 50257 };
    data_source s, rest;
    if (fuzz_said(text_source_open(&o, &s)) != STATUS_OK) return;
    status checked = fuzz_said(data_source_check(&s));
    read_samples(&s);
    FUZZ_EXPECT(text_source_held_out(&s, &rest) == STATUS_OK);
    FUZZ_EXPECT(text_source_tokens(&s) / 9 >= text_source_tokens(&rest));
    read_samples(&rest);
    (void)checked;
    data_source_close(&s);
    data_source_close(&rest);
}
