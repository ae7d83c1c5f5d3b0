#include "estimate/recorded/recorded_attention.h"

#include "base/memory.h"

enum { MOST_STEPS = 8 }; /* between two of its calls: copies, masks, dropout */

static bool makes(const recorded_edit *e, uint32_t call, uint32_t storage) {
    for (uint32_t k = 0; k < e->calls[call].makes; k++)
        if (edit_makes(e, call)[k] == storage) return true;
    return false;
}

static bool reads(const recorded_edit *e, uint32_t call, uint32_t storage) {
    for (uint32_t k = 0; k < e->calls[call].reads; k++)
        if (edit_reads(e, call)[k] == storage) return true;
    return false;
}

/* The call of that name which a storage comes from, by what calls between read first; 0: there is none. */
static uint32_t comes_from(const recorded_edit *e, uint32_t storage, const char *name) {
    uint32_t call = edit_at(e, storage)->born;
    for (int i = 0; call && i < MOST_STEPS; i++) {
        if (edit_is_call(e, call, name)) return call;
        call = e->calls[call].reads ? edit_at(e, edit_reads(e, call)[0])->born : 0;
    }
    return 0;
}

static void note_given(const recorded_edit *e, recorded_attention *a, int which, uint32_t reader) {
    a->reader[which] = reader;
    a->given[which] = edit_reads(e, reader)[0];
    a->numbers[which] = edit_numbers(e, edit_makes(e, reader)[0]);
}

/* What the scores are a product of. */
static void find_scaled(const recorded_edit *e, recorded_attention *a, uint32_t scores) {
    for (uint32_t k = 0; k < 2 && k < e->calls[scores].reads; k++) {
        uint32_t scaled = comes_from(e, edit_reads(e, scores)[k], "mul");
        if (!scaled || !edit_is_call(e, scaled, "mul.Scalar") || e->calls[scaled].reads != 1) continue;
        note_given(e, a, ATTENTION_QUERY + (int)k, scaled);
        if (scaled < a->first) a->first = scaled;
    }
}

/* The product with value: the next one that reads what came of the softmax. */
static uint32_t find_last(const recorded_edit *e, recorded_attention *a, uint32_t softmax) {
    uint32_t call = softmax;
    a->weights = edit_makes(e, softmax)[0];
    for (int i = 0; call && i <= MOST_STEPS; i++, call = edit_next(e, call)) {
        bool goes_on = call != softmax && reads(e, call, a->weights);
        if (goes_on && edit_is_call(e, call, "bmm")) return call;
        if (goes_on && e->calls[call].makes && !makes(e, call, a->weights) &&
            edit_at(e, edit_makes(e, call)[0])->born == call && !edit_is_call(e, call, "empty_like"))
            a->weights = edit_makes(e, call)[0];
    }
    return 0;
}

static void find_value(const recorded_edit *e, recorded_attention *a) {
    const uint32_t *x = edit_reads(e, a->last);
    uint32_t value = e->calls[a->last].reads == 2 && x[0] == a->weights ? x[1] : 0;
    uint32_t maker = value ? edit_at(e, value)->born : 0;
    if (maker > a->first && edit_is_call(e, maker, "clone")) {
        note_given(e, a, ATTENTION_VALUE, maker);
    } else if (value && a->numbers[ATTENTION_QUERY] > 0) { /* as long as key, as wide as the result */
        a->given[ATTENTION_VALUE] = value, a->reader[ATTENTION_VALUE] = a->last;
        a->numbers[ATTENTION_VALUE] = edit_numbers(e, edit_makes(e, a->last)[0]) * a->numbers[ATTENTION_KEY] /
                                      a->numbers[ATTENTION_QUERY];
    }
}

/* The copy of the result's gradient, where that is not contiguous. */
static uint32_t find_turned(const recorded_edit *e, const recorded_attention *a) {
    uint32_t product = a->back[ATTENTION_VALUE], found = 0;
    for (uint32_t k = 0; product && k < e->calls[product].reads; k++) {
        uint32_t born = edit_at(e, edit_reads(e, product)[k])->born;
        bool copies = born && e->calls[born].phase == RECORDING_BACKWARD && !e->calls[born].of;
        if (copies && edit_is_call(e, born, "clone")) found = born;
    }
    return found;
}

/* Which calls of backward make the gradients of what it was given. */
static void find_backward(const recorded_edit *e, recorded_attention *a, uint32_t count) {
    for (uint32_t call = edit_first(e); call; call = edit_next(e, call)) {
        const edit_call *c = edit_call_at(e, call);
        if (c->phase != RECORDING_BACKWARD || !c->of || c->makes != 1) continue;
        for (uint32_t i = 0; i < count && a[i].first <= c->of; i++) {
            if (c->of > a[i].last) continue;
            for (int k = ATTENTION_QUERY; k <= ATTENTION_KEY; k++)
                if (c->of == a[i].reader[k]) a[i].back[k] = call;
            if (c->of == a[i].last && reads(e, call, a[i].weights)) a[i].back[ATTENTION_VALUE] = call;
        }
    }
}

/* Between the scores and their softmax; older than the function, which makes a causal one by itself. */
static void find_mask(const recorded_edit *e, recorded_attention *a, uint32_t scores, uint32_t softmax) {
    uint32_t call = edit_at(e, edit_reads(e, softmax)[0])->born;
    for (int i = 0; call && call != scores && i < MOST_STEPS; i++) {
        const uint32_t *x = edit_reads(e, call);
        bool adds = edit_is_call(e, call, "add") && e->calls[call].reads == 2;
        if (adds && edit_at(e, x[1])->born < a->first) a->masked = call, a->mask = x[1];
        call = e->calls[call].reads ? edit_at(e, x[0])->born : 0;
    }
}

static bool is_found(const recorded_edit *e, uint32_t softmax, recorded_attention *a) {
    *a = (recorded_attention){ 0 };
    const edit_call *c = edit_call_at(e, softmax);
    if (c->phase != RECORDING_FORWARD || !edit_is_call(e, softmax, "_safe_softmax")) return false;
    if (!c->reads || !c->makes) return false;
    uint32_t scores = comes_from(e, edit_reads(e, softmax)[0], "bmm");
    a->last = find_last(e, a, softmax);
    if (!scores || !a->last) return false;
    a->first = scores;
    find_scaled(e, a, scores);
    find_mask(e, a, scores, softmax);
    find_value(e, a);
    return true;
}

recorded_attention *recorded_attentions(recorded_edit *e, uint32_t *count) {
    uint32_t room = 0;
    *count = 0;
    for (uint32_t call = edit_first(e); call; call = edit_next(e, call))
        room += edit_is_call(e, call, "_safe_softmax");
    if (!room) return NULL;
    recorded_attention *all =
        memory_new((size_t)room + 1, sizeof *all); /* the last is where one is looked for */
    if (!all) e->failed = true;
    for (uint32_t call = edit_first(e); all && call; call = edit_next(e, call))
        *count += is_found(e, call, &all[*count]);
    if (all) find_backward(e, all, *count);
    for (uint32_t i = 0; i < *count; i++) all[i].turned = find_turned(e, &all[i]);
    return all;
}
