/* Pages as they are written: markup that is whole, a policy that names what it carries, texts from strangers
 * that stay texts, data that has every byte. */
#define _GNU_SOURCE
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "io/scratch.h"
#include "report/page/page.h"
#include "report/page/page_chart.h"
#include "report/page/page_curves.h"
#include "report/page_read.h"

/* ---- the hash of the policy ---- */

static void hashes_are_those_of_the_standard(void **state) {
    (void)state;
    char source[SHA256_SOURCE_BYTES], million[1000];
    assert_string_equal(sha256_source("", 0, source), "sha256-47DEQpj8HBSa+/TImW+5JCeuQeRkm5NMpJWZG3hSuFU=");
    assert_string_equal(sha256_source("abc", 3, source),
                        "sha256-ungWv48Bz+pBQUDeXa4iI7ADYaOWF3qctBD/YfIAFa0=");
    const char two[] = "abcdbcdecdefdefgefghfghighijhijkijkljklmklmnlmnomnopnopq";
    assert_string_equal(sha256_source(two, 56, source),
                        "sha256-JI1qYdIGOLjlwCaTDD5gOaM85Flk/yFn9uzt1BnbBsE=");
    memset(million, 'a', sizeof million);
    assert_string_equal(sha256_source(million, 119, source),
                        "sha256-MeulHDE6XAgiat8Y1KNZz9/Y0ugWsT9K+VL36mWE3Ps=");
}

static void what_is_carried_is_small(void **state) {
    (void)state;
    assert_true(strlen(page_scripts[0].text) + strlen(page_styles[0].text) <= 60 << 10);
    assert_null(page_scripts[1].name);
    assert_null(page_styles[1].name);
}

/* ---- texts from strangers ---- */

static const char *const hostile[] = { "</script><script>alert(1)</script>",
                                       "<!--<script>",
                                       "\"><img src=x onerror=alert(1)>",
                                       "' onmouseover='alert(1)",
                                       "</style><style>*{display:none}",
                                       "&lt;b&gt; &amp; & &#x3c;",
                                       "]]>{{x}}${y}\\u003c\\",
                                       "\x01\x1b[31m\x7f\xc2\x9b\r\n\t\v",
                                       "\xff\xfe\xc0\xbc\xed\xa0\x80",
                                       "\xe2\x80\xae"
                                       "drow\xe2\x80\xac \xe2\x81\xa6x",
                                       "\xef\xbf\xbe\xf0\x9f\x90\xa2 gr\xc3\xbc\xc3\x9f",
                                       "" };
enum { HOSTILE = sizeof hostile / sizeof *hostile };

static void put_charts(page *p, const char *s) {
    const char *names[] = { s, s };
    const page_moment moments[] = { { s, 0, 0, 0 }, { s, -1, 1, 1 }, { s, 3, 1, 1 } };
    const page_band base = { .name = s, .form = s, .from = s, .bytes = 7, .group = -1 };
    const page_band bands[] = { { s, s, s, 1, 0, 0, 0, 1, 100 }, { s, NULL, NULL, 0, 1, -1, 1, 2, 50 } };
    const double times[] = { 0, 1, 2, 3 }, x[] = { 1, 2, 3 }, y[] = { 3, NAN, 1 };
    page_put_bands(p, &(page_bands){ .name = s,
                                     .about = s,
                                     .categories = names,
                                     .category_count = 2,
                                     .phases = names,
                                     .phase_count = 2,
                                     .parts = names,
                                     .part_count = 2,
                                     .group_word = s,
                                     .moment_word = s,
                                     .moments = moments,
                                     .moment_count = 3,
                                     .times = times,
                                     .base = &base,
                                     .base_count = 1,
                                     .bands = bands,
                                     .band_count = 2,
                                     .budget = 160,
                                     .peak = 1 });
    page_put_lines(
        p, &(page_lines){ s, s, s, PAGE_NUMBER, (page_line[]){ { s, x, y, 3 }, { s, x, y, 3 } }, 2, s, 2 });
    page_put_bars(p, &(page_bars){ .name = s,
                                   .about = s,
                                   .label_word = s,
                                   .note_word = s,
                                   .unit = PAGE_BYTES,
                                   .value_name = s,
                                   .mark_names = { s, s },
                                   .piece_names = names,
                                   .piece_count = 2,
                                   .bars = &(page_bar){ s, s, 9, { 3, NAN }, (double[]){ 4, 5 } },
                                   .count = 1 });
    page_put_points(p, &(page_points){ s, s, PAGE_BYTES, PAGE_SECONDS, s, s,
                                       &(page_point){ 1, 2, s, PAGE_POINT_CHOSEN }, 1, s, 1 });
}

static uint32_t write_with(const char *s, text *out) {
    page p;
    page_begin(&p, NULL, &(page_head){ s, s, s, true });
    page_section(&p, s);
    page_say(&p, "%s and %s", s, s);
    page_facts(&p, &(page_fact){ s, s, s }, 1);
    page_table_begin(&p, s, &(page_column){ s, true }, 1);
    page_row(&p, true);
    page_cell(&p, &(page_column){ s, true }, s);
    page_table_end(&p);
    put_charts(&p, s);
    assert_int_equal(page_end(&p), STATUS_OK);
    *out = p.out;
    uint32_t scripts = 0;
    for (const char *at = out->data; (at = strstr(at, "<script")); at++) scripts++;
    assert_int_equal(scripts, 4 + 1); /* of the charts, and the page's own */
    page_read_policy(out->data);
    return page_read_markup(out->data);
}

/* The same elements, whatever things are called; and the data says the name as it is, but for what no text
 * has. */
static void names_never_become_markup(void **state) {
    (void)state;
    for (int i = 0; i < HOSTILE; i++) {
        text html = { 0 }, plain = { 0 };
        char same[64] = "";
        memset(same, 'a',
               strlen(hostile[i])); /* as long, since some labels are left out where they don't fit */
        uint32_t elements = write_with(same, &plain);
        text_close(&plain);
        assert_int_equal(write_with(hostile[i], &html), elements);
        json_document d = page_read_data(html.data, "bands", 0);
        const char *said = NULL;
        assert_int_equal(json_get_string(d.root, "group_word", &said), STATUS_OK);
        if (i < 7 || i == 11) assert_string_equal(said, hostile[i]);
        if (i == 10) assert_string_equal(said, "\xef\xbf\xbd\xf0\x9f\x90\xa2 gr\xc3\xbc\xc3\x9f");
        assert_null(strstr(said, "\xe2\x80\xae"));
        json_close(&d);
        for (const char *kinds[] = { "lines", "bars", "points", NULL }, **k = kinds; *k; k++) {
            d = page_read_data(html.data, *k, 0);
            json_close(&d);
        }
        text_close(&html);
    }
}

static void long_texts_are_whole(void **state) {
    (void)state;
    page p;
    char *name = malloc(100001);
    assert_non_null(name);
    memset(name, '<', 100000), name[100000] = 0;
    page_begin(&p, NULL, &(page_head){ name, name, NULL, false });
    assert_int_equal(page_end(&p), STATUS_OK);
    page_read_markup(p.out.data);
    size_t count = 0;
    for (const char *at = p.out.data; (at = strstr(at, "&lt;")); at += 4) count++;
    assert_int_equal(count, 3 * 100000); /* the window, above the answer, the answer */
    text_close(&p.out);
    free(name);
}

/* ---- bands ---- */

enum { MOMENTS = 40, BANDS = 120, KINDS = 5 };

static void draw_bands(uint64_t *seed, page_band *bands, uint64_t sums[MOMENTS][KINDS]) {
    memset(sums, 0, sizeof(uint64_t) * MOMENTS * KINDS);
    for (int i = 0; i < BANDS; i++) {
        uint32_t a = scratch_random(seed) % MOMENTS, b = scratch_random(seed) % MOMENTS;
        bands[i] =
            (page_band){ .name = "t",
                         .category = (uint8_t)(scratch_random(seed) % KINDS),
                         .group = (int32_t)(scratch_random(seed) % 4) - 1,
                         .first = a < b ? a : b,
                         .last = a < b ? b : a,
                         .bytes = scratch_random(seed) % 30 ? scratch_random(seed) % 5000 : 1ull << 40 };
        for (uint32_t m = bands[i].first; m <= bands[i].last; m++)
            sums[m][bands[i].category] += bands[i].bytes;
    }
}

/* However many stand alone, and whatever is held beside them. */
static void no_byte_is_lost_in_gathering(void **state) {
    (void)state;
    static const uint32_t alone[] = { 0, 1, 7, 60, BANDS - 1, BANDS, 1000 };
    static const char *const names[] = { "a", "b", "c", "d", "free" };
    uint64_t seed = 11, sums[MOMENTS][KINDS], held[MOMENTS];
    page_band bands[BANDS];
    page_moment moments[MOMENTS];
    for (int m = 0; m < MOMENTS; m++) moments[m] = (page_moment){ "op", m / 9 - 1, (uint8_t)(m / 20), 0 };
    for (size_t n = 0; n < sizeof alone / sizeof *alone; n++) {
        page p;
        draw_bands(&seed, bands, sums);
        for (int m = 0; m < MOMENTS; m++) held[m] = 1ull << 50;
        page_begin(&p, NULL, &(page_head){ "t", "a", NULL, false });
        page_put_bands(&p, &(page_bands){ .name = "n",
                                          .categories = names,
                                          .category_count = KINDS,
                                          .phases = names,
                                          .phase_count = 2,
                                          .parts = names,
                                          .part_count = 1,
                                          .group_word = "block",
                                          .moment_word = "kernel",
                                          .moments = moments,
                                          .moment_count = MOMENTS,
                                          .bands = bands,
                                          .band_count = BANDS,
                                          .held = held,
                                          .held_varies = n % 2,
                                          .free = KINDS - 1,
                                          .budget = UINT64_MAX,
                                          .most = alone[n] });
        assert_int_equal(page_end(&p), STATUS_OK);
        page_read_markup(p.out.data);
        json_document d = page_read_data(p.out.data, "bands", 0);
        page_read_sums s = page_read_bands(&d);
        assert_int_equal(s.moments, MOMENTS);
        assert_int_equal(s.categories, KINDS);
        assert_memory_equal(s.bytes, sums, sizeof sums);
        size_t shown = page_read_count(page_read_at(d.root, "bands"));
        assert_true(!alone[n] || shown <= alone[n]);
        assert_int_equal(page_read_count(page_read_at(d.root, "held")), n % 2 ? MOMENTS : 1);
        bool varies = false;
        assert_int_equal(json_get_bool(d.root, "held_varies", &varies), STATUS_OK);
        assert_int_equal(varies, n % 2);
        free(s.bytes);
        json_close(&d);
        text_close(&p.out);
    }
}

/* What a page says that was observed at each moment. */
static void read_seen(const json_document *d, uint64_t sums[MOMENTS]) {
    json_value bands = page_read_at(d->root, "bands"), gathered = page_read_at(d->root, "gathered");
    memset(sums, 0, sizeof(uint64_t) * MOMENTS);
    for (size_t i = 0; i < page_read_count(bands); i++) {
        json_value x = json_item(bands, i);
        int at = page_read_count(x) > 9 ? 10 : 7;
        uint64_t bytes = (uint64_t)page_read_whole(json_item(x, at == 7 ? 6 : 9));
        for (int64_t m = page_read_whole(json_item(x, (size_t)at));
             m <= page_read_whole(json_item(x, (size_t)at + 1)); m++)
            sums[m] += bytes;
    }
    for (size_t i = 0; i < page_read_count(gathered); i++) {
        json_value g = json_item(gathered, i), stairs = page_read_at(g, "stairs");
        size_t n = json_has(g, "seen") ? page_read_count(stairs) : 0;
        for (size_t k = 0; k < n; k += 3) {
            int64_t to = k + 3 < n ? page_read_whole(json_item(stairs, k + 3)) : MOMENTS;
            for (int64_t m = page_read_whole(json_item(stairs, k)); m < to; m++)
                sums[m] += (uint64_t)page_read_whole(json_item(stairs, k + 1));
        }
    }
}

/* The second program did not run: its bands are as planned, and there is no line. */
static void draw_seen(uint64_t *seed, page_band *bands, page_seen *seen, uint64_t sums[MOMENTS]) {
    uint64_t planned[MOMENTS][KINDS];
    draw_bands(seed, bands, planned);
    memset(sums, 0, sizeof(uint64_t) * MOMENTS);
    for (int i = 0; i < BANDS; i++) {
        page_band *x = &bands[i];
        if (x->first < MOMENTS / 2 && x->last >= MOMENTS / 2) x->last = MOMENTS / 2 - 1;
        bool ran = x->first < MOMENTS / 2;
        seen[i] = (page_seen){ x->first, x->last, x->bytes };
        if (i % 5 == 0) seen[i].bytes = 3 * x->bytes / 2;
        if (i % 7 == 0) seen[i] = (page_seen){ 0 };
        if (i % 11 == 0 && seen[i].first) seen[i].first--;
        page_seen life = ran ? seen[i] : (page_seen){ x->first, x->last, x->bytes };
        for (uint32_t m = life.first; m <= life.last; m++) sums[m] += life.bytes;
        if (!ran) seen[i] = (page_seen){ 0 };
    }
}

/* However many stand alone: what is gathered is shown as it was observed too. */
static void no_byte_is_lost_in_observing(void **state) {
    (void)state;
    static const char *const names[] = { "a", "b", "c", "d", "e" };
    static const uint32_t alone[] = { 0, 1, 60, BANDS - 1 };
    uint64_t seed = 12, sums[MOMENTS], said[MOMENTS];
    page_band bands[BANDS];
    page_seen seen[BANDS];
    page_moment moments[MOMENTS];
    for (int m = 0; m < MOMENTS; m++) moments[m] = (page_moment){ "op", -1, 0, (uint8_t)(m / (MOMENTS / 2)) };
    for (size_t n = 0; n < sizeof alone / sizeof *alone; n++) {
        page p;
        draw_seen(&seed, bands, seen, sums);
        page_begin(&p, NULL, &(page_head){ "t", "a", NULL, false });
        page_put_bands(&p, &(page_bands){ .name = "n",
                                          .categories = names,
                                          .category_count = KINDS,
                                          .phases = names,
                                          .phase_count = 1,
                                          .parts = names,
                                          .part_count = 2,
                                          .group_word = "block",
                                          .moment_word = "kernel",
                                          .moments = moments,
                                          .moment_count = MOMENTS,
                                          .bands = bands,
                                          .band_count = BANDS,
                                          .seen = seen,
                                          .observed = (const bool[]){ true, false },
                                          .budget = UINT64_MAX,
                                          .most = alone[n] });
        assert_int_equal(page_end(&p), STATUS_OK);
        page_read_markup(p.out.data);
        json_document d = page_read_data(p.out.data, "bands", 0);
        read_seen(&d, said);
        assert_memory_equal(said, sums, sizeof sums);
        const char *line = strstr(p.out.data, "class=\"seen\" d=\"M"), *last = strstr(line, "\"/>");
        while (last[-1] != 'H') last--;
        assert_true(atof(last) == 84 + (1000 - 84 - 12) / 2.0); /* half of the axis */
        json_close(&d);
        text_close(&p.out);
    }
}

/* ---- curves ---- */

/* Of a long run every spike is kept, in the drawing as in the data. */
static void no_spike_is_lost(void **state) {
    (void)state;
    enum { STEPS = 20000, SPIKE = 13457, HOLE = 777 };
    FILE *f = fopen("metrics.jsonl", "w");
    assert_non_null(f);
    fprintf(f, "{\"began\": \"x\", \"planned_bytes\": 5000000}\n");
    for (int i = 1; i <= STEPS; i++) {
        double loss = i == SPIKE ? 99 : i == HOLE ? -5 : 2 + 0.1 * sin(i);
        if (i == 5000)
            fprintf(f, "{\"step\": 5000, torn\n");
        else
            fprintf(f,
                    "{\"step\": %d, \"loss\": %.6f, \"lr\": 0.001, \"seconds\": 0.5, \"memory_bytes\": "
                    "4000000}\n",
                    i, loss);
        if (i % 1000 == 0) fprintf(f, "{\"step\": %d, \"eval_loss\": 2.5}\n", i);
    }
    assert_int_equal(fclose(f), 0);
    page p;
    page_begin(&p, NULL, &(page_head){ "t", "a", NULL, false });
    assert_int_equal(page_put_curves(&p, "."), STATUS_OK);
    assert_int_equal(page_end(&p), STATUS_OK);
    page_read_markup(p.out.data);
    json_document d = page_read_data(p.out.data, "lines", 0);
    json_value lines = page_read_at(d.root, "lines"), points = page_read_at(json_item(lines, 0), "points");
    assert_int_equal(page_read_count(lines), 2);
    assert_int_equal(page_read_count(page_read_at(json_item(lines, 1), "points")), 2 * 20);
    double most = -1, least = 1e9, most_at = 0, least_at = 0, before = 0;
    size_t n = page_read_count(points);
    assert_true(n > 1000 && n < 5000);
    for (size_t i = 0; i < n; i += 2) {
        double x = 0, y = 0;
        assert_int_equal(json_as_number(json_item(points, i), 1, STEPS, &x), STATUS_OK);
        assert_int_equal(json_as_number(json_item(points, i + 1), -10, 100, &y), STATUS_OK);
        assert_true(x > before);
        before = x;
        if (y > most) most = y, most_at = x;
        if (y < least) least = y, least_at = x;
    }
    assert_true(most == 99 && most_at == SPIKE && least == -5 && least_at == HOLE);
    json_close(&d);
    text_close(&p.out);
    assert_int_equal(remove("metrics.jsonl"), 0);
}

static void without_metrics_there_are_no_curves(void **state) {
    (void)state;
    page p;
    page_begin(&p, NULL, &(page_head){ "t", "a", NULL, false });
    assert_int_equal(page_put_curves(&p, "nowhere"), STATUS_OK);
    assert_int_equal(page_end(&p), STATUS_OK);
    assert_null(strstr(p.out.data, "<figure"));
    text_close(&p.out);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(hashes_are_those_of_the_standard),
        cmocka_unit_test(what_is_carried_is_small),
        cmocka_unit_test(names_never_become_markup),
        cmocka_unit_test(long_texts_are_whole),
        cmocka_unit_test(no_byte_is_lost_in_gathering),
        cmocka_unit_test(no_spike_is_lost),
        cmocka_unit_test(no_byte_is_lost_in_observing),
        cmocka_unit_test(without_metrics_there_are_no_curves),
    };
    return cmocka_run_group_tests(tests, scratch_open, scratch_close);
}
