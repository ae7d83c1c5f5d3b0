#include "estimate/recorded/recorded_kinds.h"

#include <stdio.h>
#include <string.h>

#include "base/memory.h"
#include "base/text.h"

enum { MOST_OPERATIONS = 8 };

enum { PRODUCTS, BATCHES_OF_PRODUCTS, ATTENTION, CONVOLUTION, GROUPS };

static const struct {
    const char *kind, *operations[MOST_OPERATIONS]; /* up to the first NULL */
} groups[GROUPS] = {
    [PRODUCTS] = { "mm", { "mm", "addmm" } },
    [BATCHES_OF_PRODUCTS] = { "bmm", { "bmm", "baddbmm" } },
    [ATTENTION] = { "attention",
                    { "_scaled_dot_product_flash_attention", "_scaled_dot_product_flash_attention_for_cpu",
                      "_scaled_dot_product_efficient_attention", "_scaled_dot_product_cudnn_attention",
                      "_scaled_dot_product_fused_attention_overrideable", "_flash_attention_forward",
                      "_efficient_attention_forward" } },
    [CONVOLUTION] = { "convolution", { "convolution", "_convolution", "convolution_overrideable" } },
};

/* ---- names ---- */

/* Of "mm.default" or "library.operation.default" that of the operation. False: it is none that a policy can
 * have. */
static bool operation_of(const char *call, char out[RECORDED_KIND_BYTES]) {
    const char *first = strchr(call, '.'), *second = first ? strchr(first + 1, '.') : NULL;
    const char *from = second ? first + 1 : call, *to = second ? second : first ? first : call + strlen(call);
    size_t length = (size_t)(to - from);
    if (!length || length >= RECORDED_KIND_BYTES) return false;
    memcpy(out, from, length);
    out[length] = 0;
    return strspn(out, "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_") == length;
}

static bool kind_name(const char *call, char out[RECORDED_KIND_BYTES]) {
    if (!operation_of(call, out)) return false;
    for (size_t i = 0; i < GROUPS; i++)
        for (int k = 0; k < MOST_OPERATIONS && groups[i].operations[k]; k++)
            if (strcmp(out, groups[i].operations[k]) == 0) {
                snprintf(out, RECORDED_KIND_BYTES, "%s", groups[i].kind);
                return true;
            }
    return true;
}

const char *const *recorded_kind_operations(const char *kind) {
    for (size_t i = 0; i < GROUPS; i++)
        if (strcmp(kind, groups[i].kind) == 0) return groups[i].operations;
    return NULL;
}

/* ---- random numbers ---- */

/* A CPU's fused attention has no dropout; that of a GPU has a seed, and whether it uses it no recording says.
 */
static bool draws(const char *operation, bool cuda) {
    static const char *const parts[] = { "rand",        "dropout",     "bernoulli", "normal",
                                         "uniform",     "multinomial", "poisson",   "exponential",
                                         "rrelu_with_", "geometric",   "cauchy" };
    if (strcmp(operation, groups[ATTENTION].kind) == 0) return cuda;
    for (size_t i = 0; i < sizeof parts / sizeof *parts; i++)
        if (strstr(operation, parts[i])) return true;
    return false;
}

bool recorded_draws(const recording_program *p, uint32_t call, bool cuda) {
    char name[RECORDED_KIND_BYTES];
    return kind_name(p->strings.of[p->call_name.of[call - 1]], name) && draws(name, cuda);
}

/* ---- the kinds of a recording ---- */

static uint32_t number_of(const recorded_kinds *k, const char *name) {
    uint32_t i = 0;
    while (i < k->count && strcmp(k->name[i], name) != 0) i++;
    return i < k->count ? i + 1 : 0;
}

static void add(recorded_kinds *k, const char *call) {
    char name[RECORDED_KIND_BYTES];
    if (!kind_name(call, name) || number_of(k, name)) return;
    k->more |= k->count == RECORDED_MOST_KINDS;
    if (k->more) return;
    memcpy(k->name[k->count++], name, sizeof name);
    for (int cuda = 0; cuda < 2; cuda++)
        if (draws(name, cuda)) k->draws[cuda] |= recorded_kind_bit(k->count);
}

/* `drawing`: those that draw alone. */
static void add_all(const recording *r, recorded_kinds *k, bool drawing) {
    for (uint32_t i = 0; i < r->program_count; i++) {
        const recording_program *p = &r->programs[i];
        int64_t before = -1;
        for (uint32_t c = 0; c < p->call_name.count; c++) {
            if (p->phase.of[c] != RECORDING_FORWARD || !p->makes.of[c] || p->call_name.of[c] == before)
                continue;
            before = p->call_name.of[c];
            if (!drawing || recorded_draws(p, c + 1, true)) add(k, p->strings.of[before]);
        }
    }
}

/* Those that draw stay together or not at all, so each of them needs its place. */
void recorded_kinds_find(const recording *r, recorded_kinds *k) {
    *k = (recorded_kinds){ 0 };
    add_all(r, k, false);
    if (!k->more) return;
    *k = (recorded_kinds){ 0 };
    add_all(r, k, true);
    add_all(r, k, false);
}

uint8_t *recorded_kinds_of(const recorded_kinds *k, const recording_program *p) {
    uint8_t *of_call = memory_new((size_t)p->call_name.count + 1, sizeof *of_call),
            *of_name = memory_new((size_t)p->strings.count + 1, sizeof *of_name);
    char name[RECORDED_KIND_BYTES];
    for (uint32_t i = 0; of_name && i < p->strings.count; i++)
        if (kind_name(p->strings.of[i], name)) of_name[i] = (uint8_t)number_of(k, name);
    for (uint32_t c = 0; of_call && of_name && c < p->call_name.count; c++)
        if (p->phase.of[c] == RECORDING_FORWARD) of_call[c + 1] = of_name[p->call_name.of[c]];
    if (!of_name) {
        memory_free(of_call);
        of_call = NULL;
    }
    memory_free(of_name);
    return of_call;
}

static status no_such(const recorded_kinds *k, const char *word, size_t length) {
    text all = { 0 };
    for (uint32_t i = 0; i < k->count; i++) text_add(&all, "%s%s", i ? ", " : "", k->name[i]);
    status result =
        status_set(STATUS_INVALID, "--checkpoint-saves: forward has no operation '%.*s'; it has %s%s",
                   length < RECORDED_KIND_BYTES ? (int)length : RECORDED_KIND_BYTES, word,
                   all.length ? all.data : "none", k->more ? "; of more kinds none can stay" : "");
    text_close(&all);
    return result;
}

status recorded_kinds_read(const recorded_kinds *k, const char *words, uint64_t *set) {
    *set = 0;
    for (const char *at = words; *at;) {
        char word[RECORDED_KIND_BYTES], name[RECORDED_KIND_BYTES];
        size_t length = strcspn(at, ", ");
        snprintf(word, sizeof word, "%.*s", length < sizeof word ? (int)length : 0, at);
        uint32_t kind = kind_name(word, name) ? number_of(k, name) : 0; /* addmm is mm */
        if (length && !kind) return no_such(k, at, length);
        *set |= recorded_kind_bit(kind);
        at += length + strspn(at + length, ", ");
    }
    return STATUS_OK;
}
