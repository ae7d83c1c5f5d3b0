#include "estimate/llama_cpp/gguf.h"

#include <string.h>

/* ---- types ---- */

static const struct {
    int bytes, numbers; /* of a block */
    gguf_type instead;  /* where rows are no whole blocks */
} types[GGUF_TYPES] = {
    [GGUF_F32] = { 4, 1, GGUF_F32 },           [GGUF_F16] = { 2, 1, GGUF_F16 },
    [GGUF_BF16] = { 2, 1, GGUF_BF16 },         [GGUF_Q8_0] = { 34, 32, GGUF_F16 },
    [GGUF_Q6_K] = { 210, 256, GGUF_Q8_0 },     [GGUF_Q5_K] = { 176, 256, GGUF_Q5_1 },
    [GGUF_Q5_1] = { 24, 32, GGUF_F16 },        [GGUF_Q5_0] = { 22, 32, GGUF_F16 },
    [GGUF_Q4_K] = { 144, 256, GGUF_Q5_0 },     [GGUF_Q4_1] = { 20, 32, GGUF_F16 },
    [GGUF_Q4_0] = { 18, 32, GGUF_F16 },        [GGUF_IQ4_NL] = { 18, 32, GGUF_F16 },
    [GGUF_IQ4_XS] = { 136, 256, GGUF_IQ4_NL }, [GGUF_Q3_K] = { 110, 256, GGUF_Q4_0 },
    [GGUF_IQ3_S] = { 110, 256, GGUF_IQ4_NL },  [GGUF_IQ3_XXS] = { 98, 256, GGUF_IQ4_NL },
    [GGUF_Q2_K] = { 84, 256, GGUF_Q4_0 },      [GGUF_IQ2_S] = { 82, 256, GGUF_IQ4_NL },
    [GGUF_IQ2_XS] = { 74, 256, GGUF_IQ4_NL },  [GGUF_IQ2_XXS] = { 66, 256, GGUF_IQ4_NL },
    [GGUF_IQ1_M] = { 56, 256, GGUF_IQ4_NL },   [GGUF_IQ1_S] = { 50, 256, GGUF_IQ4_NL },
};

double gguf_bits(gguf_type t) { return 8.0 * types[t].bytes / types[t].numbers; }

static gguf_type for_rows(gguf_type t, int64_t inner) {
    while (inner % types[t].numbers) t = types[t].instead;
    return t;
}

/* ---- mixes ---- */

static const struct {
    const char *name;
    gguf_type base;
} mixes[GGUF_MIXES] = {
    [GGUF_MIX_F32] = { "F32", GGUF_F32 },          [GGUF_MIX_BF16] = { "BF16", GGUF_BF16 },
    [GGUF_MIX_F16] = { "F16", GGUF_F16 },          [GGUF_MIX_Q8_0] = { "Q8_0", GGUF_Q8_0 },
    [GGUF_MIX_Q6_K] = { "Q6_K", GGUF_Q6_K },       [GGUF_MIX_Q5_1] = { "Q5_1", GGUF_Q5_1 },
    [GGUF_MIX_Q5_K_M] = { "Q5_K_M", GGUF_Q5_K },   [GGUF_MIX_Q5_K_S] = { "Q5_K_S", GGUF_Q5_K },
    [GGUF_MIX_Q5_0] = { "Q5_0", GGUF_Q5_0 },       [GGUF_MIX_Q4_1] = { "Q4_1", GGUF_Q4_1 },
    [GGUF_MIX_Q4_K_M] = { "Q4_K_M", GGUF_Q4_K },   [GGUF_MIX_Q4_K_S] = { "Q4_K_S", GGUF_Q4_K },
    [GGUF_MIX_IQ4_NL] = { "IQ4_NL", GGUF_IQ4_NL }, [GGUF_MIX_Q4_0] = { "Q4_0", GGUF_Q4_0 },
    [GGUF_MIX_IQ4_XS] = { "IQ4_XS", GGUF_IQ4_XS }, [GGUF_MIX_Q3_K_L] = { "Q3_K_L", GGUF_Q3_K },
    [GGUF_MIX_Q3_K_M] = { "Q3_K_M", GGUF_Q3_K },   [GGUF_MIX_IQ3_M] = { "IQ3_M", GGUF_IQ3_S },
    [GGUF_MIX_Q3_K_S] = { "Q3_K_S", GGUF_Q3_K },   [GGUF_MIX_IQ3_S] = { "IQ3_S", GGUF_IQ3_S },
    [GGUF_MIX_IQ3_XS] = { "IQ3_XS", GGUF_IQ3_S },  [GGUF_MIX_IQ3_XXS] = { "IQ3_XXS", GGUF_IQ3_XXS },
    [GGUF_MIX_Q2_K] = { "Q2_K", GGUF_Q2_K },       [GGUF_MIX_Q2_K_S] = { "Q2_K_S", GGUF_Q2_K },
    [GGUF_MIX_IQ2_M] = { "IQ2_M", GGUF_IQ2_S },    [GGUF_MIX_IQ2_S] = { "IQ2_S", GGUF_IQ2_XS },
    [GGUF_MIX_IQ2_XS] = { "IQ2_XS", GGUF_IQ2_XS }, [GGUF_MIX_IQ2_XXS] = { "IQ2_XXS", GGUF_IQ2_XXS },
    [GGUF_MIX_IQ1_M] = { "IQ1_M", GGUF_IQ1_M },    [GGUF_MIX_IQ1_S] = { "IQ1_S", GGUF_IQ1_S },
};

const char *gguf_mix_name(gguf_mix m) { return mixes[m].name; }

typedef enum {
    ALWAYS,
    GROUPED,      /* four heads or more have the same keys and values */
    OFTEN,        /* the first and last eighth of the blocks, and every third between them */
    FIRST_TWO,    /* blocks */
    FIRST_FOUR,   /* blocks */
    FIRST_8TH,    /* of the blocks */
    FIRST_16TH,   /* of the blocks */
    BETWEEN_8THS, /* neither in the first eighth nor in the last */
    EIGHT_EXPERTS /* exactly */
} condition;

/* V stands for q, k and v in one product as well. */
typedef struct {
    gguf_mix mix;
    weights_part part;
    condition when;
    gguf_type to;
} line;

static const line lines[] = {
    { GGUF_MIX_Q5_K_M, WEIGHTS_V, OFTEN, GGUF_Q6_K },
    { GGUF_MIX_Q5_K_M, WEIGHTS_DOWN, OFTEN, GGUF_Q6_K },
    { GGUF_MIX_Q4_K_M, WEIGHTS_V, OFTEN, GGUF_Q6_K },
    { GGUF_MIX_Q4_K_M, WEIGHTS_DOWN, OFTEN, GGUF_Q6_K },
    { GGUF_MIX_Q4_K_M, WEIGHTS_O, EIGHT_EXPERTS, GGUF_Q5_K },
    { GGUF_MIX_Q4_K_S, WEIGHTS_V, FIRST_FOUR, GGUF_Q5_K },
    { GGUF_MIX_Q4_K_S, WEIGHTS_DOWN, FIRST_8TH, GGUF_Q5_K },
    { GGUF_MIX_Q4_K_S, WEIGHTS_O, EIGHT_EXPERTS, GGUF_Q5_K },
    { GGUF_MIX_IQ4_NL, WEIGHTS_V, GROUPED, GGUF_Q5_K },
    { GGUF_MIX_IQ4_NL, WEIGHTS_DOWN, FIRST_8TH, GGUF_Q5_K },
    { GGUF_MIX_IQ4_NL, WEIGHTS_O, EIGHT_EXPERTS, GGUF_Q5_K },
    { GGUF_MIX_IQ4_XS, WEIGHTS_V, GROUPED, GGUF_Q5_K },
    { GGUF_MIX_IQ4_XS, WEIGHTS_DOWN, FIRST_8TH, GGUF_Q5_K },
    { GGUF_MIX_IQ4_XS, WEIGHTS_O, EIGHT_EXPERTS, GGUF_Q5_K },
    { GGUF_MIX_Q3_K_L, WEIGHTS_V, ALWAYS, GGUF_Q5_K },
    { GGUF_MIX_Q3_K_L, WEIGHTS_DOWN, ALWAYS, GGUF_Q5_K },
    { GGUF_MIX_Q3_K_L, WEIGHTS_O, ALWAYS, GGUF_Q5_K },
    { GGUF_MIX_Q3_K_M, WEIGHTS_V, FIRST_TWO, GGUF_Q5_K },
    { GGUF_MIX_Q3_K_M, WEIGHTS_V, ALWAYS, GGUF_Q4_K },
    { GGUF_MIX_Q3_K_M, WEIGHTS_DOWN, FIRST_16TH, GGUF_Q5_K },
    { GGUF_MIX_Q3_K_M, WEIGHTS_DOWN, ALWAYS, GGUF_Q4_K },
    { GGUF_MIX_Q3_K_M, WEIGHTS_O, EIGHT_EXPERTS, GGUF_Q5_K },
    { GGUF_MIX_Q3_K_M, WEIGHTS_O, ALWAYS, GGUF_Q4_K },
    { GGUF_MIX_Q3_K_S, WEIGHTS_O, EIGHT_EXPERTS, GGUF_Q5_K },
    { GGUF_MIX_IQ3_M, WEIGHTS_V, ALWAYS, GGUF_Q4_K },
    { GGUF_MIX_IQ3_M, WEIGHTS_DOWN, FIRST_8TH, GGUF_Q4_K },
    { GGUF_MIX_IQ3_M, WEIGHTS_O, EIGHT_EXPERTS, GGUF_Q5_K },
    { GGUF_MIX_IQ3_M, WEIGHTS_O, ALWAYS, GGUF_Q4_K },
    { GGUF_MIX_IQ3_S, WEIGHTS_V, GROUPED, GGUF_Q4_K },
    { GGUF_MIX_IQ3_S, WEIGHTS_O, EIGHT_EXPERTS, GGUF_Q5_K },
    { GGUF_MIX_IQ3_XS, WEIGHTS_V, GROUPED, GGUF_Q4_K },
    { GGUF_MIX_IQ3_XS, WEIGHTS_Q, ALWAYS, GGUF_IQ3_XXS },
    { GGUF_MIX_IQ3_XS, WEIGHTS_K, ALWAYS, GGUF_IQ3_XXS },
    { GGUF_MIX_IQ3_XS, WEIGHTS_O, EIGHT_EXPERTS, GGUF_Q5_K },
    { GGUF_MIX_IQ3_XS, WEIGHTS_GATE, BETWEEN_8THS, GGUF_IQ3_XXS },
    { GGUF_MIX_IQ3_XS, WEIGHTS_UP, BETWEEN_8THS, GGUF_IQ3_XXS },
    { GGUF_MIX_IQ3_XXS, WEIGHTS_V, GROUPED, GGUF_Q4_K },
    { GGUF_MIX_IQ3_XXS, WEIGHTS_Q, ALWAYS, GGUF_IQ2_S },
    { GGUF_MIX_IQ3_XXS, WEIGHTS_K, ALWAYS, GGUF_IQ2_S },
    { GGUF_MIX_IQ3_XXS, WEIGHTS_O, EIGHT_EXPERTS, GGUF_Q5_K },
    { GGUF_MIX_IQ3_XXS, WEIGHTS_O, ALWAYS, GGUF_IQ3_S },
    { GGUF_MIX_IQ3_XXS, WEIGHTS_TABLE, ALWAYS, GGUF_IQ3_S },
    { GGUF_MIX_Q2_K, WEIGHTS_V, GROUPED, GGUF_Q4_K },
    { GGUF_MIX_Q2_K, WEIGHTS_V, ALWAYS, GGUF_Q3_K },
    { GGUF_MIX_Q2_K, WEIGHTS_DOWN, ALWAYS, GGUF_Q3_K },
    { GGUF_MIX_Q2_K, WEIGHTS_O, EIGHT_EXPERTS, GGUF_Q5_K },
    { GGUF_MIX_Q2_K, WEIGHTS_O, ALWAYS, GGUF_Q3_K },
    { GGUF_MIX_Q2_K_S, WEIGHTS_V, GROUPED, GGUF_Q4_K },
    { GGUF_MIX_Q2_K_S, WEIGHTS_DOWN, FIRST_8TH, GGUF_Q4_K },
    { GGUF_MIX_IQ2_M, WEIGHTS_V, ALWAYS, GGUF_IQ3_S },
    { GGUF_MIX_IQ2_M, WEIGHTS_DOWN, FIRST_8TH, GGUF_IQ3_S },
    { GGUF_MIX_IQ2_M, WEIGHTS_O, ALWAYS, GGUF_IQ3_S },
    { GGUF_MIX_IQ2_M, WEIGHTS_TABLE, ALWAYS, GGUF_IQ3_S },
    { GGUF_MIX_IQ2_S, WEIGHTS_V, ALWAYS, GGUF_IQ3_S },
    { GGUF_MIX_IQ2_S, WEIGHTS_DOWN, FIRST_8TH, GGUF_IQ3_S },
    { GGUF_MIX_IQ2_S, WEIGHTS_O, ALWAYS, GGUF_IQ3_S },
    { GGUF_MIX_IQ2_S, WEIGHTS_TABLE, ALWAYS, GGUF_IQ3_S },
    { GGUF_MIX_IQ2_XS, WEIGHTS_V, ALWAYS, GGUF_Q2_K },
    { GGUF_MIX_IQ2_XS, WEIGHTS_DOWN, FIRST_8TH, GGUF_Q2_K },
    { GGUF_MIX_IQ2_XS, WEIGHTS_TABLE, ALWAYS, GGUF_Q2_K },
    { GGUF_MIX_IQ2_XXS, WEIGHTS_V, ALWAYS, GGUF_Q2_K },
    { GGUF_MIX_IQ2_XXS, WEIGHTS_DOWN, FIRST_8TH, GGUF_Q2_K },
    { GGUF_MIX_IQ2_XXS, WEIGHTS_TABLE, ALWAYS, GGUF_Q2_K },
    { GGUF_MIX_IQ1_M, WEIGHTS_V, ALWAYS, GGUF_Q2_K },
    { GGUF_MIX_IQ1_M, WEIGHTS_DOWN, FIRST_8TH, GGUF_Q2_K },
    { GGUF_MIX_IQ1_M, WEIGHTS_O, ALWAYS, GGUF_IQ2_XXS },
    { GGUF_MIX_IQ1_M, WEIGHTS_TABLE, ALWAYS, GGUF_Q2_K },
    { GGUF_MIX_IQ1_S, WEIGHTS_V, ALWAYS, GGUF_Q2_K },
    { GGUF_MIX_IQ1_S, WEIGHTS_DOWN, FIRST_8TH, GGUF_Q2_K },
    { GGUF_MIX_IQ1_S, WEIGHTS_O, ALWAYS, GGUF_IQ2_XXS },
    { GGUF_MIX_IQ1_S, WEIGHTS_TABLE, ALWAYS, GGUF_Q2_K },
};

/* The narrowest mixes: what has few numbers is kept wider, and the head at 5 bits. */
static bool narrow(gguf_mix m) { return m >= GGUF_MIX_IQ2_M; }

static bool holds(condition c, const gguf_model *q, const weights_item *x) {
    const heads *h = q->heads;
    int64_t n = h->layers, i = x->block;
    switch (c) {
    case ALWAYS: return true;
    case GROUPED: return h->heads / h->kv_heads >= 4;
    case OFTEN: return i < n / 8 || i >= 7 * n / 8 || (i - n / 8) % 3 == 2;
    case FIRST_TWO: return i < 2;
    case FIRST_FOUR: return i < 4;
    case FIRST_8TH: return i < n / 8;
    case FIRST_16TH: return i < n / 16;
    case BETWEEN_8THS: return i >= n / 8 && i < 7 * n / 8;
    case EIGHT_EXPERTS: return h->experts == 8;
    }
    return false;
}

static gguf_type by_lines(gguf_mix m, const gguf_model *q, const weights_item *x, weights_part part) {
    for (size_t i = 0; i < sizeof lines / sizeof *lines; i++)
        if (lines[i].mix == m && lines[i].part == part && holds(lines[i].when, q, x)) return lines[i].to;
    return mixes[m].base;
}

static gguf_type of_head(gguf_mix m, const weights_item *x) {
    gguf_type base = mixes[m].base;
    if (x->inner % types[base].numbers) return GGUF_Q8_0;
    if (narrow(m) || m == GGUF_MIX_IQ3_XXS) return GGUF_Q5_K;
    return base == GGUF_Q8_0 ? GGUF_Q8_0 : GGUF_Q6_K;
}

static gguf_type of_values(gguf_mix m, const gguf_model *q, const weights_item *x) {
    const heads *h = q->heads;
    bool grouped = holds(GROUPED, q, x);
    if (narrow(m)) return grouped || h->experts >= 4 ? GGUF_Q4_K : by_lines(m, q, x, WEIGHTS_V);
    gguf_type t = by_lines(m, q, x, WEIGHTS_V);
    /* Models of 80 blocks whose heads share keys and values: these are an eighth as large as queries. */
    if (h->layers == 80 && h->heads != h->kv_heads && (t == GGUF_Q3_K || t == GGUF_Q4_K)) t = GGUF_Q5_K;
    return h->experts == 8 ? GGUF_Q8_0 : t;
}

gguf_type gguf_type_of(gguf_mix m, const gguf_model *q, const weights_item *x) {
    gguf_type base = mixes[m].base, t;
    bool eight = q->heads->experts == 8;
    if (x->part == WEIGHTS_VECTOR || x->part == WEIGHTS_ROUTER || x->part == WEIGHTS_POSITIONS)
        return GGUF_F32;
    if (base <= GGUF_BF16) return base;
    if (x->part == WEIGHTS_HEAD || (q->tied && x->part == WEIGHTS_TABLE))
        t = of_head(m, x);
    else if (x->part == WEIGHTS_V || x->part == WEIGHTS_QKV)
        t = of_values(m, q, x);
    else if (x->part == WEIGHTS_K && eight)
        t = narrow(m) ? GGUF_Q4_K : GGUF_Q8_0;
    else if (x->part == WEIGHTS_O && eight && narrow(m))
        t = GGUF_Q5_K;
    else
        t = by_lines(m, q, x, x->part);
    return for_rows(t, x->inner);
}

double gguf_bytes(gguf_mix m, const gguf_model *q, const weights_item *x) {
    return weights_elements(x) * gguf_bits(gguf_type_of(m, q, x)) / 8;
}
