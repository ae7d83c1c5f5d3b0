/* Bands over a step. The drawing has a column for each of some hundred places of the axis, and there the
 * moment with the most bytes, so that a peak of one kernel is seen. The data has every moment and every byte:
 * bands one by one, the smallest gathered by category and block into stairs that say how much of them is
 * there. */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/hash.h"
#include "base/memory.h"
#include "base/units.h"
#include "report/page/page_chart.h"
#include "report/report.h"

enum {
    WIDTH = 1000,
    HEIGHT = 400,
    LEFT = 84,
    RIGHT = 12,
    TOP = 24,
    BOTTOM = 58,
    COLUMNS = 452, /* of the drawing: 2 units each */
    ROWS = 400     /* most of the table */
};
static const double TOO_MUCH = 1.6; /* times the peak: a budget beyond is not drawn */

typedef struct {
    const page_bands *b;
    uint64_t *sums;         /* by moment and category, with what is there all the time */
    uint64_t *all;          /* by moment */
    uint64_t *held;         /* by moment */
    bool *alone;            /* by band: it stands by itself */
    uint32_t gathered;      /* bands that don't, */
    uint64_t threshold;     /* and what each of them has at most */
    bool there[PAGE_TONES]; /* by category: it has bytes at some moment */
    page_scale x, y;
} picture;

/* ---- sums ---- */

static uint64_t *sum_at(const picture *c, uint32_t moment, uint32_t k) {
    return &c->sums[(size_t)moment * c->b->category_count + k];
}

static void add_up(picture *c) {
    const page_bands *b = c->b;
    uint32_t n = b->moment_count;
    for (uint32_t i = 0; i < b->band_count; i++) {
        const page_band *x = &b->bands[i];
        *sum_at(c, x->first, x->category) += x->bytes;
        *sum_at(c, x->last + 1, x->category) -= x->bytes; /* wraps, and back in the sum */
    }
    for (uint32_t i = 0; i < b->change_count; i++)
        *sum_at(c, b->changes[i].moment, b->changes[i].category) += (uint64_t)b->changes[i].bytes;
    for (uint32_t i = 0; i < b->base_count; i++) *sum_at(c, 0, b->base[i].category) += b->base[i].bytes;
    for (uint32_t m = 0; m < n; m++)
        for (uint32_t k = 0; k < b->category_count; k++) {
            if (m) *sum_at(c, m, k) += *sum_at(c, m - 1, k);
            c->all[m] += *sum_at(c, m, k);
        }
    for (uint32_t m = 0; m < n; m++) {
        c->held[m] = !b->held ? c->all[m] : b->held_varies ? b->held[m] : b->held[0];
        if (c->held[m] > c->all[m]) *sum_at(c, m, b->free) += c->held[m] - c->all[m];
        for (uint32_t k = 0; k < b->category_count; k++) c->there[k] |= *sum_at(c, m, k) > 0;
    }
}

static int larger_first(const void *a, const void *b) {
    uint64_t x = *(const uint64_t *)a, y = *(const uint64_t *)b;
    return (x < y) - (x > y);
}

/* The largest stand alone; of equals at the border none does. */
static bool choose(picture *c) {
    const page_bands *b = c->b;
    if (b->most && b->band_count > b->most) {
        uint64_t *sizes = memory_new(b->band_count, sizeof *sizes);
        if (!sizes) return false;
        for (uint32_t i = 0; i < b->band_count; i++) sizes[i] = b->bands[i].bytes;
        qsort(sizes, b->band_count, sizeof *sizes, larger_first);
        c->threshold = sizes[b->most];
        memory_free(sizes);
    }
    for (uint32_t i = 0; i < b->band_count; i++) {
        c->alone[i] = b->bands[i].bytes > c->threshold;
        c->gathered += !c->alone[i];
    }
    return true;
}

static void close_picture(picture *c) {
    memory_free(c->sums);
    memory_free(c->all);
    memory_free(c->held);
    memory_free(c->alone);
}

static bool open_picture(picture *c) {
    const page_bands *b = c->b;
    c->sums = memory_new(((size_t)b->moment_count + 1) * b->category_count, sizeof *c->sums);
    c->all = memory_new(b->moment_count + 1u, sizeof *c->all);
    c->held = memory_new(b->moment_count + 1u, sizeof *c->held);
    c->alone = memory_new(b->band_count + 1u, sizeof *c->alone);
    if (!c->sums || !c->all || !c->held || !c->alone || !choose(c)) return false;
    add_up(c);
    return true;
}

/* ---- the drawing ---- */

static bool by_time(const page_bands *b) { return b->times && !b->by_moment; }

static double moment_x(const picture *c, uint32_t moment) {
    const page_bands *b = c->b;
    return page_place(&c->x, !by_time(b) ? (double)moment : moment ? b->times[moment] : 0);
}

/* The highest moment of each place of the axis; UINT32_MAX: none begins there, the one before goes on. */
static void find_highest(const picture *c, uint32_t highest[COLUMNS]) {
    for (int i = 0; i < COLUMNS; i++) highest[i] = UINT32_MAX;
    for (uint32_t m = 0; m < c->b->moment_count; m++) {
        double from = moment_x(c, m), to = moment_x(c, m + 1),
               unit = (double)(WIDTH - LEFT - RIGHT) / COLUMNS;
        int first = (int)((from - LEFT) / unit), last = (int)((to - LEFT) / unit - 1e-9);
        for (int i = first; i <= last && i < COLUMNS; i++)
            if (highest[i] == UINT32_MAX || c->all[m] > c->all[highest[i]]) highest[i] = m;
    }
    for (int i = 1; i < COLUMNS; i++)
        if (highest[i] == UINT32_MAX) highest[i] = highest[i - 1];
}

static uint64_t below(const picture *c, uint32_t moment, uint32_t categories) {
    uint64_t sum = 0;
    for (uint32_t k = 0; k < categories; k++) sum += *sum_at(c, moment, k);
    return sum;
}

/* One stair there and one back; equal heights are one line. */
static void add_stairs(page *p, const picture *c, const uint32_t highest[COLUMNS], uint32_t categories,
                       bool back) {
    const double unit = (double)(WIDTH - LEFT - RIGHT) / COLUMNS;
    double last = -1;
    for (int k = 0; k < COLUMNS; k++) {
        int i = back ? COLUMNS - 1 - k : k;
        if (highest[i] == UINT32_MAX) continue;
        double y = page_place(&c->y, (double)below(c, highest[i], categories));
        if (k && fabs(y - last) < 0.05) continue;
        double x = LEFT + unit * (back ? i + 1 : i);
        page_add(p, k || back ? "H%.1fV%.1f" : "M%.1f %.1f", x, y);
        last = y;
    }
    page_add(p, "H%.1f", back ? (double)LEFT : (double)WIDTH - RIGHT);
}

static void draw_category(page *p, const picture *c, const uint32_t highest[COLUMNS], uint32_t k) {
    if (!c->there[k]) return;
    for (uint32_t layer = 0; layer <= (k % 4 != 0); layer++) {
        page_add(p, "<path d=\"");
        add_stairs(p, c, highest, k + 1, false);
        add_stairs(p, c, highest, k, true);
        if (layer)
            page_add(p, "Z\" fill=\"url(#h%u)\"/>\n", (unsigned)k % 4);
        else
            page_add(p, "Z\" class=\"t%u\"/>\n", (unsigned)(k % PAGE_TONES));
    }
}

/* Programs and phases below the axis. */
static void draw_parts(page *p, const picture *c) {
    const page_bands *b = c->b;
    uint32_t n = b->moment_count;
    for (uint32_t m = 0, from = 0; m < n; m++) {
        bool ends = m + 1 == n || b->moments[m + 1].part != b->moments[m].part ||
                    b->moments[m + 1].phase != b->moments[m].phase;
        if (!ends) continue;
        double left = moment_x(c, from), right = moment_x(c, m + 1);
        page_add(p, "<rect x=\"%.1f\" y=\"%d\" width=\"%.1f\" height=\"5\" class=\"phase%u\"/>\n", left,
                 HEIGHT - BOTTOM + 6, right - left, (unsigned)b->moments[m].phase);
        const char *name = b->phases[b->moments[m].phase];
        if (right - left > 9.0 * (double)strlen(name))
            page_label(p, (left + right) / 2, HEIGHT - BOTTOM + 26, "tick m", name);
        from = m + 1;
    }
    for (uint32_t m = 0, from = 0; b->part_count > 1 && m < n; m++) {
        if (m + 1 < n && b->moments[m + 1].part == b->moments[m].part) continue;
        double left = moment_x(c, from), right = moment_x(c, m + 1);
        const char *name = b->parts[b->moments[m].part];
        if (from) page_stroke(p, (double[]){ left, TOP }, (double[]){ left, HEIGHT - 12 }, "part");
        if (right - left > 8.0 * (double)strlen(name))
            page_label(p, (left + right) / 2, HEIGHT - BOTTOM + 46, "note m", name);
        from = m + 1;
    }
}

static void draw_marks(page *p, const picture *c) {
    const page_bands *b = c->b;
    char bytes[PAGE_VALUE_BYTES], label[2 * PAGE_VALUE_BYTES];
    double x = (moment_x(c, b->peak) + moment_x(c, b->peak + 1)) / 2;
    page_stroke(p, (double[]){ x, TOP }, (double[]){ x, HEIGHT - BOTTOM }, "peak");
    uint64_t peak = b->held_varies ? c->all[b->peak] : c->held[b->peak];
    snprintf(label, sizeof label, "peak %s", page_value(PAGE_BYTES, (double)peak, bytes));
    page_label(p, x + (x > WIDTH * 0.8 ? -6 : 6), TOP - 8, x > WIDTH * 0.8 ? "strong e" : "strong", label);
    double budget = (double)b->budget;
    if (b->budget == UINT64_MAX || budget > c->y.high) return;
    double y = page_place(&c->y, budget);
    page_stroke(p, (double[]){ LEFT, y }, (double[]){ WIDTH - RIGHT, y }, "limit");
    snprintf(label, sizeof label, "budget %s", page_value(PAGE_BYTES, budget, bytes));
    page_label(p, LEFT + 6, y - 5, "note", label);
}

static bool is_observed(const page_bands *b, uint32_t moment) {
    return b->seen && (!b->observed || b->observed[b->moments[moment].part]);
}

/* Bytes of what lies below `free` as it was observed, by moment; NULL: no memory. */
static uint64_t *add_up_seen(const picture *c) {
    const page_bands *b = c->b;
    uint64_t *sums = memory_new(b->moment_count + 1u, sizeof *sums);
    uint32_t end = b->held ? b->free : b->category_count;
    for (uint32_t i = 0; sums && i < b->base_count; i++)
        if (b->base[i].category < end) sums[0] += b->base[i].bytes;
    for (uint32_t i = 0; sums && i < b->band_count; i++) {
        if (b->bands[i].category >= end) continue;
        sums[b->seen[i].first] += b->seen[i].bytes;
        sums[b->seen[i].last + 1] -= b->seen[i].bytes; /* wraps, and back in the sum */
    }
    for (uint32_t m = 1; sums && m < b->moment_count; m++) sums[m] += sums[m - 1];
    return sums;
}

/* Where the bands would end as they were observed: a dashed line over the planned ones, but where nobody
 * looked. */
static void draw_seen(page *p, const picture *c, const uint32_t highest[COLUMNS]) {
    const double unit = (double)(WIDTH - LEFT - RIGHT) / COLUMNS;
    uint64_t *sums = add_up_seen(c);
    double last = -1;
    bool drawn = false;
    if (!sums) p->out.failed = true;
    page_add(p, "<path class=\"seen\" d=\"");
    for (int i = 0; sums && i < COLUMNS; i++) {
        bool known = highest[i] != UINT32_MAX && is_observed(c->b, highest[i]);
        double x = LEFT + unit * i, y = known ? page_place(&c->y, (double)sums[highest[i]]) : last;
        if (drawn && known && fabs(y - last) < 0.05) continue;
        if (known)
            page_add(p, drawn ? "H%.1fV%.1f" : "M%.1f %.1f", x, y);
        else if (drawn)
            page_add(p, "H%.1f", x);
        drawn = known, last = y;
    }
    if (drawn) page_add(p, "H%.1f", (double)WIDTH - RIGHT);
    page_add(p, "\"/>\n");
    memory_free(sums);
}

static void draw(page *p, picture *c) {
    const page_bands *b = c->b;
    const double box[4] = { LEFT, TOP, WIDTH - LEFT - RIGHT, HEIGHT - TOP - BOTTOM };
    uint32_t highest[COLUMNS];
    double most = 1;
    for (uint32_t m = 0; m < b->moment_count; m++)
        if ((double)c->held[m] > most) most = (double)c->held[m];
    if (b->budget != UINT64_MAX && (double)b->budget > most && (double)b->budget < TOO_MUCH * most)
        most = (double)b->budget;
    c->y = (page_scale){ 0, 1.04 * most, HEIGHT - BOTTOM, TOP };
    c->x = (page_scale){ 0, by_time(b) ? b->times[b->moment_count] : b->moment_count, LEFT, WIDTH - RIGHT };
    page_axis_left(p, PAGE_BYTES, &c->y, box);
    find_highest(c, highest);
    for (uint32_t k = 0; k < b->category_count; k++) draw_category(p, c, highest, k);
    if (b->seen) draw_seen(p, c, highest);
    draw_parts(p, c);
    draw_marks(p, c);
}

/* ---- the table: a row for each stretch of one program, phase and block ---- */

static bool joins(const page_moment *a, const page_moment *b, bool blocks) {
    return a->part == b->part && a->phase == b->phase && (!blocks || a->group == b->group);
}

static uint32_t count_stretches(const page_bands *b, bool blocks) {
    uint32_t count = b->moment_count > 0;
    for (uint32_t m = 1; m < b->moment_count; m++)
        count += !joins(&b->moments[m - 1], &b->moments[m], blocks);
    return count;
}

static void add_stretch(page *p, const picture *c, const uint32_t range[3], bool blocks) {
    const page_bands *b = c->b;
    static const page_column word = { "", false }, number = { "", true };
    const page_moment *m = &b->moments[range[2]];
    char few[80];
    page_row(p, range[0] <= b->peak && b->peak <= range[1]);
    page_cell(p, &word, b->part_count > 1 ? b->parts[m->part] : "");
    page_cell(p, &word, b->phases[m->phase]);
    if (m->group >= 0 && blocks)
        snprintf(few, sizeof few, "%s %d", b->group_word, (int)m->group);
    else
        few[0] = 0;
    page_cell(p, &word, few);
    snprintf(few, sizeof few, "%u-%u", (unsigned)range[0] + 1, (unsigned)range[1] + 1);
    page_cell(p, &number, few);
    snprintf(few, sizeof few, "%u", (unsigned)range[2] + 1);
    page_cell(p, &number, few);
    page_cell(p, &word, m->what);
    page_cell(p, &number, report_count(c->all[range[2]], few));
    for (uint32_t k = 0; k < b->category_count; k++)
        if (c->there[k]) page_cell(p, &number, report_count(*sum_at(c, range[2], k), few));
}

static void add_table(page *p, const picture *c) {
    const page_bands *b = c->b;
    page_column columns[7 + PAGE_TONES] = { { "program", false },     { "phase", false },
                                            { b->group_word, false }, { b->moment_word, true },
                                            { "highest", true },      { "there", false },
                                            { "in use", true } };
    bool blocks = count_stretches(b, true) <= ROWS;
    char name[128];
    snprintf(name, sizeof name, "%.60s: the highest %.20s of each stretch, in bytes", b->name,
             b->moment_word);
    uint32_t count = 7;
    for (uint32_t k = 0; k < b->category_count; k++)
        if (c->there[k]) columns[count++] = (page_column){ b->categories[k], true };
    page_table_begin(p, name, columns, count);
    uint32_t range[3] = { 0, 0, 0 };
    for (uint32_t m = 0; m < b->moment_count; m++) {
        if (c->all[m] > c->all[range[2]]) range[2] = m;
        if (m + 1 < b->moment_count && joins(&b->moments[m], &b->moments[m + 1], blocks)) continue;
        range[1] = m;
        add_stretch(p, c, range, blocks);
        range[0] = range[2] = m + 1;
    }
    page_table_end(p);
}

/* ---- the data ---- */

/* Texts that occur once in the data, by address or by what they say. */
typedef struct {
    const char **texts;
    uint32_t *slots; /* number + 1; 0: free */
    uint32_t count, room;
    bool failed;
} words;

static uint32_t word_of(words *w, const char *s) {
    if (!s) s = "";
    for (uint32_t at = (uint32_t)(hash_name_wide(s) % w->room);; at = (at + 1) % w->room) {
        if (!w->slots[at]) {
            w->texts[w->count] = s;
            w->slots[at] = ++w->count;
            return w->count - 1;
        }
        if (strcmp(w->texts[w->slots[at] - 1], s) == 0) return w->slots[at] - 1;
    }
}

static bool open_words(words *w, const page_bands *b) {
    size_t most = 3 * ((size_t)b->band_count + b->base_count) + b->moment_count + 1;
    w->room = (uint32_t)(2 * most);
    w->texts = memory_new(most, sizeof *w->texts);
    w->slots = memory_new(w->room, sizeof *w->slots);
    return w->texts && w->slots;
}

static void put_words(json_writer *w, const char *key, const char *const *texts, uint32_t count) {
    json_begin_array(w, key);
    for (uint32_t i = 0; i < count; i++) page_json_text(w, NULL, texts[i]);
    json_end_array(w);
}

/* [name, form, from, category, phase, group, bytes, first, last], and what was seen behind it. */
static void put_band(json_writer *w, words *t, const page_band *x, const uint32_t *life,
                     const page_seen *seen) {
    json_begin_array(w, NULL);
    json_put_unsigned(w, NULL, word_of(t, x->name));
    json_put_unsigned(w, NULL, word_of(t, x->form));
    json_put_unsigned(w, NULL, word_of(t, x->from));
    json_put_unsigned(w, NULL, x->category);
    json_put_unsigned(w, NULL, x->phase);
    json_put_integer(w, NULL, x->group);
    json_put_unsigned(w, NULL, x->bytes);
    for (int i = 0; life && i < 2; i++) json_put_unsigned(w, NULL, life[i]);
    if (seen) {
        json_put_unsigned(w, NULL, seen->bytes);
        json_put_unsigned(w, NULL, seen->first);
        json_put_unsigned(w, NULL, seen->last);
    }
    json_end_array(w);
}

static void put_moments(json_writer *w, words *t, const page_bands *b) {
    json_begin_array(w, "moments");
    for (uint32_t m = 0; m < b->moment_count; m++) {
        const page_moment *x = &b->moments[m];
        json_begin_array(w, NULL);
        json_put_unsigned(w, NULL, word_of(t, x->what));
        json_put_integer(w, NULL, x->group);
        json_put_unsigned(w, NULL, x->phase);
        json_put_unsigned(w, NULL, x->part);
        json_end_array(w);
    }
    json_end_array(w);
    if (!b->times) return;
    json_begin_array(w, "times"); /* in nanoseconds */
    for (uint32_t m = 0; m <= b->moment_count; m++) json_put_integer(w, NULL, llround(1e9 * b->times[m]));
    json_end_array(w);
}

/* ---- what is gathered ---- */

static int by_kind(const void *a, const void *b) {
    const page_change *x = a, *y = b;
    if (x->category != y->category) return x->category < y->category ? -1 : 1;
    if (x->group != y->group) return x->group < y->group ? -1 : 1;
    return (x->moment > y->moment) - (x->moment < y->moment);
}

/* {category, group, stairs: [moment, bytes, count, ...]}: from that moment on so much of so many. With
 * `seen`, as it was observed. */
static void put_stairs(json_writer *w, const page_change *list, uint32_t count, bool seen) {
    for (uint32_t i = 0; i < count;) {
        const page_change *kind = &list[i];
        int64_t bytes = 0, tensors = 0;
        json_begin_object(w, NULL);
        json_put_unsigned(w, "category", kind->category);
        json_put_integer(w, "group", kind->group);
        if (seen) json_put_bool(w, "seen", true);
        json_begin_array(w, "stairs");
        while (i < count && list[i].category == kind->category && list[i].group == kind->group) {
            uint32_t moment = list[i].moment;
            for (; i < count && list[i].category == kind->category && list[i].group == kind->group &&
                   list[i].moment == moment;
                 i++)
                bytes += list[i].bytes, tensors += list[i].count;
            json_put_unsigned(w, NULL, moment);
            json_put_integer(w, NULL, bytes);
            json_put_integer(w, NULL, tensors);
        }
        json_end_array(w);
        json_end_object(w);
    }
}

/* Where nobody looked a band is as planned. */
static page_seen life_of(const page_bands *b, uint32_t i, bool seen) {
    const page_band *x = &b->bands[i];
    return seen && is_observed(b, x->first) ? b->seen[i] : (page_seen){ x->first, x->last, x->bytes };
}

static uint32_t list_gathered(const picture *c, bool seen, page_change *list) {
    const page_bands *b = c->b;
    uint32_t count = 0;
    for (uint32_t i = 0; i < b->band_count; i++) {
        const page_band *x = &b->bands[i];
        page_seen life = life_of(b, i, seen);
        if (c->alone[i] || (seen && !life.bytes)) continue;
        list[count++] = (page_change){ life.first, x->category, x->group, (int64_t)life.bytes, 1 };
        list[count++] = (page_change){ life.last + 1, x->category, x->group, -(int64_t)life.bytes, -1 };
    }
    for (uint32_t i = 0; i < b->change_count; i++) list[count++] = b->changes[i];
    if (count) qsort(list, count, sizeof *list, by_kind);
    return count;
}

/* As planned, then as observed, where they are. */
static void put_gathered(json_writer *w, const picture *c) {
    const page_bands *b = c->b;
    page_change *list = memory_new(2 * (size_t)c->gathered + b->change_count + 1, sizeof *list);
    json_begin_array(w, "gathered");
    for (int seen = 0; list && seen <= (b->seen != NULL); seen++)
        put_stairs(w, list, list_gathered(c, seen, list), seen);
    if (!list) w->out->failed = true;
    json_end_array(w);
    memory_free(list);
}

static void put_observed(json_writer *w, const page_bands *b) {
    if (!b->seen) return;
    json_begin_array(w, "observed"); /* by part */
    for (uint32_t i = 0; i < b->part_count; i++) json_put_bool(w, NULL, !b->observed || b->observed[i]);
    json_end_array(w);
}

static void put_held(json_writer *w, const page_bands *b) {
    if (!b->held) return;
    json_put_unsigned(w, "free", b->free);
    json_put_bool(w, "held_varies", b->held_varies); /* also of a single moment */
    json_begin_array(w, "held");
    for (uint32_t m = 0; m < (b->held_varies ? b->moment_count : 1); m++)
        json_put_unsigned(w, NULL, b->held[m]);
    json_end_array(w);
}

static void put_data(text *json, const picture *c) {
    const page_bands *b = c->b;
    json_writer w = { .out = json };
    words t = { 0 };
    if (!open_words(&t, b)) json->failed = true;
    json_begin_object(&w, NULL);
    put_words(&w, "categories", b->categories, b->category_count);
    put_words(&w, "phases", b->phases, b->phase_count);
    put_words(&w, "parts", b->parts, b->part_count);
    page_json_text(&w, "group_word", b->group_word);
    page_json_text(&w, "moment_word", b->moment_word);
    json_put_unsigned(&w, "peak", b->peak);
    if (b->by_moment) json_put_bool(&w, "by_moment", true);
    if (b->budget != UINT64_MAX) json_put_unsigned(&w, "budget", b->budget);
    if (!json->failed) {
        put_held(&w, b);
        put_observed(&w, b);
        put_moments(&w, &t, b);
        json_begin_array(&w, "base");
        for (uint32_t i = 0; i < b->base_count; i++) put_band(&w, &t, &b->base[i], NULL, NULL);
        json_end_array(&w);
        json_begin_array(&w, "bands");
        for (uint32_t i = 0; i < b->band_count; i++)
            if (c->alone[i])
                put_band(&w, &t, &b->bands[i], (uint32_t[]){ b->bands[i].first, b->bands[i].last },
                         is_observed(b, b->bands[i].first) ? &b->seen[i] : NULL);
        json_end_array(&w);
        put_gathered(&w, c);
        put_words(&w, "words", t.texts, t.count);
    }
    json_end_object(&w);
    memory_free(t.texts);
    memory_free(t.slots);
}

/* ---- the whole ---- */

static void say_gathered(page *p, const picture *c) {
    const page_bands *b = c->b;
    char few[UNITS_TEXT_BYTES];
    uint64_t all = c->gathered + b->gathered,
             most = b->gathered_most > c->threshold ? b->gathered_most : c->threshold;
    if (!all) return;
    page_say(
        p,
        "%llu smaller ones, of at most %s each, are gathered by category and %s; what they have together is "
        "shown to the byte.",
        (unsigned long long)all, units_bytes_text(most, few), b->group_word);
}

void page_put_bands(page *p, const page_bands *b) {
    picture c = { .b = b };
    page_figure f = { "bands", b->name, b->about, WIDTH, HEIGHT };
    text json = { 0 };
    if (!b->moment_count) return;
    if (!open_picture(&c)) {
        p->out.failed = true;
        close_picture(&c);
        return;
    }
    page_figure_begin(p, &f);
    draw(p, &c);
    page_figure_drawn(p, &f);
    page_legend(p, b->categories, c.there, b->category_count);
    say_gathered(p, &c);
    add_table(p, &c);
    put_data(&json, &c);
    page_figure_end(p, &json);
    close_picture(&c);
}
