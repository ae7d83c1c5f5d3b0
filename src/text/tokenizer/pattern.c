#include "text/tokenizer/pattern.h"

#define PCRE2_CODE_UNIT_WIDTH 8
#include <pcre2.h>
#include <stdio.h>

#include "base/memory.h"
#include "text/tokenizer/pattern_scan.h"
#include "text/tokenizer/pattern_translate.h"
#include "text/tokenizer/runs.h"
#include "text/tokenizer/unicode.h"

enum {
    STACK_FIRST = 32 << 10,
    STACK_MOST = 1 << 20, /* of compiled matching */
    HEAP_KIB = 20 << 10,  /* of matching that is not compiled */
    MATCH_STEPS = 50 * 1000 * 1000,
};

struct pattern {
    pattern_scan *scan; /* else the library's: */
    pcre2_code *code;
    pcre2_general_context *general;
    pattern_memory *memory;
    uint64_t compiled; /* bytes of machine code, which the library asks the system for */
    bool jit, looks_back;
    const run_rules *runs;
};

struct pattern_match {
    pcre2_match_data *data;
    pcre2_match_context *context;
    pcre2_jit_stack *stack;
};

/* ---- opening ---- */

static status no_memory(void) { return status_set(STATUS_NO_FIT, "no memory for a tokenizer's pattern"); }

static status compile(pattern *p, const char *text, const char *translated, size_t bytes) {
    int error;
    PCRE2_SIZE place;
    PCRE2_UCHAR why[128];
    p->general = pcre2_general_context_create(pattern_memory_new, pattern_memory_free, p->memory);
    if (!p->general) return no_memory();
    pcre2_compile_context *context = pcre2_compile_context_create(p->general);
    if (!context) return no_memory();
    pcre2_set_newline(context, PCRE2_NEWLINE_LF);
    pcre2_set_bsr(context, PCRE2_BSR_UNICODE);
    p->code = pcre2_compile((PCRE2_SPTR)translated, bytes, PCRE2_UTF | PCRE2_NEVER_BACKSLASH_C, &error,
                            &place, context);
    pcre2_compile_context_free(context);
    if (!p->code && error == PCRE2_ERROR_HEAP_FAILED) return no_memory();
    if (!p->code) {
        pcre2_get_error_message(error, why, sizeof why);
        return status_set(STATUS_INVALID, "the pattern '%.80s' is not understood: %s", text, (char *)why);
    }
    p->jit = pcre2_jit_compile(p->code, PCRE2_JIT_COMPLETE | PCRE2_JIT_PARTIAL_HARD) ==
             0; /* not everywhere is it allowed */
    size_t machine = 0;
    if (p->jit) pcre2_pattern_info(p->code, PCRE2_INFO_JITSIZE, &machine);
    p->compiled = machine;
    pattern_memory_count(p->memory, machine);
    return STATUS_OK;
}

static status open_translated(const char *shown, const char *translated, size_t bytes, bool scans,
                              pattern_memory *memory, pattern **out) {
    pattern *p = pattern_memory_new(sizeof *p, memory);
    if (!p) return no_memory();
    *p = (pattern){ .memory = memory };
    if (scans) p->scan = pattern_scan_open(translated, bytes, memory);
    status result = p->scan ? STATUS_OK : compile(p, shown, translated, bytes);
    if (result == STATUS_OK)
        *out = p;
    else
        pattern_close(p);
    return result;
}

static status open_with(const char *text, size_t bytes, bool scans, pattern_memory *memory, pattern **p) {
    char *translated;
    size_t length;
    *p = NULL;
    bool looks_back;
    TRY(pattern_translate(text, bytes, &translated, &length, &looks_back));
    char shown[81];
    size_t n = bytes < sizeof shown - 1 ? bytes : sizeof shown - 1;
    for (size_t i = 0; i < n; i++) shown[i] = (unsigned char)text[i] < 0x20 ? ' ' : text[i];
    shown[n] = 0;
    status result = open_translated(shown, translated, length, scans, memory, p);
    if (result == STATUS_OK) (*p)->looks_back = looks_back, (*p)->runs = runs_of(text, bytes);
    memory_free(translated);
    return result;
}

status pattern_open(const char *text, size_t bytes, pattern_memory *memory, pattern **p) {
    return open_with(text, bytes, true, memory, p);
}

status pattern_open_plain(const char *text, size_t bytes, pattern_memory *memory, pattern **p) {
    return open_with(text, bytes, false, memory, p);
}

status pattern_open_text(const char *text, size_t bytes, pattern_memory *memory, pattern **p) {
    char *translated;
    size_t length;
    *p = NULL;
    TRY(pattern_translate_text(text, bytes, &translated, &length));
    status result = open_translated("a text", translated, length, false, memory, p);
    memory_free(translated);
    return result;
}

void pattern_close(pattern *p) {
    if (!p) return;
    pattern_memory *memory = p->memory;
    pcre2_general_context *general = p->general;
    memory->held -= p->compiled;
    pattern_scan_close(p->scan, memory);
    pcre2_code_free(p->code);
    pattern_memory_free(p, memory);
    pcre2_general_context_free(general);
}

bool pattern_looks_back(const pattern *p) { return p->looks_back; }
bool pattern_is_scanned(const pattern *p) { return p->scan != NULL; }
const run_rules *pattern_runs(const pattern *p) { return p->runs; }

/* ---- matching ---- */

status pattern_match_open(pattern_match **out) {
    pattern_match *m = *out = memory_new(1, sizeof *m);
    if (!m) return no_memory();
    m->data = pcre2_match_data_create(1, NULL);
    m->context = pcre2_match_context_create(NULL);
    m->stack = pcre2_jit_stack_create(STACK_FIRST, STACK_MOST, NULL); /* NULL where nothing is compiled */
    if (!m->data || !m->context) {
        pattern_match_close(m);
        *out = NULL;
        return no_memory();
    }
    pcre2_set_heap_limit(m->context, HEAP_KIB);
    pcre2_set_match_limit(m->context, MATCH_STEPS);
    pcre2_jit_stack_assign(m->context, NULL, m->stack);
    return STATUS_OK;
}

void pattern_match_close(pattern_match *m) {
    if (!m) return;
    pcre2_jit_stack_free(m->stack);
    pcre2_match_context_free(m->context);
    pcre2_match_data_free(m->data);
    memory_free(m);
}

uint64_t pattern_match_bytes(void) { return sizeof(pattern_match) + STACK_FIRST; }

/* A match from `from` on: PCRE2's answer. */
static int match(const pattern_walk *w, size_t from) {
    PCRE2_SPTR text = (PCRE2_SPTR)w->text;
    uint32_t options = w->open ? PCRE2_PARTIAL_HARD : 0;
    if (w->p->jit)
        return pcre2_jit_match(w->p->code, text, w->bytes, from, options, w->m->data, w->m->context);
    return pcre2_match(w->p->code, text, w->bytes, from, options | PCRE2_NO_UTF_CHECK, w->m->data,
                       w->m->context);
}

static status takes_too_long(const pattern_walk *w, const char *why) {
    return status_set(
        STATUS_INVALID,
        "a pattern of the tokenizer takes too long or too much memory on this text, at byte %zu "
        "of a piece (%s)",
        w->next, why);
}

static status next_by_tables(pattern_walk *w, bool *found, size_t *start, size_t *end) {
    *found = false;
    if (w->next > w->bytes) return STATUS_OK;
    scan_text text = { w->text, w->bytes, w->open };
    switch (pattern_scan_next(w->p->scan, text, w->next, start, end)) {
    case SCAN_FOUND: w->next = w->last = *end; return *found = true, STATUS_OK;
    case SCAN_TOO_LONG: return takes_too_long(w, "too many steps");
    case SCAN_OPEN: w->begun = *start; break;
    case SCAN_NONE: break;
    }
    w->next = w->bytes + 1;
    return STATUS_OK;
}

status pattern_next(pattern_walk *w, bool *found, size_t *start, size_t *end) {
    if (w->p->scan) return next_by_tables(w, found, start, end);
    const PCRE2_SIZE *place = pcre2_get_ovector_pointer(w->m->data);
    *found = false;
    while (w->next <= w->bytes) {
        int answer = match(w, w->next);
        if (w->open && answer == PCRE2_ERROR_PARTIAL) w->begun = place[0];
        if (answer == PCRE2_ERROR_NOMATCH || (w->open && answer == PCRE2_ERROR_PARTIAL)) break;
        if (answer < 0) {
            char why[32];
            snprintf(why, sizeof why, "PCRE2 says %d", answer);
            return takes_too_long(w, why);
        }
        *start = place[0], *end = place[1];
        if (*end == *start && *end == w->last) { /* empty, and touches the last one */
            w->next += w->next < w->bytes ? unicode_bytes((unsigned char)w->text[w->next]) : 1;
            continue;
        }
        w->next = w->last = *end;
        *found = true;
        return STATUS_OK;
    }
    w->next = w->bytes + 1;
    return STATUS_OK;
}
