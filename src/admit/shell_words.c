/* Words of a shell's script, and what they expand to. */
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "admit/shell_reader.h"
#include "admit/shell_sum.h"
#include "base/memory.h"

void shell_put(shell_reader *r, char c) {
    if (!r->open) r->open = true, r->begin = r->used, r->unsure = r->quoted = false;
    if (r->used + 1 >= SHELL_COMMAND_BYTES)
        r->c->cut = r->s->cut = true;
    else if (c) /* a zero is no part of any word */
        r->room[r->used++] = c;
}

void shell_end_word(shell_reader *r) {
    if (!r->open) return;
    r->open = false;
    if (r->c->count == SHELL_MOST_WORDS || r->used + 1 >= SHELL_COMMAND_BYTES) {
        r->c->cut = r->s->cut = true;
        r->used = r->begin;
        return;
    }
    r->room[r->used++] = 0;
    const shell_word w = { r->room + r->begin, r->unsure, r->quoted };
    r->c->words[r->c->count++] = w;
    bool begins = r->c->count == 1 || (r->c->count == 3 && strcmp(r->c->words[0].text, "function") == 0);
    bool opens = !w.quoted && (strcmp(w.text, "do") == 0 || strcmp(w.text, "{") == 0);
    if (begins && opens && !r->nested) r->opened = r->at - 1; /* at what ended the word */
}

/* The bytes of a name at the beginning of a text. */
size_t shell_name_length(const char *at, const char *end) {
    size_t n = 0;
    while (at + n < end && (at[n] == '_' || (at[n] >= 'a' && at[n] <= 'z') ||
                            (at[n] >= 'A' && at[n] <= 'Z') || (n && at[n] >= '0' && at[n] <= '9')))
        n++;
    return n;
}

/* Is it NAME=... or NAME+=...? Then `*value` is what follows. */
bool shell_is_assignment(const char *word, size_t *name, const char **value) {
    *name = shell_name_length(word, word + strlen(word));
    if (!*name) return false;
    const char *at = word + *name;
    if (*at == '+') at++;
    if (*at != '=') return false;
    *value = at + 1;
    return true;
}

bool shell_is_one_of(const char *word, const char *const *words) {
    for (; *words; words++)
        if (strcmp(word, *words) == 0) return true;
    return false;
}

bool shell_declares(const char *word) {
    static const char *const words[] = { "export", "declare", "local", "readonly", "typeset", NULL };
    return shell_is_one_of(word, words);
}

/* Is the word that grows the value of a variable? Then blanks don't cut it. */
static bool is_value(shell_reader *r) {
    size_t name;
    const char *value;
    if (!r->open || r->used + 1 >= SHELL_COMMAND_BYTES) return false;
    r->room[r->used] = 0;
    if (!shell_is_assignment(r->room + r->begin, &name, &value)) return false;
    if (r->c->count && shell_declares(r->c->words[0].text)) return true;
    for (uint32_t i = 0; i < r->c->count; i++)
        if (!shell_is_assignment(r->c->words[i].text, &name, &value)) return false;
    return true;
}

/* ---- expanding ---- */

/* Puts a value in: outside of quotes blanks cut words, and ends of words within a list always do. */
static void put_value(shell_reader *r, const char *value, bool unsure, bool in_quotes) {
    bool whole = in_quotes || is_value(r);
    size_t bytes = strlen(value);
    r->s->work += bytes;
    if (r->s->work > SHELL_WORK_BYTES) {
        r->s->cut = r->c->cut = true;
        value = "", unsure = true;
    }
    for (const char *v = value; *v; v++) {
        bool cuts = *v == SHELL_BETWEEN ? !is_value(r) : !whole && strchr(" \t\n", *v) != NULL;
        if (cuts) {
            shell_end_word(r);
            if (*v == SHELL_BETWEEN) shell_put(r, 0);
        } else {
            shell_put(r, *v);
        }
    }
    if (unsure) shell_put(r, '?'), r->unsure = true;
}

void shell_put_unsure(shell_reader *r) {
    shell_put(r, '?');
    r->unsure = true;
}

/* From behind an opening bracket to behind the one that closes it. */
void shell_skip_balanced(shell_reader *r, char open, char close) {
    int depth = 1;
    while (r->at < r->end && depth) {
        char c = *r->at++;
        if (c == '\\' && r->at < r->end)
            r->at++;
        else if (c == '\'' || c == '"') {
            while (r->at < r->end && *r->at != c)
                r->at += *r->at == '\\' && c == '"' && r->at + 1 < r->end ? 2 : 1;
            if (r->at < r->end) r->at++;
        } else if (c == open)
            depth++;
        else if (c == close)
            depth--;
    }
}

static void put_named(shell_reader *r, const char *name, bool in_quotes) {
    const shell_variable *v = shell_find(r->s, name);
    if (v)
        put_value(r, v->value, v->unsure, in_quotes);
    else
        shell_put_unsure(r);
}

/* All words from `count` on, and the one that grows. */
static void doubt_words(shell_reader *r, uint32_t count) {
    for (uint32_t i = count; i < r->c->count; i++) r->c->words[i].unsure = true;
    if (r->open) r->unsure = true;
}

static char *value_of(shell_reader *r, const char *from, const char *to, bool document, bool *unsure) {
    const bool open = r->open, was_unsure = r->unsure, quoted = r->quoted;
    const size_t used = r->used, begin = r->begin;
    r->open = false;
    shell_put(r, 0);
    shell_put_range(r, from, to, true, document);
    char *value = NULL;
    if (r->used + 1 < SHELL_COMMAND_BYTES) {
        r->room[r->used] = 0;
        value = memory_text(r->room + r->begin);
    }
    *unsure = r->unsure;
    r->open = open, r->unsure = was_unsure, r->quoted = quoted, r->used = used, r->begin = begin;
    return value;
}

char *shell_value_of(shell_reader *r, const char *from, const char *to, bool *unsure) {
    return value_of(r, from, to, false, unsure);
}

char *shell_document_of(shell_reader *r, const char *from, const char *to, bool *unsure) {
    return value_of(r, from, to, true, unsure);
}

/* ---- lists ---- */

/* The item at `index`; of one that is not known the largest number, or else the last. */
static const char *item_of(const char *list, bool known, int64_t index, size_t *bytes) {
    const char *found = NULL, *last = list;
    size_t length = 0;
    long long most = 0;
    int64_t i = 0;
    for (const char *at = list;; i++) {
        size_t n = strcspn(at, "\x1f");
        char *end;
        long long value = strtoll(at, &end, 10);
        bool number = n && end == at + n;
        last = at;
        if (known ? i == index : number && (!found || value > most)) found = at, length = n, most = value;
        if (!at[n]) break;
        at += n + 1;
    }
    *bytes = found ? length : strcspn(last, "\x1f");
    return found ? found : known ? NULL : last;
}

void shell_likely(const char *list, char *out, size_t room) {
    size_t bytes;
    const char *item = item_of(list, false, 0, &bytes);
    snprintf(out, room, "%.*s", (int)(bytes < room ? bytes : 0), item);
}

/* ${NAME[index]} */
static void put_item(shell_reader *r, const shell_variable *v, const char *from, const char *to,
                     bool in_quotes) {
    char written[64] = "", value[SHELL_NAME_BYTES * 4];
    int64_t index = 0;
    size_t n = 0, bytes;
    for (const char *c = from; c < to && n + 1 < sizeof written; c++)
        if (!strchr("${}\"", *c)) written[n++] = *c;
    bool unsure = true;
    bool known = n && n + 1 < sizeof written && shell_sum(r->s, written, &index, &unsure);
    known &= !unsure && !v->unsure;
    const char *item = item_of(v->value, known, index, &bytes);
    if (!item || bytes >= sizeof value) {
        shell_put_unsure(r);
        return;
    }
    snprintf(value, sizeof value, "%.*s", (int)bytes, item);
    put_value(r, value, !known, in_quotes);
}

static void put_count(shell_reader *r, const char *from, const char *to, bool in_quotes) {
    char name[SHELL_NAME_BYTES] = "", said[32];
    size_t n = shell_name_length(from, to), count = 1;
    const shell_variable *v = NULL;
    bool list = n && from + n + 3 == to && from[n] == '[' && strchr("@*", from[n + 1]);
    if (n && n < sizeof name && (list || from + n == to)) {
        memcpy(name, from, n);
        v = shell_find(r->s, name);
    }
    for (const char *c = v && list ? v->value : ""; *c; c++) count += *c == SHELL_BETWEEN;
    snprintf(said, sizeof said, "%zu", !v ? 0 : list ? count * (*v->value != 0) : strlen(v->value));
    if (v)
        put_value(r, said, v->unsure, in_quotes);
    else
        shell_put_unsure(r);
}

/* ---- braces ---- */

/* ${NAME-word}, ${NAME:-word}, ${NAME+word}, ${NAME?word}: `rest` begins with the sign, behind the colon. */
static void put_choice(shell_reader *r, const char *name, bool colon, const char *rest, const char *to,
                       bool in_quotes) {
    const shell_variable *v = shell_find(r->s, name);
    bool argument = *name >= '0' && *name <= '9'; /* no environment has one */
    bool empty = v ? !*v->value && !v->unsure && colon : argument;
    uint32_t count = r->c->count;
    if (*rest == '+') {
        if (empty) return;
        shell_put_range(r, rest + 1, to, in_quotes, false);
        if (v && !v->unsure) return;
        if (in_quotes || is_value(r)) shell_put_unsure(r); /* of a text that may be read again: eval */
        doubt_words(r, count);
        return;
    }
    if (v && !empty) {
        put_value(r, v->value, v->unsure, in_quotes);
        return;
    }
    if (*rest == '?') {
        shell_put_unsure(r);
        return;
    }
    shell_put_range(r, rest + 1, to, in_quotes, false);
    if (!v && !argument) { /* the environment may have it */
        shell_put_unsure(r);
        doubt_words(r, count);
    }
}

/* ${NAME}, ${NAME[@]}, ${NAME[2]}, ${#NAME[@]}, ${NAME:-word}; whatever else stands in braces is not known.
 */
static void put_braced(shell_reader *r, bool in_quotes) {
    const char *from = r->at;
    shell_skip_balanced(r, '{', '}');
    const char *to = r->at > from && r->at[-1] == '}' ? r->at - 1 : r->at;
    char name[SHELL_NAME_BYTES] = "";
    size_t n = shell_name_length(from, to);
    if (!n && to - from > 1 && *from == '#') {
        put_count(r, from + 1, to, in_quotes);
        return;
    }
    if (!n && from < to && strchr("0123456789@*#", *from)) {
        n = 1;
        while (from + n < to && from[n] >= '0' && from[n] <= '9') n++;
    }
    if (!n || n >= sizeof name) {
        shell_put_unsure(r);
        return;
    }
    memcpy(name, from, n);
    const char *rest = from + n;
    size_t left = (size_t)(to - rest), skip = left && *rest == ':' ? 1 : 0;
    const shell_variable *v = shell_find(r->s, name);
    if (!left || (left == 3 && (memcmp(rest, "[@]", 3) == 0 || memcmp(rest, "[*]", 3) == 0)))
        put_named(r, name, in_quotes);
    else if (v && *rest == '[' && to[-1] == ']')
        put_item(r, v, rest + 1, to - 1, in_quotes);
    else if (left > skip && strchr("-=+?", rest[skip]))
        put_choice(r, name, skip, rest + skip, to, in_quotes);
    else
        shell_put_unsure(r);
}

/* ---- what commands say ---- */

/* "1 3": 1 2 3, as seq has it. */
static bool count_up(const char *written, text *out) {
    long long n[3] = { 1, 1, 1 };
    int count = sscanf(written, "%lld %lld %lld", &n[0], &n[1], &n[2]);
    long long first = count > 1 ? n[0] : 1, step = count > 2 ? n[1] : 1, last = count > 0 ? n[count - 1] : 0;
    if (count < 1 || !step || written[strspn(written, "0123456789 -")]) return false;
    if (first < -1000000 || first > 1000000 || last < -1000000 || last > 1000000) return false;
    long long turns = (last - first) / step + 1;
    if (turns < 1 || turns > 64 || step < -1000000 || step > 1000000) return false;
    for (long long i = 0; i < turns; i++) text_add(out, "%s%lld", i ? " " : "", first + i * step);
    return true;
}

/* Behind "$(": of a few commands what they say is known. */
static void put_output(shell_reader *r, bool in_quotes) {
    static const char *const finding[] = { "which ", "command -v ", "type -p " };
    const char *from = r->at;
    shell_skip_balanced(r, '(', ')');
    const char *to = r->at > from && r->at[-1] == ')' ? r->at - 1 : r->at;
    bool unsure = false, known = false, simple = to - from < 256;
    for (const char *c = from; simple && c < to; c++) simple = !strchr("|;&<>()`\n\"'\\", *c) && *c;
    char *said = simple ? shell_value_of(r, from, to, &unsure) : NULL;
    text out = { 0 };
    for (size_t i = 0; said && i < sizeof finding / sizeof *finding; i++)
        if (strncmp(said, finding[i], strlen(finding[i])) == 0) {
            text_add(&out, "%s", said + strlen(finding[i]));
            known = true;
        }
    if (said && strncmp(said, "seq ", 4) == 0) known = count_up(said + 4, &out);
    if (said && strncmp(said, "echo ", 5) == 0 && said[5] != '-') {
        text_add(&out, "%s", said + 5);
        known = true;
    }
    if (known && out.data && !out.failed)
        put_value(r, out.data, unsure, in_quotes);
    else
        shell_put_unsure(r);
    text_close(&out);
    memory_free(said);
}

/* A sum whose variables are written as "$B" or "${B}", with their values in. */
static bool sum_expanded(shell_reader *r, const char *from, const char *to, int64_t *value, bool *unsure) {
    bool doubts = false;
    char *written = shell_value_of(r, from, to, &doubts);
    size_t n = 0;
    for (const char *c = written ? written : ""; *c; c++)
        if (*c != '?') written[n++] = *c; /* "64?" is 64, likely */
    if (written) written[n] = 0;
    bool found = written && shell_sum(r->s, written, value, unsure);
    *unsure |= doubts;
    memory_free(written);
    return found;
}

/* Behind "$((". */
static void put_sum(shell_reader *r) {
    const char *from = r->at;
    char said[32];
    int64_t value;
    bool unsure = false;
    shell_skip_balanced(r, '(', ')');
    size_t n = (size_t)(r->at - from);
    if (r->at < r->end && *r->at == ')') r->at++;
    if (n && from[n - 1] == ')') n--;
    if (n >= 256 || !sum_expanded(r, from, from + n, &value, &unsure)) {
        if (n >= 256 || memchr(from, '=', n) || memchr(from, '+', n) || memchr(from, '-', n))
            shell_doubt(r->s); /* it may set some */
        shell_put_unsure(r);
        return;
    }
    snprintf(said, sizeof said, "%lld", (long long)value);
    put_value(r, said, unsure, true);
}

/* Behind "$". */
void shell_put_dollar(shell_reader *r, bool in_quotes) {
    char name[SHELL_NAME_BYTES] = "";
    if (r->at == r->end) {
        shell_put(r, '$');
        return;
    }
    if (*r->at == '{') {
        r->at++;
        put_braced(r, in_quotes);
        return;
    }
    if (*r->at == '(') {
        bool sum = r->at + 1 < r->end && r->at[1] == '(';
        r->at += sum ? 2 : 1;
        if (sum) {
            put_sum(r);
        } else {
            put_output(r, in_quotes);
        }
        return;
    }
    size_t n = shell_name_length(r->at, r->end);
    if (!n && strchr("0123456789@*#?$!-", *r->at) && *r->at) n = 1;
    if (!n || n >= sizeof name) {
        shell_put(r, '$');
        return;
    }
    memcpy(name, r->at, n);
    r->at += n;
    put_named(r, name, in_quotes);
}

static void skip_backticks(shell_reader *r) {
    while (r->at < r->end && *r->at != '`') r->at += *r->at == '\\' && r->at + 1 < r->end ? 2 : 1;
    if (r->at < r->end) r->at++;
    shell_put_unsure(r);
}

/* Of a text that is not all known a question mark stands for the rest. */
static void put_byte(shell_reader *r, char c) {
    shell_put(r, c);
    if (c == '?' && r->s->doubtful) r->unsure = true;
}

/* A byte between double quotes, or of a document. */
static void put_quoted(shell_reader *r, char c, bool document) {
    if (c == '\\' && r->at < r->end) {
        char next = *r->at++;
        if (next == '\n') return;
        if (!strchr(document ? "$`\\" : "$`\"\\", next)) shell_put(r, '\\');
        put_byte(r, next);
    } else if (c == '$') {
        shell_put_dollar(r, true);
    } else if (c == '`') {
        skip_backticks(r);
    } else {
        put_byte(r, c);
    }
}

/* "$@" and "${LIST[@]}" of nothing are no word at all. */
static bool is_nothing(shell_reader *r) {
    char name[SHELL_NAME_BYTES] = "@";
    const char *at = r->at, *end = r->end;
    if (r->open || end - at < 3 || *at++ != '$') return false;
    size_t n = *at == '{' ? shell_name_length(at + 1, end) : 0;
    if (*at == '@' && at[1] == '"') {
        end = at + 2;
    } else if (n && n < sizeof name && end - at > (ptrdiff_t)n + 5 && memcmp(at + 1 + n, "[@]}\"", 5) == 0) {
        memcpy(name, at + 1, n);
        name[n] = 0;
        end = at + n + 6;
    } else {
        return false;
    }
    const shell_variable *v = shell_find(r->s, name);
    if (!v || *v->value || v->unsure) return false;
    r->at = end;
    return true;
}

static void read_double_quotes(shell_reader *r) {
    if (is_nothing(r)) return;
    shell_put(r, 0);
    r->quoted = true;
    while (r->at < r->end && *r->at != '"') {
        char c = *r->at++;
        put_quoted(r, c, false);
    }
    if (r->at < r->end) r->at++;
}

static void read_single_quotes(shell_reader *r) {
    shell_put(r, 0);
    r->quoted = true;
    while (r->at < r->end && *r->at != '\'') put_byte(r, *r->at++);
    if (r->at < r->end) r->at++;
}

void shell_read_plain(shell_reader *r, char c) {
    if (c == '\\') {
        if (r->at == r->end) return;
        char next = *r->at++;
        if (next == '\r' && r->at < r->end && *r->at == '\n') next = *r->at++;
        if (next == '\n') return;
        put_byte(r, next);
        r->quoted = true;
    } else if (c == '\'') {
        read_single_quotes(r);
    } else if (c == '"') {
        read_double_quotes(r);
    } else if (c == '$') {
        shell_put_dollar(r, false);
    } else if (c == '`') {
        skip_backticks(r);
    } else {
        put_byte(r, c);
    }
}

void shell_put_range(shell_reader *r, const char *from, const char *to, bool in_quotes, bool document) {
    const char *at = r->at, *end = r->end;
    if (r->nested == SHELL_MOST_NESTED) {
        shell_put_unsure(r);
        return;
    }
    r->nested++;
    r->at = from, r->end = to;
    while (r->at < r->end) {
        char c = *r->at++;
        bool blank = strchr(" \t\n", c) && c && !in_quotes;
        if (blank && !is_value(r))
            shell_end_word(r);
        else if (blank || (in_quotes && !document && c == '"'))
            shell_put(r, blank ? c : 0);
        else if (in_quotes)
            put_quoted(r, c, document);
        else
            shell_read_plain(r, c);
    }
    r->at = at, r->end = end;
    r->nested--;
}
