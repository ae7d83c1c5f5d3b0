#include "golden/golden.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static uint32_t mix(uint32_t x) {
    x = (x ^ (x >> 16)) * 0x7FEB352Du;
    x = (x ^ (x >> 15)) * 0x846CA68Bu;
    return x ^ (x >> 16);
}

static uint32_t name_hash(const char *name) {
    uint32_t h = 2166136261u;
    for (; *name; name++) h = (h ^ (uint8_t)*name) * 16777619u;
    return h;
}

float golden_weight(const char *name, int rank, int64_t i) {
    uint32_t bits = mix((uint32_t)i + name_hash(name));
    double value = ((double)(bits >> 8) * 0x1p-24 - 0.5) * 0.2;
    size_t length = strlen(name);
    if (rank == 1 && length > 7 && strcmp(name + length - 7, ".weight") == 0) value = 1.0 + 0.5 * value;
    return (float)value;
}

int32_t golden_token(int step, int sample, int time, int vocabulary) {
    uint32_t noise = mix((uint32_t)step * 1000003u + (uint32_t)sample * 1009u + (uint32_t)time) % 3;
    return (int32_t)((uint32_t)(5 * time + 11 * sample + 3 * step) + noise) % vocabulary;
}

float golden_pixel(int step, int sample, int64_t i) {
    uint32_t begin = name_hash("images") + (uint32_t)step * 1000003u + (uint32_t)sample * 10007u;
    return (float)((double)(mix((uint32_t)i + begin) >> 8) * 0x1p-23 - 1);
}

static bool read_numbers(FILE *file, double *value, int64_t n) {
    for (int64_t i = 0; i < n; i++)
        if (fscanf(file, "%lf", &value[i]) != 1) return false;
    return true;
}

static bool read_series(FILE *file, double *value, int *count) {
    return fscanf(file, "%d", count) == 1 && *count >= 0 && *count <= GOLDEN_STEPS &&
           read_numbers(file, value, *count);
}

static bool read_fact(FILE *file, golden *g) {
    if (g->fact_count == GOLDEN_FACTS) return false;
    golden_fact *f = &g->fact[g->fact_count++];
    return fscanf(file, "%63s %lf", f->name, &f->value) == 2;
}

static bool read_gradient(FILE *file, golden *g) {
    golden_tensor *grown = realloc(g->gradient, ((size_t)g->gradient_count + 1) * sizeof *grown);
    if (!grown) return false;
    g->gradient = grown;
    golden_tensor *t = &grown[g->gradient_count++];
    *t = (golden_tensor){ .count = 1 };
    if (fscanf(file, "%95s %d", t->name, &t->rank) != 2 || t->rank < 0 || t->rank > 4) return false;
    for (int d = 0; d < t->rank; d++) {
        if (fscanf(file, "%ld", &t->dim[d]) != 1 || t->dim[d] < 1 || t->dim[d] > 1 << 20) return false;
        t->count *= t->dim[d];
    }
    t->value = malloc((size_t)t->count * sizeof *t->value);
    return t->value && read_numbers(file, t->value, t->count);
}

static bool read_records(FILE *file, golden *g) {
    char word[64];
    int version;
    if (fscanf(file, "%63s %d", word, &version) != 2 || strcmp(word, "golden") != 0 || version != 1)
        return false;
    while (fscanf(file, "%63s", word) == 1) {
        bool right = strcmp(word, "number") == 0     ? read_fact(file, g)
                     : strcmp(word, "losses") == 0   ? read_series(file, g->loss, &g->loss_count)
                     : strcmp(word, "norms") == 0    ? read_series(file, g->norm, &g->norm_count)
                     : strcmp(word, "gradient") == 0 ? read_gradient(file, g)
                     : strcmp(word, "table") == 0    ? read_gradient(file, g)
                                                     : false;
        if (!right) return false;
    }
    return true;
}

bool golden_open(golden *g, const char *name) {
    *g = (golden){ 0 };
    char path[4096];
    snprintf(path, sizeof path, "%s/tests/golden/%s.txt", SNUG_ROOT, name);
    FILE *file = fopen(path, "r");
    bool right = file && read_records(file, g);
    if (file) fclose(file);
    if (right) return true;
    fprintf(stderr, "%s: %s\n", path, file ? "not a golden file of version 1" : "can't be opened");
    golden_close(g);
    return false;
}

void golden_close(golden *g) {
    for (int i = 0; i < g->gradient_count; i++) free(g->gradient[i].value);
    free(g->gradient);
    *g = (golden){ 0 };
}

double golden_number(const golden *g, const char *name) {
    for (int i = 0; i < g->fact_count; i++)
        if (strcmp(g->fact[i].name, name) == 0) return g->fact[i].value;
    return NAN;
}

const golden_tensor *golden_gradient(const golden *g, const char *name) {
    for (int i = 0; i < g->gradient_count; i++)
        if (strcmp(g->gradient[i].name, name) == 0) return &g->gradient[i];
    return NULL;
}
