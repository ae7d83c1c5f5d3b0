#include "text/template/filter.h"

#include <stdlib.h>
#include <string.h>

#include "text/template/words.h"

static const filter_row *row(uint32_t place) {
    uint32_t texts = 0;
    while (filter_of_texts[texts].name) texts++;
    return place <= texts ? &filter_of_texts[place - 1] : &filter_of_lists[place - 1 - texts];
}

static uint32_t find(const filter_row *rows, const char *name, uint32_t length, uint32_t *count) {
    uint32_t found = 0;
    for (*count = 0; rows[*count].name; ++*count)
        if (strlen(rows[*count].name) == length && memcmp(rows[*count].name, name, length) == 0)
            found = *count + 1;
    return found;
}

uint32_t filter_find(const char *name, uint32_t length) {
    uint32_t texts, lists, found = find(filter_of_texts, name, length, &texts);
    if (found) return found;
    found = find(filter_of_lists, name, length, &lists);
    return found ? texts + found : 0;
}

status filter_apply(run *r, uint32_t which, const arguments *a, value *out) {
    const filter_row *f = row(which);
    arguments named = *a;
    named.name = f->name;
    if (!f->apply) return status_set(STATUS_INVALID, "the filter %s is not supported", f->name);
    return f->apply(r, &named, out);
}

status filter_by_name(run *r, const value *name, const arguments *a, value *out) {
    uint32_t which = name->kind == VALUE_TEXT ? filter_find(name->text->bytes, name->text->length) : 0;
    if (!which) return status_set(STATUS_INVALID, "there is no filter of the name that is asked for");
    return filter_apply(r, which, a, out);
}

status filter_ignore_case(run *r, value *v) {
    value of = *v;
    return of.kind == VALUE_TEXT ? words_change(r, &of, WORDS_LOWER, v) : STATUS_OK;
}

static status reach_part(run *r, const char *part, size_t length, const value *otherwise, value *item) {
    value key, found;
    char digits[24];
    if (length && length < sizeof digits && strspn(part, "0123456789") >= length) {
        memcpy(digits, part, length);
        digits[length] = 0;
        key = value_integer(strtoll(digits, NULL, 10));
    } else
        TRY(value_text_copy(r, part, length, &key));
    TRY(run_get_item(r, item, &key, &found));
    bool missing = found.kind == VALUE_UNDEFINED && run_given(otherwise) && otherwise->kind != VALUE_NONE;
    *item = missing ? *otherwise : found;
    return STATUS_OK;
}

status filter_reach(run *r, const value *item, const value *path, const value *otherwise, value *out) {
    *out = *item;
    if (!run_given(path) || path->kind == VALUE_NONE) return STATUS_OK;
    if (path->kind != VALUE_TEXT) {
        value found;
        TRY(run_get_item(r, out, path, &found));
        bool missing = found.kind == VALUE_UNDEFINED && run_given(otherwise) && otherwise->kind != VALUE_NONE;
        *out = missing ? *otherwise : found;
        return STATUS_OK;
    }
    const char *part = path->text->bytes, *end = part + path->text->length;
    for (;;) {
        const char *dot = memchr(part, '.', (size_t)(end - part));
        TRY(reach_part(r, part, (size_t)((dot ? dot : end) - part), otherwise, out));
        if (!dot) return STATUS_OK;
        part = dot + 1;
    }
}
