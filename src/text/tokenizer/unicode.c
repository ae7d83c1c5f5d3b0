#include "text/tokenizer/unicode.h"

#include <string.h>

#include "base/utf8.h"

static uint32_t range_of(uint32_t point) {
    uint32_t low = unicode_table_pages[point >> 8], high = unicode_table_pages[(point >> 8) + 1] + 1u;
    while (high - low > 1) {
        uint32_t middle = low + (high - low) / 2;
        if (unicode_table_ranges[middle] >> 11 <= point)
            low = middle;
        else
            high = middle;
    }
    return low;
}

const unicode_kind *unicode_of(uint32_t point) {
    return &unicode_table_kinds[unicode_table_ranges[range_of(point)] & 0x7ff];
}

unicode_stretch unicode_around(uint32_t point) {
    uint32_t i = range_of(point);
    const uint32_t *range = &unicode_table_ranges[i];
    return (unicode_stretch){ range[0] >> 11, i + 1 < unicode_table_range_count ? range[1] >> 11 : 0x110000,
                              &unicode_table_kinds[range[0] & 0x7ff] };
}

uint32_t unicode_small(uint32_t point, uint32_t small[2]) {
    uint32_t low = 0, high = unicode_table_lower_count;
    small[0] = point;
    if (point < 0x80) {
        if (point >= 'A' && point <= 'Z') small[0] += 'a' - 'A';
        return 1;
    }
    if (point == 0x130) { /* the only one with two */
        small[0] = 'i', small[1] = 0x307;
        return 2;
    }
    while (low < high) { /* the first range that does not end before it */
        uint32_t middle = low + (high - low) / 2;
        if (unicode_table_lower[middle].last < point)
            low = middle + 1;
        else
            high = middle;
    }
    if (low == unicode_table_lower_count) return 1;
    const unicode_lower *l = &unicode_table_lower[low];
    if (l->first <= point && (point - l->first) % (uint32_t)l->step == 0) small[0] += (uint32_t)l->add;
    return 1;
}

size_t unicode_blanks_first(const char *text, size_t bytes) {
    size_t at = 0, length;
    while (at < bytes && unicode_is(unicode_read(text + at, &length), UNICODE_SPACE)) at += length;
    return at;
}

size_t unicode_blanks_last(const char *text, size_t bytes) {
    size_t end = bytes, length;
    while (end > 0) {
        size_t before = unicode_before(text, end);
        if (!unicode_is(unicode_read(text + before, &length), UNICODE_SPACE)) break;
        end = before;
    }
    return bytes - end;
}

bool unicode_valid(const char *text, size_t bytes, size_t *place) {
    size_t at = 0;
    while (at < bytes) {
        uint64_t word;
        if (bytes - at >= 8 && (memcpy(&word, text + at, 8), (word & 0x8080808080808080u) == 0)) {
            at += 8;
            continue;
        }
        size_t length = utf8_length(text + at, bytes - at);
        if (length == 0) return *place = at, false;
        at += length;
    }
    return true;
}
