#include "base/nearest.h"

#include <stdio.h>
#include <string.h>

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

/* How far `known` is from the word; nothing is nearer than what the word begins. */
static int miss(const char *word, const char *known) {
    size_t length = strlen(word);
    return length >= 3 && strncmp(known, word, length) == 0 ? 0 : distance(word, known);
}

static int bound(const char *word) {
    size_t length = strlen(word);
    return length < 4 ? 1 : length < 9 ? 2 : 3;
}

const char *nearest_word(const char *word, uint32_t count,
                         const char *(*word_at)(const void *context, uint32_t i), const void *context) {
    const char *best = NULL;
    int least = bound(word);
    for (uint32_t i = 0; i < count; i++) {
        const char *known = word_at(context, i);
        if (!known) continue;
        int apart = miss(word, known);
        if (apart <= least && (!best || apart < least)) best = known, least = apart;
    }
    return best;
}

const char *nearest_listed(const char *word, const char *list, char near[NEAREST_BYTES]) {
    int least = bound(word) + 1;
    near[0] = 0;
    for (const char *at = list; at && *at;) {
        char known[NEAREST_BYTES];
        size_t length = strcspn(at, ",");
        snprintf(known, sizeof known, "%.*s", (int)length, at);
        int apart = length < sizeof known ? miss(word, known) : least;
        if (apart < least) {
            least = apart;
            memcpy(near, known, sizeof known);
        }
        at += length;
        at += strspn(at, ", ");
    }
    return near;
}
