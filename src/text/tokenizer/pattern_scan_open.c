/* Reads a pattern as pattern_translate writes it: first into items, which are chained as they stand, with the
 * ranges of each set; then each set becomes a word of classes, and items, from the last to the first, steps.
 */
#include <stdlib.h>
#include <string.h>

#include "base/memory.h"
#include "text/tokenizer/pattern_scan_internal.h"

enum { ITEMS = 128, SETS = 32, DEPTH = 16, RANGES = 16 << 10, NO_ITEM = UINT16_MAX, ENDLESS = UINT32_MAX };

/* From the first character up to the last. */
typedef struct {
    uint32_t first, last;
} range;

typedef struct {
    uint32_t begin, end; /* places of its ranges */
    bool inverted;
    uint64_t classes;
} set;

typedef enum { ITEM_SET, ITEM_AHEAD, ITEM_GROUP } item_kind;

/* A sequence of items, and the sequence that is tried after it. */
typedef struct {
    uint16_t first, other;
} sequence;

typedef struct {
    item_kind kind;
    bool keeps; /* what was taken is never given back */
    bool inverted;
    uint16_t set, next;
    sequence inside; /* of a group */
    uint32_t least, most;
} item;

typedef struct {
    const char *text;
    size_t bytes, at;
    range *ranges;
    set sets[SETS];
    item items[ITEMS];
    sequence sequences[ITEMS];
    uint32_t range_count, set_count, item_count, sequence_count, depth;
    /* classes */
    uint32_t *begins, *told; /* of each stretch of characters that are alike, and which sets have it */
    uint32_t stretch_count, class_count;
    uint8_t *class_of_stretch;
    scan_step steps[SCAN_STEPS];
    uint32_t step_count;
} reader;

/* ---- reading ---- */

static bool skip(reader *r, const char *what) {
    size_t n = strlen(what);
    if (r->bytes - r->at < n || memcmp(r->text + r->at, what, n) != 0) return false;
    r->at += n;
    return true;
}

static bool read_point(reader *r, uint32_t *point) {
    if (!skip(r, "\\x{")) return false;
    char *end;
    *point = (uint32_t)strtoul(r->text + r->at, &end, 16); /* the text ends in a zero */
    r->at = (size_t)(end - r->text);
    return skip(r, "}") && *point < SCAN_POINTS;
}

static bool add_range(reader *r, uint32_t first, uint32_t last) {
    if (r->range_count == RANGES || last < first) return false;
    r->ranges[r->range_count++] = (range){ first, last };
    return true;
}

static set *begin_set(reader *r) {
    if (r->set_count == SETS) return NULL;
    set *s = &r->sets[r->set_count++];
    *s = (set){ .begin = r->range_count };
    return s;
}

static bool same_set(const reader *r, const set *a, const set *b) {
    size_t bytes = (a->end - a->begin) * sizeof *r->ranges;
    return a->inverted == b->inverted && a->end - a->begin == b->end - b->begin &&
           memcmp(r->ranges + a->begin, r->ranges + b->begin, bytes) == 0;
}

/* One that was there before is taken instead. */
static bool end_set(reader *r, set *s, uint16_t *place) {
    uint32_t i = 0;
    s->end = r->range_count;
    while (!same_set(r, &r->sets[i], s)) i++;
    *place = (uint16_t)i;
    if (&r->sets[i] != s) r->range_count = s->begin, r->set_count--;
    return true;
}

/* Behind [. */
static bool read_class(reader *r, uint16_t *place) {
    set *s = begin_set(r);
    if (!s) return false;
    s->inverted = skip(r, "^");
    while (!skip(r, "]")) {
        uint32_t first, last;
        if (!read_point(r, &first)) return false;
        last = first;
        if (skip(r, "-") && !read_point(r, &last)) return false;
        if (!add_range(r, first, last)) return false;
    }
    return end_set(r, s, place);
}

/* PCRE2 folds two signs beyond ASCII to letters of it. */
static bool add_folded(reader *r, uint32_t point) {
    enum { LONG_S = 0x17f, KELVIN = 0x212a };
    uint32_t small = point | 0x20;
    if (small < 'a' || small > 'z' || point >= 0x80) return add_range(r, point, point);
    if (small == 's' && !add_range(r, LONG_S, LONG_S)) return false;
    if (small == 'k' && !add_range(r, KELVIN, KELVIN)) return false;
    return add_range(r, small, small) && add_range(r, small - 0x20, small - 0x20);
}

static bool read_one_point(reader *r, bool fold, uint16_t *place) {
    uint32_t point;
    set *s = begin_set(r);
    if (!s || !read_point(r, &point)) return false;
    return (fold ? add_folded(r, point) : add_range(r, point, point)) && end_set(r, s, place);
}

static bool read_any(reader *r, uint16_t *place) {
    set *s = begin_set(r);
    return s && add_range(r, 0, SCAN_POINTS - 1) && end_set(r, s, place);
}

/* One character of some set. */
static bool read_set(reader *r, bool fold, uint16_t *place) {
    if (skip(r, "[")) return read_class(r, place);
    if (skip(r, "(?s:.)")) return read_any(r, place);
    return read_one_point(r, fold, place);
}

static bool read_number(reader *r, uint32_t *number) {
    char *end;
    const char *from = r->text + r->at;
    if (*from < '0' || *from > '9') return false;
    *number = (uint32_t)strtoul(from, &end, 10);
    r->at += (size_t)(end - from);
    return true;
}

static bool read_interval(reader *r, item *i) {
    if (!read_number(r, &i->least)) return false;
    i->most = i->least;
    if (skip(r, ",") && !read_number(r, &i->most)) i->most = ENDLESS;
    return skip(r, "}");
}

static bool read_quantifier(reader *r, item *i) {
    i->least = i->most = 1;
    if (skip(r, "*"))
        i->least = 0, i->most = ENDLESS;
    else if (skip(r, "+"))
        i->most = ENDLESS;
    else if (skip(r, "?"))
        i->least = 0;
    else if (skip(r, "{"))
        return read_interval(r, i) && !skip(r, "?");
    else
        return true;
    i->keeps = skip(r, "+");
    return !skip(r, "?");
}

static bool read_sequences(reader *r, bool fold, sequence *all);

/* Behind `(?`: options up to the colon. `s` says something of `.` alone. */
static bool read_options(reader *r, bool *fold) {
    bool on = true;
    for (; !skip(r, ":"); r->at++) {
        char c = r->text[r->at];
        if (c == '-') on = false;
        if (c == 'i') *fold = on;
        if (c != '-' && c != 'i' && c != 's') return false;
    }
    return true;
}

static bool read_group(reader *r, bool fold, item *i) {
    i->kind = ITEM_GROUP;
    if (!read_options(r, &fold) || !read_sequences(r, fold, &i->inside) || !skip(r, ")")) return false;
    if (!read_quantifier(r, i)) return false;
    return i->most == 1 && !i->keeps; /* no loops */
}

static bool read_item(reader *r, bool fold, item *i) {
    bool negative = skip(r, "(?!");
    *i = (item){ .kind = ITEM_SET, .inverted = negative, .next = NO_ITEM, .least = 1, .most = 1 };
    if (negative || skip(r, "(?=")) {
        i->kind = ITEM_AHEAD;
        return read_set(r, fold, &i->set) && skip(r, ")");
    }
    if (r->bytes - r->at < 6 || memcmp(r->text + r->at, "(?s:.)", 6) != 0)
        if (skip(r, "(?")) return read_group(r, fold, i);
    return read_set(r, fold, &i->set) && read_quantifier(r, i);
}

static bool at_end(const reader *r) {
    return r->at == r->bytes || r->text[r->at] == '|' || r->text[r->at] == ')';
}

static bool read_sequence(reader *r, bool fold, sequence *s) {
    uint16_t *link = &s->first;
    *s = (sequence){ NO_ITEM, NO_ITEM };
    while (!at_end(r)) {
        if (r->item_count == ITEMS) return false;
        item *i = &r->items[r->item_count];
        *link = (uint16_t)r->item_count++;
        if (!read_item(r, fold, i)) return false;
        link = &i->next;
    }
    return true;
}

static bool read_sequences(reader *r, bool fold, sequence *all) {
    sequence *s = all;
    if (++r->depth == DEPTH) return false;
    for (;;) {
        if (!read_sequence(r, fold, s)) return false;
        if (!skip(r, "|")) break;
        if (r->sequence_count == ITEMS) return false;
        s->other = (uint16_t)r->sequence_count++;
        s = &r->sequences[s->other];
    }
    r->depth--;
    return true;
}

/* ---- classes ---- */

static int by_point(const void *a, const void *b) {
    uint32_t x = *(const uint32_t *)a, y = *(const uint32_t *)b;
    return (x > y) - (x < y);
}

/* Where some range begins or ends a stretch begins, in ascending order. */
static void find_stretches(reader *r) {
    uint32_t n = 0, kept = 0;
    r->begins[n++] = 0;
    for (uint32_t i = 0; i < r->range_count; i++) {
        r->begins[n++] = r->ranges[i].first;
        if (r->ranges[i].last + 1 < SCAN_POINTS) r->begins[n++] = r->ranges[i].last + 1;
    }
    qsort(r->begins, n, sizeof *r->begins, by_point);
    for (uint32_t i = 0; i < n; i++)
        if (i == 0 || r->begins[i] != r->begins[kept - 1]) r->begins[kept++] = r->begins[i];
    r->stretch_count = kept;
}

static uint32_t stretch_at(const reader *r, uint32_t point) {
    uint32_t low = 0, high = r->stretch_count;
    while (high - low > 1) {
        uint32_t middle = (low + high) / 2;
        if (r->begins[middle] <= point)
            low = middle;
        else
            high = middle;
    }
    return low;
}

static void tell_sets(reader *r) {
    memset(r->told, 0, r->stretch_count * sizeof *r->told);
    for (uint32_t i = 0; i < r->set_count; i++) {
        const set *s = &r->sets[i];
        for (uint32_t k = s->begin; k < s->end; k++)
            for (uint32_t j = stretch_at(r, r->ranges[k].first);
                 j < r->stretch_count && r->begins[j] <= r->ranges[k].last; j++)
                r->told[j] |= (uint32_t)1 << i;
        for (uint32_t j = 0; s->inverted && j < r->stretch_count; j++) r->told[j] ^= (uint32_t)1 << i;
    }
}

/* Stretches that the same sets have are of one class. */
static bool find_classes(reader *r) {
    uint32_t sets_of[SCAN_CLASSES];
    find_stretches(r);
    tell_sets(r);
    for (uint32_t i = 0; i < r->stretch_count; i++) {
        uint32_t class = 0;
        while (class < r->class_count && sets_of[class] != r->told[i]) class ++;
        if (class == SCAN_CLASSES) return false;
        if (class == r->class_count) sets_of[r->class_count++] = r->told[i];
        r->class_of_stretch[i] = (uint8_t) class;
    }
    for (uint32_t i = 0; i < r->set_count; i++)
        for (uint32_t class = 0; class < r->class_count; class ++)
            r->sets[i].classes |= (uint64_t)(sets_of[class] >> i & 1) << class;
    return true;
}

/* ---- steps ---- */

static scan_step *new_step(reader *r, step_kind kind, unsigned next) {
    if (r->step_count == SCAN_STEPS) return NULL;
    scan_step *p = &r->steps[r->step_count++];
    *p = (scan_step){ .kind = (uint8_t)kind, .next = (uint16_t)next };
    return p;
}

static unsigned write_end(reader *r) {
    scan_step *p = new_step(r, STEP_END, 0);
    *p = (scan_step){ .kind = STEP_END, .first = UINT64_MAX, .always = true, .empty = true };
    return 0;
}

static bool write_ahead(reader *r, const item *i, unsigned *step) {
    const scan_step *then = &r->steps[*step];
    scan_step *p = new_step(r, STEP_AHEAD, *step);
    if (!p) return false;
    p->set = i->inverted ? ~r->sets[i->set].classes : r->sets[i->set].classes;
    p->at_end = i->inverted;
    p->first = p->set & then->first;
    p->empty = then->empty;
    *step = r->step_count - 1;
    return true;
}

static bool write_set(reader *r, const item *i, unsigned *step) {
    const scan_step *then = &r->steps[*step];
    scan_step *p = new_step(r, STEP_SET, *step);
    if (!p) return false;
    p->set = r->sets[i->set].classes;
    p->least = i->least, p->most = i->most;
    p->first = i->least ? p->set : p->set | then->first;
    p->always = i->least == 0 && then->always;
    p->empty = i->least == 0 && then->empty;
    p->settled = i->keeps || then->always || !(p->set & then->first);
    *step = r->step_count - 1;
    return true;
}

static bool write_choice(reader *r, unsigned next, unsigned other, unsigned *step) {
    const scan_step *a = &r->steps[next], *b = &r->steps[other];
    scan_step *p = new_step(r, STEP_CHOICE, next);
    if (!p) return false;
    p->other = (uint16_t)other;
    p->first = a->first | b->first;
    p->always = a->always || b->always;
    p->empty = a->empty || b->empty;
    p->settled = !a->empty && !(a->first & b->first);
    *step = r->step_count - 1;
    return true;
}

static bool write_sequences(reader *r, const sequence *s, unsigned *step);

static bool write_items(reader *r, uint16_t first, unsigned *step) {
    if (first == NO_ITEM) return true;
    const item *i = &r->items[first];
    if (!write_items(r, i->next, step)) return false;
    unsigned behind = *step;
    switch (i->kind) {
    case ITEM_SET: return write_set(r, i, step);
    case ITEM_AHEAD: return write_ahead(r, i, step);
    default:
        return write_sequences(r, &i->inside, step) &&
               (i->least == 1 || write_choice(r, *step, behind, step));
    }
}

/* `*step` is the one behind all of them, and becomes the first. */
static bool write_sequences(reader *r, const sequence *s, unsigned *step) {
    unsigned first = *step, others = *step;
    if (!write_items(r, s->first, &first)) return false;
    if (s->other == NO_ITEM) return *step = first, true;
    return write_sequences(r, &r->sequences[s->other], &others) && write_choice(r, first, others, step);
}

/* ---- tables ---- */

/* The classes of a page's characters. False: the first one's is that of all, and no other is written. */
static bool fill_page(const reader *r, uint32_t page, uint32_t *stretch, uint8_t *classes) {
    uint32_t first = page * SCAN_PAGE, i = *stretch;
    while (i + 1 < r->stretch_count && r->begins[i + 1] <= first) i++;
    *stretch = i;
    classes[0] = r->class_of_stretch[i];
    if (i + 1 == r->stretch_count || r->begins[i + 1] >= first + SCAN_PAGE) return false;
    for (uint32_t k = 1; k < SCAN_PAGE; k++) {
        if (i + 1 < r->stretch_count && r->begins[i + 1] <= first + k) i++;
        classes[k] = r->class_of_stretch[i];
    }
    return true;
}

/* Pages of one class are there once. Without `s` they are only counted. */
static uint32_t write_pages(const reader *r, pattern_scan *s, uint8_t *classes) {
    uint8_t filled[SCAN_PAGE];
    uint16_t of_class[SCAN_CLASSES];
    uint32_t stretch = 0, count = 0;
    memset(of_class, 0xff, sizeof of_class);
    for (uint32_t page = 0; page < SCAN_PAGES; page++) {
        bool many = fill_page(r, page, &stretch, filled);
        bool there = !many && of_class[filled[0]] != UINT16_MAX;
        uint32_t place = there ? of_class[filled[0]] : count++;
        if (!many) of_class[filled[0]] = (uint16_t)place;
        if (s) s->pages[page] = (uint16_t)place;
        if (!s || there) continue;
        if (!many) memset(filled, filled[0], sizeof filled);
        memcpy(classes + (size_t)place * SCAN_PAGE, filled, SCAN_PAGE);
    }
    return count;
}

/* Before a character of the class. */
static unsigned entry(const scan_step *steps, unsigned step, unsigned class) {
    for (;;) {
        const scan_step *p = &steps[step];
        bool begins = p->kind == STEP_CHOICE ? steps[p->next].first >> class & 1 : p->set >> class & 1;
        if (p->kind == STEP_CHOICE && !begins)
            step = p->other;
        else if (p->kind == STEP_CHOICE ? p->settled : p->kind == STEP_SET && !p->least && !begins)
            step = p->next;
        else
            return step;
    }
}

static pattern_scan *write_scan(const reader *r, unsigned root, pattern_memory *memory) {
    uint64_t steps = r->step_count * sizeof *r->steps;
    uint64_t classes = (uint64_t)write_pages(r, NULL, NULL) * SCAN_PAGE;
    pattern_scan *s = pattern_memory_new(sizeof *s + steps + classes, memory);
    if (!s) return NULL;
    scan_step *to = (scan_step *)(void *)(s + 1);
    uint8_t *table = (uint8_t *)(to + r->step_count);
    *s = (pattern_scan){ .root = (uint16_t)root, .classes = table, .steps = to };
    memcpy(to, r->steps, steps);
    for (unsigned class = 0; class < SCAN_CLASSES; class ++)
        s->entries[class] = (uint16_t)entry(to, root, class);
    write_pages(r, s, table);
    return s;
}

static pattern_scan *read_all(reader *r, pattern_memory *memory) {
    sequence all;
    if (!read_sequences(r, skip(r, "(?i)"), &all) || r->at != r->bytes || !find_classes(r)) return NULL;
    unsigned root = write_end(r);
    if (!write_sequences(r, &all, &root) || r->steps[root].empty) return NULL;
    return write_scan(r, root, memory);
}

pattern_scan *pattern_scan_open(const char *translated, size_t bytes, pattern_memory *memory) {
    enum { MOST = 2 * RANGES + 1 }; /* stretches */
    reader *r = memory_new(1, sizeof *r);
    range *ranges = memory_room(RANGES, sizeof *ranges);
    uint32_t *points = memory_room(2 * (size_t)MOST, sizeof *points);
    uint8_t *classes = memory_room(MOST, 1);
    pattern_scan *s = NULL;
    if (r && ranges && points && classes) {
        r->text = translated, r->bytes = bytes;
        r->ranges = ranges, r->begins = points, r->told = points + MOST, r->class_of_stretch = classes;
        s = read_all(r, memory);
    }
    memory_free(classes);
    memory_free(points);
    memory_free(ranges);
    memory_free(r);
    return s;
}

void pattern_scan_close(pattern_scan *s, pattern_memory *memory) { pattern_memory_free(s, memory); }
