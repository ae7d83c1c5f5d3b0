#include "text/template/letters.h"

#include <stddef.h>

/* The run that holds the point, or NULL. Runs follow one another. */
static const letters_run *find(const letters_run *runs, uint32_t count, uint32_t point) {
    uint32_t low = 0, high = count;
    while (low < high) {
        uint32_t middle = (low + high) / 2;
        if (runs[middle].first <= point)
            low = middle + 1;
        else
            high = middle;
    }
    const letters_run *run = low ? &runs[low - 1] : NULL;
    return run && point <= run->last && (point - run->first) % run->stride == 0 ? run : NULL;
}

bool letters_in(const letters_run *runs, uint32_t count, uint32_t point) {
    return find(runs, count, point) != NULL;
}

uint32_t letters_change(letters_case c, uint32_t point, uint32_t to[3]) {
    static const letters_run *const tables[] = { letters_to_upper, letters_to_lower, letters_to_title };
    static const letters_special *const specials[] = { letters_to_upper_special, letters_to_lower_special,
                                                       letters_to_title_special };
    const uint32_t counts[] = { letters_to_upper_count, letters_to_lower_count, letters_to_title_count },
                   special_counts[] = { letters_to_upper_special_count, letters_to_lower_special_count,
                                        letters_to_title_special_count };
    const letters_run *run = find(tables[c], counts[c], point);
    to[0] = run ? (uint32_t)((int32_t)point + run->delta) : point;
    for (uint32_t i = 0; point >= 0x80 && i < special_counts[c]; i++) {
        const letters_special *s = &specials[c][i];
        if (s->point != point) continue;
        uint32_t n = 0;
        while (n < 3 && s->to[n]) to[n] = s->to[n], n++;
        return n;
    }
    return 1;
}
