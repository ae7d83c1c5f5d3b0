#include "infer/lookup.h"

#include <string.h>

enum { LONGEST = 3, SHORTEST = 2 /* ids that must be the same */, PATIENCE = 2, REST_MOST = 64 };

/* Where the last n ids stood before, the last time: what is behind them. 0: nowhere. */
static int64_t find(const int32_t *ids, int64_t count, int64_t n) {
    for (int64_t end = count - 1; end >= n; end--)
        if (ids[end - 1] == ids[count - 1] &&
            memcmp(ids + end - n, ids + count - n, (size_t)n * sizeof *ids) == 0)
            return end;
    return 0;
}

int64_t lookup_guess(lookup *l, int32_t *ids, int64_t count, int64_t most) {
    if (l->rest > 0) return l->rest--, 0;
    if (l->reach && l->reach < most) most = l->reach;
    int64_t from = 0, n = 0;
    for (int64_t same = LONGEST; same >= SHORTEST && !from; same--)
        if (same < count) from = find(ids, count, same);
    for (; from && n < most; n++) ids[count + n] = ids[from + n]; /* a guess may go on with itself */
    return n;
}

void lookup_learn(lookup *l, int64_t guessed, int64_t right) {
    l->reach = right == guessed ? 2 * guessed : right ? right + 1 : 1;
    l->wrong = right ? 0 : l->wrong + 1;
    if (l->wrong < PATIENCE) return;
    l->rest = l->wrong < 8 ? (int64_t)1 << l->wrong : REST_MOST;
    if (l->rest > REST_MOST) l->rest = REST_MOST;
}
