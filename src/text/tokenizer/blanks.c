/* Where a letter of ASCII, one blank and another such letter follow each other, no normalizer that is allowed
 * here looks across: normal forms join nothing with ASCII, what people see as one character ends there,
 * others look at one character; and the first pre-tokenizer ends a piece before the blank, whatever stands
 * around. That the normalizers leave a blank a blank and make one letter of a letter is tried out. */
#include "text/tokenizer/blanks.h"

#include <string.h>

#include "text/tokenizer/added.h"
#include "text/tokenizer/pre_tokenizers.h"
#include "text/tokenizer/unicode.h"

static bool is_letter(char c) { return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z'); }

static bool is_place(span text, uint32_t at) {
    return text.data[at] == ' ' && is_letter(text.data[at - 1]) && is_letter(text.data[at + 1]);
}

size_t blanks_find(span text) {
    for (uint32_t at = text.bytes > 1 ? text.bytes - 2 : 0; at > 0; at--)
        if (is_place(text, at)) return at;
    return 0;
}

static bool added_allow(const tokenizer *t) {
    for (uint32_t i = 0; i < t->added_count; i++) {
        const added_token *a = &t->added[i];
        if (a->single_word || a->lstrip || a->rstrip) return false;
        if (blanks_find(a->content) || blanks_find(a->seen)) return false;
    }
    return true;
}

static bool normalizers_allow(const tokenizer *t) {
    for (uint32_t i = 0; i < t->normalizers.count; i++)
        if (!t->normalizers.items[i].kind->before_blank) return false;
    return true;
}

/* "a b" for all letters: is one letter left of each? */
static status try_letters(tokenizer_work *w, bool *same) {
    for (char c = 'A'; c <= 'z' && *same; c++) {
        char text[3] = { c, ' ', c };
        span normal = { text, sizeof text };
        if (!is_letter(c)) continue;
        TRY(work_normalize(w, &normal));
        *same = normal.bytes == 3 && is_place(normal, 1);
    }
    return STATUS_OK;
}

status blanks_prepare(const tokenizer *t, bool *takes) {
    tokenizer_work *w;
    *takes = false;
    if (!pre_tokenizers_end_before_blank(t) || t->truncates) return STATUS_OK;
    if (!normalizers_allow(t) || !added_allow(t)) return STATUS_OK;
    *takes = true;
    TRY(tokenizer_work_open(t, &w));
    status result = try_letters(w, takes);
    tokenizer_work_close(w);
    return result;
}
