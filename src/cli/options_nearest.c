/* What may have been meant by a word that is not known. */
#include <string.h>

#include "cli/options.h"

enum { LONGEST = 40 };

static int smaller(int a, int b) { return a < b ? a : b; }

/* Insertions, removals, changes and swaps of neighbours that lead from a to b. */
static int distance(const char *a, const char *b) {
    int rows[3][LONGEST + 1], n = (int)strlen(a), m = (int)strlen(b);
    if (n > LONGEST || m > LONGEST) return LONGEST;
    int *before = rows[0], *last = rows[1], *now = rows[2];
    for (int j = 0; j <= m; j++) last[j] = j;
    for (int i = 1; i <= n; i++) {
        now[0] = i;
        for (int j = 1; j <= m; j++) {
            now[j] = smaller(smaller(last[j], now[j - 1]) + 1, last[j - 1] + (a[i - 1] != b[j - 1]));
            if (i > 1 && j > 1 && a[i - 1] == b[j - 2] && a[i - 2] == b[j - 1])
                now[j] = smaller(now[j], before[j - 2] + 1);
        }
        int *free_row = before;
        before = last, last = now, now = free_row;
    }
    return last[m];
}

const char *options_nearest(const char *word, uint32_t count,
                            const char *(*word_at)(const void *context, uint32_t i), const void *context) {
    const char *best = NULL;
    size_t length = strlen(word);
    int least = (int)(length < 4 ? 1 : length < 9 ? 2 : 3);
    for (uint32_t i = 0; i < count; i++) {
        const char *known = word_at(context, i);
        if (!known) continue;
        int apart = distance(word, known);
        if (length >= 3 && strncmp(known, word, length) == 0) apart = smaller(apart, 1); /* cut short */
        if (apart <= least && (!best || apart < least)) best = known, least = apart;
    }
    return best;
}
