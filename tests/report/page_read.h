/* Reads a page as strictly as it is written: what is no markup of ours fails the test. Included after
 * cmocka.h. */
#pragma once

#include <ctype.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/sha256.h"
#include "base/utf8.h"
#include "io/json.h"

/* ---- markup ---- */

static inline bool page_read_is(const char *name, const char *const *list) {
    for (; *list; list++)
        if (strcmp(name, *list) == 0) return true;
    return false;
}

/* Behind the attributes of a tag: each is a name, or a name and a value in double quotes. `*closed`: it ends
 * in
 * "/>". */
static inline const char *page_read_attributes(const char *s, bool *closed) {
    *closed = false;
    for (;;) {
        while (isspace((unsigned char)*s)) s++;
        if (*s == '>') return s + 1;
        if (s[0] == '/' && s[1] == '>') {
            *closed = true;
            return s + 2;
        }
        const char *name = s;
        while (isalnum((unsigned char)*s) || *s == '-' || *s == ':') s++;
        if (s == name) fail_msg("no attribute: %.60s", name);
        if (name[0] == 'o' && name[1] == 'n') fail_msg("a handler in markup: %.60s", name);
        for (const char *bad[] = { "style", "src", "href", "srcdoc", "action", NULL }, **b = bad; *b; b++)
            if ((size_t)(s - name) == strlen(*b) && memcmp(name, *b, strlen(*b)) == 0)
                fail_msg("an attribute that no page has: %.60s", name);
        if (*s != '=') continue;
        if (s[1] != '"') fail_msg("a value without quotes: %.60s", name);
        for (s += 2; *s && *s != '"'; s++)
            if (*s == '<') fail_msg("a '<' in a value: %.60s", name);
        if (!*s++) fail_msg("a value without end: %.60s", name);
    }
}

enum { PAGE_READ_DEPTH = 64 };
typedef struct {
    char open[PAGE_READ_DEPTH][24];
    int depth;
    uint32_t elements;
} page_read_stack;

static inline void page_read_push(page_read_stack *t, const char *name) {
    if (t->depth == PAGE_READ_DEPTH) fail_msg("too deep: <%s>", name);
    snprintf(t->open[t->depth++], sizeof *t->open, "%s", name);
}

/* Cells and rows of tables end with the next, or with their table's part. */
static inline void page_read_imply(page_read_stack *t, const char *name, bool ends) {
    static const char *const cells[] = { "td", NULL }, *const rows[] = { "td", "tr", NULL };
    const char *const *over = strcmp(name, "td") == 0 && !ends     ? cells
                              : strcmp(name, "tr") == 0 && !ends   ? rows
                              : strcmp(name, "tbody") == 0 && ends ? rows
                                                                   : NULL;
    while (over && t->depth && page_read_is(t->open[t->depth - 1], over)) t->depth--;
}

/* A text between tags: every '&' begins one of the five entities that are written. */
static inline void page_read_text(const char *from, const char *to) {
    static const char *const entities[] = { "&amp;", "&lt;", "&gt;", "&quot;", "&#39;" };
    for (const char *s = from; s < to; s++) {
        bool known = *s != '&';
        for (size_t i = 0; i < sizeof entities / sizeof *entities && !known; i++)
            known = strncmp(s, entities[i], strlen(entities[i])) == 0;
        if (!known) fail_msg("no entity: %.20s", s);
        if (*s == '>') fail_msg("a bare '>': %.60s", from);
    }
}

static inline void page_read_bytes(const char *html) {
    size_t left = strlen(html);
    for (const char *s = html; left;) {
        size_t length = utf8_length(s, left);
        if (!length) fail_msg("no UTF-8: %.20s", s);
        if (length == 1 && (unsigned char)*s < ' ' && *s != '\n') fail_msg("a control character: %.20s", s);
        s += length, left -= length;
    }
}

/* Fails unless every element is closed in its order, quoted and of these names. Returns how many there are.
 */
static inline uint32_t page_read_markup(const char *html) {
    static const char *const raw[] = { "script", "style", NULL };
    static const char *const known[] = {
        "html",   "head",       "meta",   "title",   "style", "body",   "header", "p",    "h1",
        "main",   "section",    "h2",     "h3",      "div",   "dl",     "dt",     "dd",   "b",
        "span",   "svg",        "defs",   "pattern", "path",  "circle", "rect",   "text", "g",
        "figure", "figcaption", "table",  "caption", "thead", "tbody",  "tr",     "th",   "td",
        "ul",     "li",         "footer", "script",  "a",     "pre",    "code",   NULL
    };
    page_read_stack t = { 0 };
    const char *start = "<!DOCTYPE html>\n";
    page_read_bytes(html);
    assert_memory_equal(html, start, strlen(start));
    for (const char *s = html + strlen(start); *s;) {
        const char *tag = strchr(s, '<');
        if (!tag) tag = s + strlen(s);
        page_read_text(s, tag);
        if (!*tag) break;
        bool ends = tag[1] == '/', closed;
        char name[24] = "";
        s = tag + 1 + ends;
        for (size_t i = 0; i + 1 < sizeof name && isalnum((unsigned char)*s); i++) name[i] = *s++;
        if (!page_read_is(name, known)) fail_msg("no element of a page: %.40s", tag);
        page_read_imply(&t, name, ends);
        if (ends) {
            if (*s++ != '>') fail_msg("no end of an element: %.40s", tag);
            if (!t.depth || strcmp(t.open[--t.depth], name) != 0)
                fail_msg("</%s> where <%s> is open: %.60s", name, t.open[t.depth], tag);
            continue;
        }
        s = page_read_attributes(s, &closed);
        t.elements++;
        if (closed) continue;
        page_read_push(&t, name);
        if (!page_read_is(name, raw)) continue;
        char end[32];
        snprintf(end, sizeof end, "</%s", name);
        s = strstr(s, end);
        if (!s) fail_msg("<%s> without end", name);
    }
    if (t.depth) fail_msg("<%s> is open at the end", t.open[t.depth - 1]);
    return t.elements;
}

/* ---- policy ---- */

static inline void page_read_hash(const char *html, const char *open, const char *close, const char *of) {
    char source[SHA256_SOURCE_BYTES], wanted[SHA256_SOURCE_BYTES + 32];
    const char *from = strstr(html, open), *to = from ? strstr(from, close) : NULL;
    if (!to) fail_msg("no %s", open);
    from += strlen(open);
    snprintf(wanted, sizeof wanted, "%s 'sha256-", of);
    const char *policy = strstr(html, wanted);
    sha256_source(from, (size_t)(to - from), source);
    if (!policy || strncmp(policy + strlen(of) + 2, source, strlen(source)) != 0)
        fail_msg("the policy's hash is not that of %s", open);
}

/* Nothing may be fetched, and what is carried is named by its hash. */
static inline void page_read_policy(const char *html) {
    const char *policy = strstr(html, "Content-Security-Policy"), *head = strstr(html, "</head>");
    assert_non_null(policy);
    assert_true(policy < strstr(html, "<style>") && policy < head);
    assert_non_null(strstr(html, "content=\"default-src 'none'; script-src 'sha256-"));
    assert_null(strstr(html, "'unsafe-"));
    page_read_hash(html, "<style>", "</style>", "style-src");
    page_read_hash(html, "<script>", "</script>", "script-src");
}

/* ---- data ---- */

/* The data of chart number `which` of this kind ("bands"), from 0 on; fails where there is none. Close it. */
static inline json_document page_read_data(const char *html, const char *kind, int which) {
    static const char begin[] = "<script type=\"application/json\">";
    char mark[64];
    json_document d;
    snprintf(mark, sizeof mark, "data-kind=\"%s\"", kind);
    const char *at = html;
    for (int i = 0; i <= which; i++) {
        at = strstr(at, mark);
        if (!at) fail_msg("no chart %d of kind %s", which, kind);
        at += strlen(mark);
    }
    at = strstr(at, begin);
    assert_non_null(at);
    at += strlen(begin);
    const char *end = strstr(at, "</script>");
    assert_non_null(end);
    for (const char *s = at; s < end; s++)
        if (*s == '<') fail_msg("a '<' in the data: %.40s", s);
    if (json_parse_within("page", at, (size_t)(end - at), UINT64_MAX, &d) != STATUS_OK)
        fail_msg("%s", status_message());
    return d;
}

static inline json_value page_read_at(json_value v, const char *key) {
    json_value x = { 0 };
    if (json_get(v, key, &x) != STATUS_OK) fail_msg("%s", status_message());
    return x;
}
static inline size_t page_read_count(json_value v) {
    size_t n = 0;
    if (json_as_array(v, &n) != STATUS_OK) fail_msg("%s", status_message());
    return n;
}
static inline int64_t page_read_whole(json_value v) {
    int64_t x = 0;
    if (json_as_integer(v, INT64_MIN, INT64_MAX, &x) != STATUS_OK) fail_msg("%s", status_message());
    return x;
}

/* Of a chart of bands: bytes by moment and category, what is free left out. Free it. */
typedef struct {
    size_t moments, categories;
    uint64_t *bytes;
} page_read_sums;

static inline void page_read_add(page_read_sums *s, int64_t k, const int64_t life[2], int64_t bytes) {
    assert_true(k >= 0 && (size_t)k < s->categories && life[0] >= 0 && life[0] <= life[1]);
    assert_true((size_t)life[1] < s->moments && bytes >= 0);
    for (int64_t m = life[0]; m <= life[1]; m++)
        s->bytes[(size_t)m * s->categories + (size_t)k] += (uint64_t)bytes;
}

static inline page_read_sums page_read_bands(const json_document *d) {
    page_read_sums s = { page_read_count(page_read_at(d->root, "moments")),
                         page_read_count(page_read_at(d->root, "categories")), NULL };
    s.bytes = calloc(s.moments * s.categories + 1, sizeof *s.bytes);
    assert_non_null(s.bytes);
    json_value base = page_read_at(d->root, "base"), bands = page_read_at(d->root, "bands"),
               gathered = page_read_at(d->root, "gathered");
    const int64_t always[] = { 0, (int64_t)s.moments - 1 };
    for (size_t i = 0; i < page_read_count(base); i++) {
        json_value x = json_item(base, i);
        page_read_add(&s, page_read_whole(json_item(x, 3)), always, page_read_whole(json_item(x, 6)));
    }
    for (size_t i = 0; i < page_read_count(bands); i++) {
        json_value x = json_item(bands, i);
        const int64_t life[] = { page_read_whole(json_item(x, 7)), page_read_whole(json_item(x, 8)) };
        page_read_add(&s, page_read_whole(json_item(x, 3)), life, page_read_whole(json_item(x, 6)));
    }
    for (size_t i = 0; i < page_read_count(gathered); i++) {
        json_value g = json_item(gathered, i), stairs = page_read_at(g, "stairs");
        size_t n = json_has(g, "seen") ? 0 : page_read_count(stairs);
        for (size_t k = 0; k < n; k += 3) {
            int64_t from = page_read_whole(json_item(stairs, k)),
                    bytes = page_read_whole(json_item(stairs, k + 1));
            int64_t to = k + 3 < n ? page_read_whole(json_item(stairs, k + 3)) : (int64_t)s.moments;
            if (from < to)
                page_read_add(&s, page_read_whole(page_read_at(g, "category")),
                              (const int64_t[]){ from, to - 1 }, bytes);
        }
    }
    return s;
}
