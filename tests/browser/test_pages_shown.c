/* Pages that commands write, in a real browser: light and dark, wide and narrow, without scripts and on
 * paper; what they say is what --json says, and names of strangers are text. */
#define _GNU_SOURCE
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "browser/browser_checks.h"
#include "browser/page_checks.h"
#include "cli/command.h"
#include "io/scratch.h"
#include "report/page/page.h"

static browser *b;

/* What a command says with --json; to be put back. */
static struct json_object *json_of(int code, const char *line) {
    command_result r = command_run(line);
    if (r.exit != code) fail_msg("%s: exit %d, %s", line, r.exit, r.err);
    struct json_object *said = json_tokener_parse(r.out);
    command_free(&r);
    assert_non_null(said);
    return said;
}

static struct json_object *member(struct json_object *o, const char *key) {
    struct json_object *m = NULL;
    assert_true(json_object_object_get_ex(o, key, &m));
    return m;
}

static long size_of(const char *file) {
    FILE *f = fopen(file, "rb");
    assert_non_null(f);
    assert_int_equal(fseek(f, 0, SEEK_END), 0);
    long bytes = ftell(f);
    fclose(f);
    return bytes;
}

static char *read_page(const char *file) {
    long bytes = size_of(file);
    char *all = calloc(1, (size_t)bytes + 1);
    FILE *f = fopen(file, "rb");
    assert_true(all && f && fread(all, 1, (size_t)bytes, f) == (size_t)bytes);
    fclose(f);
    return all;
}

/* ---- plans ---- */

static const struct {
    const char *line;
    int code;
    bool thorough;
} plans[] = {
    { "plan char-small --batch 4 --context 64 --memory 29MiB", 0, true },
    { "plan char-small --batch 4 --context 64", 0, false },
    { "plan char-small --batch 4 --context 64 --memory 20MiB", 3, false },
    { "plan tiny --batch 2 --eval-only --data text", 0, false },
    { "plan gpt2-xl", 0, false },
};

static void a_plan_is_told_as_json_tells_it(void **state) {
    (void)state;
    for (size_t i = 0; i < sizeof plans / sizeof *plans; i++) {
        char line[256];
        snprintf(line, sizeof line, "%s --json --html plan.html", plans[i].line);
        struct json_object *said = json_of(plans[i].code, line);
        if (plans[i].thorough)
            check_page(b, "plan.html");
        else
            check_page_soon(b, "plan.html");
        must(browser_open(b, "plan.html", (browser_view){ 0 }));
        check_memory(b, 1, member(said, "predicted"));
        check_pointing(b, 1);
        check_quiet(b, "plan.html");
        assert_true(size_of("plan.html") <= 1 << 20);
        print_message("%s: %ld bytes, ready in %.0f ms\n", plans[i].line, size_of("plan.html"),
                      1000 * browser_ready_seconds(b));
        json_object_put(said);
    }
}

/* ---- profiles and runs ---- */

/* A chart of bars or curves says its marks by keys, each by name. */
static void check_keys(int chart, const char *list, const char *name) {
    char expression[256];
    struct json_object *data = page_data(b, chart), *all = member(data, list);
    snprintf(expression, sizeof expression, "document.querySelector('#chart%d .plot').focus()", chart);
    asked(b, expression);
    must(browser_point(b, 1, 1, NULL)); /* what scrolls below it would be pointed at */
    must(browser_key(b, "Home"));
    for (size_t i = 0; i < json_object_array_length(all); i++) {
        snprintf(expression, sizeof expression, "document.querySelector('#chart%d-said').textContent", chart);
        const char *label = json_object_get_string(member(json_object_array_get_idx(all, i), name));
        const char *said = asked(b, expression);
        if (strncmp(said, label, strlen(label)) != 0) fail_msg("%s is said for %s", said, label);
        must(browser_key(b, "ArrowRight"));
    }
    json_object_put(data);
}

/* Bars of time are the rows of --json, of which the chart may have fewer. */
static void check_ops(struct json_object *profile) {
    int chart = page_chart(b, "Time by op");
    struct json_object *data = page_data(b, chart), *bars = member(data, "bars"),
                       *rows = member(profile, "by_op");
    assert_true(json_object_array_length(bars) >= 5);
    for (size_t i = 0; i < json_object_array_length(bars) && i < 5; i++) {
        struct json_object *bar = json_object_array_get_idx(bars, i),
                           *row = json_object_array_get_idx(rows, i);
        assert_string_equal(json_object_get_string(member(bar, "label")),
                            json_object_get_string(member(row, "op")));
        assert_string_equal(json_object_get_string(member(bar, "note")),
                            json_object_get_string(member(row, "phase")));
        assert_true(json_object_get_double(member(bar, "value")) ==
                    json_object_get_double(member(row, "seconds")));
    }
    json_object_put(data);
    check_keys(chart, "bars", "label");
}

/* Measured and planned bytes of each category. */
static void check_measured(struct json_object *said) {
    int chart = page_chart(b, "Memory by category: measured and planned");
    struct json_object *data = page_data(b, chart), *bars = member(data, "bars");
    struct json_object *measured = member(member(said, "measured"), "by_category"), *of;
    int found = 0;
    for (size_t i = 0; i < json_object_array_length(bars); i++) {
        struct json_object *bar = json_object_array_get_idx(bars, i);
        const char *name = json_object_get_string(member(bar, "label"));
        if (!json_object_object_get_ex(measured, name, &of)) continue;
        assert_int_equal(json_object_get_int64(member(bar, "value")), json_object_get_int64(of));
        of = member(member(member(said, "predicted"), "by_category"), name);
        assert_int_equal(json_object_get_int64(json_object_array_get_idx(member(bar, "marks"), 0)),
                         json_object_get_int64(of));
        found++;
    }
    assert_true(found >= 6);
    json_object_put(data);
    check_keys(chart, "bars", "label");
}

/* Each band that stands alone was seen as it was planned, and the band that keys choose says so. */
static void check_observed(int chart, int64_t buffers) {
    char sentence[128], expression[256], count[40];
    struct json_object *data = page_data(b, chart), *bands = member(data, "bands");
    for (size_t i = 0; i < json_object_array_length(bands); i++) {
        struct json_object *x = json_object_array_get_idx(bands, i);
        assert_int_equal(json_object_array_length(x), 12);
        for (size_t k = 0; k < 3; k++) /* bytes, first and last */
            assert_int_equal(json_object_get_int64(json_object_array_get_idx(x, 6 + k)),
                             json_object_get_int64(json_object_array_get_idx(x, 9 + k)));
    }
    json_object_put(data);
    snprintf(sentence, sizeof sentence, "Observed: all %s buffers", page_counted((uint64_t)buffers, count));
    assert_non_null(strstr(asked(b, "document.body.textContent"), sentence));
    snprintf(expression, sizeof expression, "document.querySelector('#chart%d .plot').focus()", chart);
    asked(b, expression);
    must(browser_key(b, "Home"));
    snprintf(expression, sizeof expression, "document.querySelector('#chart%d-said').textContent", chart);
    int found = 0;
    for (int i = 0; i < 40 && found < 3; i++) { /* the topmost of each kernel */
        must(browser_key(b, "ArrowRight"));
        must(browser_key(b, "Escape"));
        must(browser_key(b, "ArrowDown"));
        const char *words = asked(b, expression);
        if (strstr(words, "stays all the time") || strstr(words, " small ones")) continue;
        if (!strstr(words, "observed the same")) fail_msg("not as observed: %s", words);
        found++;
    }
    assert_int_equal(found, 3);
}

static void a_profile_is_told_as_json_tells_it(void **state) {
    (void)state;
    struct json_object *said = json_of(0, "profile tiny --batch 4 --steps 3 --json --html profile.html");
    struct json_object *profile = member(said, "profile");
    check_page(b, "profile.html");
    must(browser_open(b, "profile.html", (browser_view){ 0 }));
    int memory = page_chart(b, "Memory over the step");
    check_memory(b, memory, member(said, "predicted"));
    check_pointing(b, memory);
    check_observed(memory, json_object_get_int64(member(member(profile, "observed"), "planned")));
    check_ops(profile);
    check_measured(said);
    check_quiet(b, "profile.html");
    json_object_put(said);
}

#define RUN "tiny --batch 4 --data text --eval-every 3 "

static void check_losses(struct json_object *losses) {
    int chart = page_chart(b, "Loss and validation");
    struct json_object *data = page_data(b, chart);
    struct json_object *points = member(json_object_array_get_idx(member(data, "lines"), 0), "points");
    assert_int_equal(json_object_array_length(points), 2 * json_object_array_length(losses));
    for (size_t i = 0; i < json_object_array_length(losses); i++)
        assert_true(json_object_get_double(json_object_array_get_idx(points, 2 * i + 1)) ==
                    json_object_get_double(json_object_array_get_idx(losses, i)));
    json_object_put(data);
}

static void a_run_is_told_as_json_tells_it(void **state) {
    (void)state;
    struct json_object *said = json_of(0, "train " RUN "--steps 6 --out run --json --html train.html");
    check_page_soon(b, "train.html");
    int memory = page_chart(b, "Memory over the step");
    check_memory(b, memory, member(said, "predicted"));
    check_pointing(b, memory);
    check_losses(member(said, "losses"));
    check_measured(said);
    struct json_object *profile = json_of(0, "profile tiny --batch 4 --data text --steps 2 --json");
    struct json_object *seen = member(member(profile, "profile"), "observed");
    check_observed(memory, json_object_get_int64(member(seen, "planned")));
    check_quiet(b, "train.html");

    /* What is observed takes what it is said to take of the planned runtime, and nothing without a page. */
    struct json_object *plain = json_of(0, "train " RUN "--steps 6 --out plain --json");
    int64_t with = json_object_get_int64(member(member(said, "predicted"), "peak_bytes"));
    int64_t without = json_object_get_int64(member(member(plain, "predicted"), "peak_bytes"));
    assert_int_equal(with, without + json_object_get_int64(member(seen, "table_bytes")));
    assert_int_equal(json_object_get_int64(member(plain, "least_budget_bytes")),
                     json_object_get_int64(member(said, "least_budget_bytes")));
    char line[256]; /* a budget without room for it is kept */
    snprintf(line, sizeof line, "train " RUN "--steps 6 --memory %lld --out least --html least.html --json",
             (long long)json_object_get_int64(member(plain, "least_budget_bytes")));
    json_object_put(json_of(0, line));
    must(browser_open(b, "least.html", (browser_view){ 0 }));
    assert_null(strstr(asked(b, "document.body.textContent"), "Observed: "));
    check_quiet(b, "least.html");
    json_object_put(plain);
    json_object_put(profile);
    json_object_put(said);
}

/* The table of a page answers alone. */
static void it_answers_without_scripts(void **state) {
    (void)state;
    struct json_object *said = json_of(0, "plan char-small --batch 4 --context 64 --json --html plan.html");
    must(browser_open(b, "plan.html", (browser_view){ .no_scripts = true }));
    assert_string_equal(asked(b, "document.documentElement.dataset.ready||'no'"), "no");
    assert_string_equal(asked(b, "getComputedStyle(document.querySelector('#chart1 .plot>svg')).display"),
                        "block");
    assert_string_equal(asked(b, "document.querySelectorAll('canvas').length"), "0");
    const char *answer = asked(b, "document.querySelector('h1').textContent");
    assert_non_null(strstr(answer, "char-small takes"));
    char expression[256];
    snprintf(expression, sizeof expression,
             "document.body.textContent.includes((%lld).toLocaleString('en-US'))",
             (long long)json_object_get_int64(
                 member(member(member(said, "predicted"), "by_category"), "optimizer")));
    assert_string_equal(asked(b, expression), "true");
    json_object_put(said);
}

/* ---- strangers ---- */

#define HOSTILE "</script><script>alert(1)</script><img src=http://planted.invalid/x onerror=alert(2)>"
static const char *const hostile[] = {
    HOSTILE,
    "--><!--<script>",
    "\"onmouseover='alert(3)' x=\"",
    "</title></style></svg></table><svg onload=alert(4)>",
    "&lt;script&gt;\\u003cscript\\u003e",
    "\xff\xfe\x1b[31m\xe2\x80\xae",
    "__proto__",
};

/* A chart of each kind whose texts are all the same one. */
static void put_charts(page *p, const char *name) {
    const char *names[] = { name, name };
    page_moment moments[] = { { name, 0, 0, 0 }, { name, 1, 1, 0 } };
    page_band base = { name, name, name, 0, 0, 0, 0, 0, 1000 };
    page_band bands[] = { { name, name, name, 1, 0, 0, 0, 0, 500 },
                          { name, name, name, 0, 1, -1, 0, 1, 700 } };
    const double x[] = { 1, 2 }, y[] = { 3, 4 };
    page_line line = { name, x, y, 2 };
    page_bar bar = { .label = name, .note = name, .value = 1, .marks = { 2, 3 } };
    page_point points[] = { { 1, 2, name, PAGE_POINT }, { 2, 1, name, PAGE_POINT_CHOSEN } };
    page_bands memory = { .name = name, .about = name, .group_word = name, .moment_word = name };
    memory.categories = memory.phases = memory.parts = names;
    memory.category_count = memory.phase_count = 2, memory.part_count = 1;
    memory.moments = moments, memory.moment_count = 2;
    memory.base = &base, memory.base_count = 1, memory.bands = bands, memory.band_count = 2;
    memory.budget = UINT64_MAX, memory.most = 10;
    page_put_bands(p, &memory);
    page_lines lines = { .name = name, .about = name, .x_word = name, .lines = &line, .count = 1 };
    lines.limit_name = name, lines.limit = 3;
    page_put_lines(p, &lines);
    page_bars bars = {
        .name = name, .about = name, .label_word = name, .note_word = name, .value_name = name
    };
    bars.mark_names[0] = bars.mark_names[1] = name, bars.bars = &bar, bars.count = 1;
    page_put_bars(p, &bars);
    page_points front = { .name = name, .about = name, .x_word = name, .y_word = name, .points = points };
    front.count = 2, front.limit_name = name, front.limit = 1;
    page_put_points(p, &front);
}

/* Every text of the page is the stranger's. */
static void write_page_of(const char *file, const char *name) {
    io_writer w;
    page p;
    page_column column = { name, false };
    assert_int_equal(io_writer_open(&w, file), STATUS_OK);
    page_begin(&p, &w, &(page_head){ name, name, name, false });
    page_section(&p, name);
    page_say(&p, "%s", name);
    page_facts(&p, &(page_fact){ name, name, name }, 1);
    put_charts(&p, name);
    page_table_begin(&p, name, &column, 1);
    page_row(&p, false);
    page_cell(&p, &column, name);
    page_table_end(&p);
    assert_int_equal(page_end(&p), STATUS_OK);
    assert_int_equal(io_writer_commit(&w), STATUS_OK);
}

/* Of three bands one was seen with other bytes, one for longer, and one not at all. */
static void what_was_seen_otherwise_is_said(void **state) {
    (void)state;
    static const char *const categories[] = { "weights", "activations" }, *const phases[] = { "forward" };
    static const char *const said[] = { "observed 600 bytes, kernels 1 to 2",
                                        "observed 300 bytes, kernels 1 to 4", "not observed" };
    page_moment moments[4] = { { "add", 0, 0, 0 } };
    for (int i = 1; i < 4; i++) moments[i] = moments[0];
    page_band bands[3] = { { "a", NULL, NULL, 1, 0, 0, 0, 1, 500 },
                           { "b", NULL, NULL, 1, 0, 0, 0, 2, 300 },
                           { "c", NULL, NULL, 1, 0, 0, 0, 3, 200 } };
    page_seen seen[3] = { { 0, 1, 600 }, { 0, 3, 300 }, { 0, 0, 0 } };
    io_writer w;
    page p;
    page_bands m = { .name = "Memory", .group_word = "block", .moment_word = "kernel", .seen = seen };
    m.categories = categories, m.phases = m.parts = phases, m.category_count = 2;
    m.phase_count = m.part_count = 1, m.moments = moments, m.moment_count = 4, m.budget = UINT64_MAX;
    m.bands = bands, m.band_count = 3, m.most = 10;
    assert_int_equal(io_writer_open(&w, "seen.html"), STATUS_OK);
    page_begin(&p, &w, &(page_head){ "seen", "Seen.", NULL, false });
    page_put_bands(&p, &m);
    assert_int_equal(page_end(&p), STATUS_OK);
    assert_int_equal(io_writer_commit(&w), STATUS_OK);
    must(browser_open(b, "seen.html", (browser_view){ 0 }));
    asked(b, "document.querySelector('.plot').focus()");
    must(browser_key(b, "Home"));
    for (int i = 0, found[3] = { 0 }; i < 3; i++) {
        must(browser_key(b, "ArrowUp"));
        const char *words = asked(b, "document.querySelector('output').textContent");
        int which = words[0] - 'a';
        assert_true(which >= 0 && which < 3 && !found[which]++);
        if (!strstr(words, said[which])) fail_msg("%s, and not %s", words, said[which]);
    }
    /* Drawn: 900 bytes at two kernels, then 300, where 1,000 at most were planned. */
    must(browser_open(b, "seen.html", (browser_view){ .no_scripts = true }));
    struct json_object *line;
    must(browser_value(
        b, "document.querySelector('path.seen').getAttribute('d').match(/[\\d.]+/g).map(Number)", &line));
    double high = json_object_get_double(json_object_array_get_idx(line, 1));
    double middle = json_object_get_double(json_object_array_get_idx(line, 2));
    double low = json_object_get_double(json_object_array_get_idx(line, 3)), zero = 342,
           unit = (zero - high) / 900;
    assert_int_equal(json_object_array_length(line), 5);
    assert_true(middle == (84 + 988) / 2.0);
    assert_true(zero - low > 299 * unit && zero - low < 301 * unit);
    json_object_put(line);
}

/* The elements of a page, and their attributes' names. */
static const char elements[] =
    "[...document.querySelectorAll('*')].map(e=>e.tagName+[...e.attributes].map(a=>a.name).join()).join(' ')";

static void names_of_strangers_change_nothing(void **state) {
    (void)state;
    for (int scripts = 0; scripts < 2; scripts++) {
        for (size_t i = 0; i < sizeof hostile / sizeof *hostile; i++) {
            char usual[1 << 16], as_long[128]; /* labels depend on how long they are */
            snprintf(as_long, sizeof as_long, "%.*s", (int)strlen(hostile[i]),
                     "uuuuuuuuuuuuuuuuuuuuuuuuuuuuuuuuuuuuuuuuuuuuuuuuuuuuuuuuuuuuuuuuuuuuuuuuuuuuuuuuuuuuuuu"
                     "uuuuuuuu");
            write_page_of("usual.html", as_long);
            must(browser_open(b, "usual.html", (browser_view){ .no_scripts = !scripts }));
            snprintf(usual, sizeof usual, "%s", asked(b, elements));
            assert_true(strlen(usual) > 1000 && strlen(usual) < sizeof usual - 1);
            write_page_of("hostile.html", hostile[i]);
            must(browser_open(b, "hostile.html", (browser_view){ .no_scripts = !scripts }));
            check_quiet(b, "hostile.html");
            if (strcmp(usual, asked(b, elements)) != 0)
                fail_msg("%s has changed the page: %s\nand not %s", hostile[i], asked(b, elements), usual);
        }
    }
    write_page_of("hostile.html", HOSTILE); /* is there, as it is */
    must(browser_open(b, "hostile.html", (browser_view){ 0 }));
    assert_string_equal(asked(b, "document.title"), HOSTILE);
    assert_string_equal(asked(b, "document.querySelector('h1').textContent"), HOSTILE);
    assert_string_equal(asked(b, "document.querySelector('h2').textContent"), HOSTILE);
}

/* Folders that spell markup. */
static void a_model_of_a_hostile_name_is_planned(void **state) {
    (void)state;
    command_shell("mkdir -p 'x<script>alert(1)<' && cp -r tiny 'x<script>alert(1)</script>' && "
                  "cp -r tiny '<img src=x onerror=alert(1)>'");
    struct json_object *said =
        json_of(0, "plan x<script>alert(1)</script> --batch 2 --json --html plan.html");
    check_page_soon(b, "plan.html");
    check_memory(b, 1, member(said, "predicted"));
    json_object_put(said);
}

/* ---- the page's own policy ---- */

static void plant(const char *markup) {
    char *page_text = read_page("plan.html"), *at = strstr(page_text, "</main>");
    assert_non_null(at);
    FILE *f = fopen("planted.html", "wb");
    assert_non_null(f);
    fprintf(f, "%.*s%s%s", (int)(at - page_text), page_text, markup, at);
    fclose(f);
    free(page_text);
}

/* Whoever got markup into a page could neither run nor fetch. */
static void the_policy_forbids_what_is_planted(void **state) {
    (void)state;
    static const char *const planted[] = {
        "<script>document.title='planted'</script>",
        "<img src='http://planted.invalid/a.png'>",
        "<img src='x' onerror='document.title=\"planted\"'>",
        "<p style='position:fixed'>x</p>",
        "<style>body{background:red}</style>",
        "<link rel='stylesheet' href='planted.css'>",
        "<iframe src='plan.html'></iframe>",
        "<object data='plan.html'></object>",
    };
    json_object_put(json_of(0, "plan tiny --batch 2 --json --html plan.html"));
    for (size_t i = 0; i < sizeof planted / sizeof *planted; i++) {
        plant(planted[i]);
        must(browser_open(b, "planted.html", (browser_view){ 0 }));
        must(browser_listen(b, 0.05));
        if (!strstr(json_line(browser_complaints(b)), "Content Security Policy"))
            fail_msg("%s: is not forbidden: %s", planted[i], json_line(browser_complaints(b)));
        assert_string_not_equal(asked(b, "document.title"), "planted");
    }
}

/* ---- the checks themselves ---- */

static void low_contrast_is_found(void **state) {
    (void)state;
    char where[256];
    static const char html[] = "<!doctype html><body style='background:#fff'><p>black on white"
                               "<div style='background:#1b1e24'><p style='color:%s'>planted</div>";
    static const struct {
        const char *colour;
        double least, most;
    } cases[] = { { "#e8e9ed", 13, 21 }, { "#777", 3.6, 3.9 }, { "rgba(232,233,237,.3)", 2, 3.2 } };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        char shown[512];
        snprintf(shown, sizeof shown, html, cases[i].colour);
        scratch_write("contrast.html", shown, strlen(shown));
        must(browser_open(b, "contrast.html", (browser_view){ 0 }));
        double ratio = page_contrast(b, where, sizeof where);
        if (ratio < cases[i].least || ratio > cases[i].most) fail_msg("%s: %.2f", cases[i].colour, ratio);
        if (i) assert_non_null(strstr(where, "planted"));
    }
}

/* ---- many bands ---- */

enum { MANY = 100000, MOMENTS = 20000 };

/* Lives of all lengths, as many alive at the peak as a large step has. */
static void write_many(const char *file) {
    static page_band bands[MANY];
    static page_moment moments[MOMENTS];
    static char names[MANY][24];
    static const char *const categories[] = { "weights", "gradients", "activations", "temporaries" };
    static const char *const phases[] = { "forward", "backward" };
    static const char *const parts[] = { "step" };
    uint64_t seed = 7;
    for (uint32_t i = 0; i < MOMENTS; i++)
        moments[i] = (page_moment){ "matmul", (int32_t)(i % 96), i >= MOMENTS / 2, 0 };
    for (uint32_t i = 0; i < MANY; i++) {
        uint32_t first = scratch_random(&seed) % MOMENTS, length = 1u << scratch_random(&seed) % 14;
        snprintf(names[i], sizeof names[i], "tensor %u", i);
        bands[i] = (page_band){ .name = names[i],
                                .form = "(8,256,768) f32",
                                .from = "matmul",
                                .category = (uint8_t)(scratch_random(&seed) % 4),
                                .group = (int32_t)(scratch_random(&seed) % 96),
                                .first = first,
                                .last = first + length < MOMENTS ? first + length : MOMENTS - 1,
                                .bytes = 64 * (1 + scratch_random(&seed) % 4096) };
    }
    io_writer w;
    page p;
    assert_int_equal(io_writer_open(&w, file), STATUS_OK);
    page_begin(&p, &w, &(page_head){ "many", "Many bands.", NULL, false });
    page_section(&p, "Memory");
    page_put_bands(&p, &(page_bands){ .name = "Memory over the step",
                                      .categories = categories,
                                      .category_count = 4,
                                      .phases = phases,
                                      .phase_count = 2,
                                      .parts = parts,
                                      .part_count = 1,
                                      .group_word = "block",
                                      .moment_word = "kernel",
                                      .moments = moments,
                                      .moment_count = MOMENTS,
                                      .bands = bands,
                                      .band_count = MANY,
                                      .budget = UINT64_MAX,
                                      .peak = MOMENTS / 2,
                                      .most = MANY });
    assert_int_equal(page_end(&p), STATUS_OK);
    assert_int_equal(io_writer_commit(&w), STATUS_OK);
}

static int by_size(const void *x, const void *y) {
    const double *p = x, *q = y;
    return (*p > *q) - (*p < *q);
}

static void many_bands_are_answered_at_once(void **state) {
    (void)state;
    enum { MOVES = 25 };
    double seconds[MOVES], ready = 9;
    write_many("many.html");
    for (int i = 0; i < 4 && ready > 1; i++) { /* others may have the processors: page_checks.c */
        must(browser_open(b, "many.html", (browser_view){ 0 }));
        if (browser_ready_seconds(b) < ready) ready = browser_ready_seconds(b);
    }
    double work = browser_ready_work(b);
    check_quiet(b, "many.html");
    check_pointing(b, 1);
    struct json_object *place;
    must(browser_value(b,
                       "(()=>{const r=document.querySelector('#chart1 .plot').getBoundingClientRect();"
                       "return[r.x,r.y,r.width,r.height]})()",
                       &place));
    double p[4];
    for (size_t i = 0; i < 4; i++) p[i] = json_object_get_double(json_object_array_get_idx(place, i));
    json_object_put(place);
    for (int i = 0; i < MOVES; i++)
        must(browser_point(b, p[0] + p[2] * (0.15 + 0.03 * i), p[1] + p[3] * (0.2 + 0.02 * i), &seconds[i]));
    qsort(seconds, MOVES, sizeof *seconds, by_size);
    print_message(
        "%d bands: %ld bytes, ready in %.0f ms (%.0f ms of a processor), the pointer is answered in "
        "%.1f ms (median), %.1f ms (most)\n",
        MANY, size_of("many.html"), 1000 * ready, 1000 * work, 1000 * seconds[MOVES / 2],
        1000 * seconds[MOVES - 1]);
    assert_true(ready <= 1 || work <= 1);
    assert_true(seconds[MOVES / 2] <= 0.05);
}

static int open_all(void **state) {
    if (browser_tests_open(state, &b) != 0) return -1;
    command_make_files();
    return 0;
}

static int close_all(void **state) { return browser_tests_close(state, b); }

int main(void) {
    if (!browser_can_be_tested()) return browser_needed();
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(low_contrast_is_found),
        cmocka_unit_test(a_plan_is_told_as_json_tells_it),
        cmocka_unit_test(a_profile_is_told_as_json_tells_it),
        cmocka_unit_test(a_run_is_told_as_json_tells_it),
        cmocka_unit_test(what_was_seen_otherwise_is_said),
        cmocka_unit_test(it_answers_without_scripts),
        cmocka_unit_test(names_of_strangers_change_nothing),
        cmocka_unit_test(a_model_of_a_hostile_name_is_planned),
        cmocka_unit_test(the_policy_forbids_what_is_planted),
        cmocka_unit_test(many_bands_are_answered_at_once),
    };
    return cmocka_run_group_tests(tests, open_all, close_all);
}
