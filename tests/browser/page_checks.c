/* Pages as people have them: shown, heard, read, pointed at. */
#define _GNU_SOURCE
#include "browser/page_checks.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdint.h>

#include <cmocka.h>

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "browser/browser_checks.h"

/* ---- contrast ---- */

/* Every text that is drawn, with its colour over the nearest colours behind it (WCAG 2.2, 1.4.3): an
 * element's opacity counts for its text. */
static const char contrast[] =
    "(()=>{const parse=s=>{const m=s.match(/[\\d.]+/g).map(Number);if(s.startsWith('color('))for(let "
    "i=0;i<3;i++)"
    "m[i]*=255;return[m[0],m[1],m[2],m.length>3?m[3]:1]};"
    "const over=(a,b)=>{const k=a[3];return[0,1,2].map(i=>a[i]*k+b[i]*(1-k)).concat(1)};"
    "const back=e=>{const list=[];for(;e;e=e.parentElement){const c=getComputedStyle(e).backgroundColor;"
    "if(c&&c!=='transparent')list.push(parse(c))}"
    "return list.reverse().reduce((b,c)=>over(c,b),[255,255,255,1])};"
    "const light=c=>{const v=c.slice(0,3).map(x=>(x/=255)<=.04045?x/12.92:((x+.055)/1.055)**2.4);"
    "return .2126*v[0]+.7152*v[1]+.0722*v[2]};let least=99,where='';"
    "const walk=document.createTreeWalker(document.body,NodeFilter.SHOW_TEXT);"
    "for(let t=walk.nextNode();t;t=walk.nextNode()){const e=t.parentElement,s=getComputedStyle(e);"
    "if(!t.data.trim()||/^(script|style)$/i.test(e.tagName)||!e.checkVisibility())continue;"
    "const ground=back(e),c=parse(e instanceof SVGElement?s.fill:s.color);"
    "for(let q=e;q;q=q.parentElement)c[3]*=Number(getComputedStyle(q).opacity);"
    "const a=light(over(c,ground)),d=light(ground),ratio=(Math.max(a,d)+.05)/(Math.min(a,d)+.05);"
    "if(ratio<least){least=ratio;where=e.tagName+' "
    "\"'+t.data.trim().slice(0,60)+'\"'}}return[least,where]})()";

double page_contrast(browser *b, char *where, size_t bytes) {
    struct json_object *value;
    must(browser_value(b, contrast, &value));
    double ratio = json_object_get_double(json_object_array_get_idx(value, 0));
    snprintf(where, bytes, "%s", json_object_get_string(json_object_array_get_idx(value, 1)));
    json_object_put(value);
    return ratio;
}

static void check_contrast(browser *b) {
    char where[256];
    double ratio = page_contrast(b, where, sizeof where);
    if (ratio < 4.5) fail_msg("the contrast of %s is %.2f", where, ratio);
}

/* ---- names ---- */

/* All strings of a list that an expression gives are names of this role (NULL: any). */
static int check_each_named(browser *b, struct json_object *tree, const char *role, const char *expression) {
    struct json_object *names;
    must(browser_value(b, expression, &names));
    int count = (int)json_object_array_length(names);
    for (int i = 0; i < count; i++) {
        const char *name = json_object_get_string(json_object_array_get_idx(names, (size_t)i));
        if (!*name || browser_named(tree, role, name) < 1)
            fail_msg("no %s has the name \"%s\"", role ? role : "element", name);
    }
    json_object_put(names);
    return count;
}

void check_names(browser *b) {
    static const char *const named[] = { "image", "application", "button", "figure",
                                         "table", "region",      "group" };
    struct json_object *tree;
    must(browser_tree(b, &tree));
    int charts = check_each_named(
        b, tree, "figure",
        "[...document.querySelectorAll('figure.chart')].map(f=>f.querySelector('figcaption').textContent)");
    int tables = check_each_named(
        b, tree, "table",
        "[...document.querySelectorAll('table')].map(t=>t.caption?t.caption.textContent:'')");
    if (charts < 1 || tables < charts) fail_msg("%d charts have %d tables", charts, tables);
    for (size_t i = 0; i < json_object_array_length(tree); i++) {
        struct json_object *one = json_object_array_get_idx(tree, i), *role, *name;
        if (!json_object_object_get_ex(one, "role", &role)) continue;
        bool given = json_object_object_get_ex(one, "name", &name) && *json_object_get_string(name);
        for (size_t k = 0; !given && k < sizeof named / sizeof *named; k++)
            if (strcmp(json_object_get_string(role), named[k]) == 0) fail_msg("a %s has no name", named[k]);
    }
    json_object_put(tree);
}

/* ---- all of it ---- */

void check_quiet(browser *b, const char *file) {
    must(browser_listen(b, 0.03));
    expect_no_complaint(b);
    expect_one_request(b, file);
}

static void check_window(browser *b) {
    browser_picture p;
    must(browser_look(b, NULL, &p));
    if (p.colours < 8 || p.commonest > 0.97) fail_msg("the page is blank");
}

void check_drawn(browser *b) {
    browser_picture p;
    char selector[64];
    int charts = atoi(asked(b, "document.querySelectorAll('figure.chart').length"));
    check_window(b);
    for (int i = 1; i <= charts; i++) {
        snprintf(selector, sizeof selector, "#chart%d .plot", i);
        must(browser_look(b, selector, &p));
        if (p.colours < 8 || p.commonest > 0.995) fail_msg("chart %d is blank", i);
    }
}

/* Nothing but what scrolls by itself is wider than the window. */
static void check_width(browser *b) {
    const char *said = asked(b, "document.documentElement.scrollWidth-innerWidth");
    if (atoi(said) > 0) fail_msg("the page is %s pixels wider than its window", said);
}

typedef struct {
    browser_view view;
    bool thorough; /* a picture of each chart, and all names, which takes longest */
} looked;

/* Within a second by the clock; where others have the processors and it never is, by what it had of them. */
static void check_ready(browser *b, const char *file, browser_view view) {
    for (int i = 0; browser_ready_seconds(b) > 1; i++) {
        if (i == 3 && browser_ready_work(b) <= 1) return;
        if (i == 3) fail_msg("%s is ready after %.2f s", file, browser_ready_seconds(b));
        must(browser_open(b, file, view));
    }
}

static void check_view(browser *b, const char *file, const looked *l) {
    must(browser_open(b, file, l->view));
    check_quiet(b, file);
    if (l->thorough) check_names(b);
    check_contrast(b);
    if (l->thorough)
        check_drawn(b);
    else
        check_window(b);
    if (!l->view.print) check_width(b);
    if (!l->view.print && !l->view.no_scripts)
        assert_string_equal(asked(b, "document.documentElement.dataset.ready"), "yes");
    if (!l->view.print) check_ready(b, file, l->view);
}

void check_page(browser *b, const char *file) {
    static const looked views[] = {
        { { 0 }, true },
        { { .dark = true }, false },
        { { .width = 360, .height = 740 }, false },
        { { .width = 360, .height = 740, .dark = true }, true },
        { { .no_scripts = true }, true },
        { { .no_scripts = true, .dark = true, .width = 360, .height = 740 }, false },
        { { .print = true }, false },
    };
    for (size_t i = 0; i < sizeof views / sizeof *views; i++) check_view(b, file, &views[i]);
}

void check_page_soon(browser *b, const char *file) {
    check_view(b, file,
               &(looked){ { .no_scripts = true, .width = 360, .height = 740, .dark = true }, false });
    check_view(b, file, &(looked){ { 0 }, true });
}

/* ---- memory ---- */

int page_chart(browser *b, const char *name) {
    char expression[256];
    snprintf(expression, sizeof expression,
             "1+[...document.querySelectorAll('figure.chart')].findIndex("
             "f=>f.querySelector('figcaption').textContent==='%s')",
             name);
    int chart = atoi(asked(b, expression));
    if (chart < 1) fail_msg("there is no chart %s", name);
    return chart;
}

struct json_object *page_data(browser *b, int chart) {
    char expression[128];
    struct json_object *data;
    snprintf(expression, sizeof expression,
             "JSON.parse(document.querySelector('#chart%d script').textContent)", chart);
    must(browser_value(b, expression, &data));
    return data;
}

static struct json_object *list_of(struct json_object *data, const char *key) {
    struct json_object *list = NULL;
    if (!json_object_object_get_ex(data, key, &list)) fail_msg("the numbers of the chart lack %s", key);
    return list;
}

static int64_t at(struct json_object *list, size_t i) {
    return json_object_get_int64(json_object_array_get_idx(list, i));
}

enum { NAME, CATEGORY = 3, BYTES = 6, FIRST, LAST };

uint64_t page_bytes_at(struct json_object *data, int64_t moment, uint32_t category) {
    int64_t sum = 0;
    struct json_object *base = list_of(data, "base"), *bands = list_of(data, "bands");
    for (size_t i = 0; i < json_object_array_length(base); i++) {
        struct json_object *x = json_object_array_get_idx(base, i);
        if (at(x, CATEGORY) == category) sum += at(x, BYTES);
    }
    for (size_t i = 0; i < json_object_array_length(bands); i++) {
        struct json_object *x = json_object_array_get_idx(bands, i);
        if (at(x, CATEGORY) == category && at(x, FIRST) <= moment && moment <= at(x, LAST))
            sum += at(x, BYTES);
    }
    struct json_object *gathered = list_of(data, "gathered");
    for (size_t i = 0; i < json_object_array_length(gathered); i++) {
        struct json_object *x = json_object_array_get_idx(gathered, i), *stairs = list_of(x, "stairs");
        if (json_object_object_get_ex(x, "seen", NULL)) continue; /* as it was observed */
        int64_t now = 0;
        if (json_object_get_int64(list_of(x, "category")) != category) continue;
        for (size_t k = 0; k + 2 < json_object_array_length(stairs) && at(stairs, k) <= moment; k += 3)
            now = at(stairs, k + 1);
        sum += now;
    }
    return (uint64_t)sum;
}

static bool is_band(struct json_object *data, struct json_object *x, const char *name, int64_t bytes) {
    struct json_object *words = list_of(data, "words");
    const char *word = json_object_get_string(json_object_array_get_idx(words, (size_t)at(x, NAME)));
    return at(x, BYTES) == bytes && strcmp(word, name) == 0;
}

bool page_has_band(struct json_object *data, int64_t moment, const char *name, int64_t bytes) {
    struct json_object *base = list_of(data, "base"), *bands = list_of(data, "bands");
    for (size_t i = 0; i < json_object_array_length(base); i++)
        if (is_band(data, json_object_array_get_idx(base, i), name, bytes)) return true;
    for (size_t i = 0; i < json_object_array_length(bands); i++) {
        struct json_object *x = json_object_array_get_idx(bands, i);
        if (at(x, FIRST) <= moment && moment <= at(x, LAST) && is_band(data, x, name, bytes)) return true;
    }
    return false;
}

const char *page_counted(uint64_t n, char out[40]) {
    char digits[24];
    int length = snprintf(digits, sizeof digits, "%llu", (unsigned long long)n), k = 0;
    for (int i = 0; i < length; i++) {
        if (i && (length - i) % 3 == 0) out[k++] = ',';
        out[k++] = digits[i];
    }
    out[k] = 0;
    return out;
}

/* The row of the table that is marked has the peak's bytes, category by category behind "in use". */
static void check_row(browser *b, int chart, struct json_object *categories, struct json_object *expected,
                      uint64_t in_use) {
    char expression[256], number[40];
    struct json_object *cells;
    snprintf(
        expression, sizeof expression,
        "(()=>{const f=document.querySelector('#chart%d'),r=f.querySelector('tr.mark'),o={};"
        "[...f.querySelectorAll('th')].forEach((h,i)=>o[h.textContent]=r.cells[i].textContent);return o})()",
        chart);
    must(browser_value(b, expression, &cells));
    assert_string_equal(json_object_get_string(list_of(cells, "in use")), page_counted(in_use, number));
    for (size_t k = 0; k < json_object_array_length(categories); k++) {
        const char *name = json_object_get_string(json_object_array_get_idx(categories, k));
        if (strcmp(name, "gaps") == 0) continue; /* are beside what is in use */
        uint64_t bytes = (uint64_t)json_object_get_int64(list_of(expected, name));
        if (!bytes && !json_object_object_get_ex(cells, name, NULL)) continue; /* no bytes at any kernel */
        assert_string_equal(json_object_get_string(list_of(cells, name)), page_counted(bytes, number));
    }
    json_object_put(cells);
}

void check_memory(browser *b, int chart, struct json_object *predicted) {
    struct json_object *data = page_data(b, chart), *categories = list_of(data, "categories");
    struct json_object *expected = list_of(predicted, "by_category");
    int64_t peak = json_object_get_int64(list_of(data, "peak"));
    uint64_t all = (uint64_t)json_object_get_int64(list_of(predicted, "peak_bytes")), sum = 0;
    uint64_t gaps = (uint64_t)json_object_get_int64(list_of(expected, "gaps"));
    for (uint32_t k = 0; k < json_object_array_length(categories); k++) {
        const char *name = json_object_get_string(json_object_array_get_idx(categories, k));
        uint64_t bytes = page_bytes_at(data, peak, k);
        sum += bytes;
        if (strcmp(name, "gaps") == 0)
            assert_int_equal(bytes, 0);
        else
            assert_int_equal(bytes, json_object_get_int64(list_of(expected, name)));
    }
    assert_int_equal(sum + gaps, all);
    assert_int_equal(at(list_of(data, "held"), 0), all);
    check_row(b, chart, categories, expected, all - gaps);
    char expression[128];
    snprintf(expression, sizeof expression, "document.querySelector('#chart%d .plot').focus()", chart);
    asked(b, expression);
    must(browser_key(b, "Home"));
    must(browser_key(b, "p"));
    snprintf(expression, sizeof expression, "+document.querySelector('#chart%d .plot').dataset.used", chart);
    assert_int_equal(strtoull(asked(b, expression), NULL, 10), all - gaps);
    json_object_put(data);
}

/* ---- pointing ---- */

/* What is said of the band that is chosen: false where none is. */
static bool check_said(browser *b, int chart, struct json_object *data) {
    char expression[256], number[40], name[512];
    snprintf(expression, sizeof expression,
             "(()=>{const p=document.querySelector('#chart%d .plot').dataset;"
             "return[p.band,+p.bytes,+p.moment,document.querySelector('#chart%d-said').textContent]})()",
             chart, chart);
    struct json_object *said;
    must(browser_value(b, expression, &said));
    snprintf(name, sizeof name, "%s", json_object_get_string(json_object_array_get_idx(said, 0)));
    const char *words = json_object_get_string(json_object_array_get_idx(said, 3));
    int64_t bytes = at(said, 1), moment = at(said, 2);
    bool chosen = *name && !strstr(name, " small ones");
    if (chosen && !page_has_band(data, moment, name, bytes))
        fail_msg("no band %s of %lld bytes is there at kernel %lld", name, (long long)bytes,
                 (long long)moment);
    if (chosen && !(strstr(words, name) && strstr(words, page_counted((uint64_t)bytes, number))))
        fail_msg("of %s, %lld bytes, is said: %s", name, (long long)bytes, words);
    json_object_put(said);
    return chosen;
}

void check_pointing(browser *b, int chart) {
    struct json_object *data = page_data(b, chart), *place;
    char expression[192];
    int by_keys = 0, by_pointer = 0;
    snprintf(
        expression, sizeof expression,
        "(()=>{const p=document.querySelector('#chart%d .plot');p.scrollIntoView({block:'center'});p.focus();"
        "const r=p.getBoundingClientRect();return[r.x,r.y,r.width,r.height]})()",
        chart);
    must(browser_value(b, expression, &place));
    double at_place[4];
    for (size_t i = 0; i < 4; i++) at_place[i] = json_object_get_double(json_object_array_get_idx(place, i));
    json_object_put(place);
    must(browser_key(b, "Escape"));
    must(browser_key(b, "p"));
    for (int i = 0; i < 8; i++) {
        must(browser_key(b, "ArrowUp"));
        by_keys += check_said(b, chart, data);
    }
    for (int i = 0; i < 12; i++) {
        must(browser_key(b, i < 6 ? "ArrowLeft" : "ArrowRight"));
        check_said(b, chart, data);
    }
    for (int i = 0; i < 24; i++) {
        double x = at_place[0] + at_place[2] * (0.3 + 0.1 * (i % 6)),
               y = at_place[1] + at_place[3] * (0.15 + 0.03 * i);
        must(browser_point(b, x, y, NULL));
        by_pointer += check_said(b, chart, data);
    }
    json_object_put(data);
    if (by_keys < 4 || by_pointer < 4) fail_msg("keys said %d bands, the pointer %d", by_keys, by_pointer);
}
