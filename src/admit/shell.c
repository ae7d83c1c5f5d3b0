#include "admit/shell.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "admit/shell_sum.h"
#include "base/memory.h"

enum { BETWEEN = 0x1f, HERE_MOST = 8, NAME_BYTES = 64 };

/* ---- variables ---- */

const shell_variable *shell_find(const shell *s, const char *name) {
    for (uint32_t i = 0; i < s->count; i++)
        if (strcmp(s->variables[i].name, name) == 0) return &s->variables[i];
    return NULL;
}

void shell_set(shell *s, const char *name, const char *value, bool unsure) {
    shell_variable *v = (shell_variable *)shell_find(s, name);
    char *copy = strlen(value) < SHELL_VALUE_BYTES ? memory_text(value) : NULL;
    if (!v && s->count < SHELL_MOST_VARIABLES && copy) {
        v = &s->variables[s->count];
        v->value = NULL;
        v->name = memory_text(name);
        if (v->name) s->count++;
    }
    if (!v || !v->name || !copy) {
        s->cut = true;
        memory_free(copy);
        if (v && v->name) v->unsure = true;
        return;
    }
    memory_free(v->value);
    v->value = copy, v->unsure = unsure;
}

void shell_doubt(shell *s) {
    for (uint32_t i = 0; i < s->count; i++)
        if (strncmp(s->variables[i].name, "SLURM_", 6) != 0) s->variables[i].unsure = true;
}

void shell_doubt_arguments(shell *s) {
    static const char *const names[] = { "1", "2", "3", "4", "5", "6", "7", "8", "9", "@", "*", "#" };
    for (size_t i = 0; i < sizeof names / sizeof *names; i++) shell_set(s, names[i], "", true);
    for (uint32_t i = 0; i < s->count; i++)
        if (s->variables[i].name[0] >= '0' && s->variables[i].name[0] <= '9') s->variables[i].unsure = true;
}

void shell_set_arguments(shell *s, const char *const *arguments, const bool *unsure, uint32_t count) {
    text all = { 0 };
    char name[16];
    bool doubts = false;
    for (uint32_t i = 0; unsure && i < count; i++) doubts |= unsure[i];
    for (uint32_t i = 0; i < count; i++) {
        snprintf(name, sizeof name, "%u", i + 1);
        shell_set(s, name, arguments[i], doubts); /* one that is not known may be none or many */
        text_add(&all, "%s%s", i ? "\x1f" : "", arguments[i]);
    }
    snprintf(name, sizeof name, "%u", count);
    shell_set(s, "#", name, doubts);
    shell_set(s, "@", all.data ? all.data : "", all.failed || doubts);
    shell_set(s, "*", all.data ? all.data : "", all.failed || doubts);
    text_close(&all);
}

void shell_close(shell *s) {
    for (uint32_t i = 0; i < s->count; i++) {
        memory_free(s->variables[i].name);
        memory_free(s->variables[i].value);
    }
    s->count = 0;
}

/* ---- one command as it grows ---- */

/* Brackets within brackets, from one on. Those of a deeper branch are not counted: there they may be of a
 * pattern ("x)"), and all of it is unsure anyway. */
typedef struct {
    uint32_t level, depth;
} group;

static void open_group(group *g, uint32_t depth, bool begins) {
    if (g->level ? g->depth != depth : !begins) return;
    g->level++, g->depth = depth;
}

static void close_group(group *g, uint32_t depth) {
    if (g->level && g->depth == depth) g->level--;
}

typedef struct {
    shell *s;
    const char *at, *end;
    shell_command *c;
    char *room;   /* of all words */
    size_t used;  /* up to the end of the word that grows */
    size_t begin; /* of that word */
    bool open;    /* a word has begun */
    bool unsure, quoted;
    uint32_t array_from;       /* the word NAME= whose list is read; SHELL_MOST_WORDS: none is */
    uint32_t depth;            /* of branches and loops */
    uint32_t braces, function; /* braces that are open; those inside of which a function ends, or 0 */
    bool chained;              /* behind && or || */
    bool waits;                /* an operator stood last, and what it joins may follow on the next line */
    bool rescues;              /* behind || of what succeeds as a rule */
    group chain, child;        /* { } or ( ) behind && or ||; ( ) */
    bool maybe, ended;
    char here[HERE_MOST][NAME_BYTES];
    bool here_tabs[HERE_MOST];
    uint32_t here_count;
} reader;

static void put(reader *r, char c) {
    if (!r->open) r->open = true, r->begin = r->used, r->unsure = r->quoted = false;
    if (r->used + 1 >= SHELL_COMMAND_BYTES)
        r->c->cut = r->s->cut = true;
    else if (c) /* a zero is no part of any word */
        r->room[r->used++] = c;
}

static void end_word(reader *r) {
    if (!r->open) return;
    r->open = false;
    if (r->c->count == SHELL_MOST_WORDS || r->used + 1 >= SHELL_COMMAND_BYTES) {
        r->c->cut = r->s->cut = true;
        r->used = r->begin;
        return;
    }
    r->room[r->used++] = 0;
    r->c->words[r->c->count++] = (shell_word){ r->room + r->begin, r->unsure, r->quoted };
}

/* The bytes of a name at the beginning of a text. */
static size_t name_length(const char *at, const char *end) {
    size_t n = 0;
    while (at + n < end && (at[n] == '_' || (at[n] >= 'a' && at[n] <= 'z') ||
                            (at[n] >= 'A' && at[n] <= 'Z') || (n && at[n] >= '0' && at[n] <= '9')))
        n++;
    return n;
}

/* Is it NAME=... or NAME+=...? Then `*value` is what follows. */
static bool is_assignment(const char *word, size_t *name, const char **value) {
    *name = name_length(word, word + strlen(word));
    if (!*name) return false;
    const char *at = word + *name;
    if (*at == '+') at++;
    if (*at != '=') return false;
    *value = at + 1;
    return true;
}

static bool is_one_of(const char *word, const char *const *words) {
    for (; *words; words++)
        if (strcmp(word, *words) == 0) return true;
    return false;
}

static const char *const declaring[] = { "export", "declare", "local", "readonly", "typeset", NULL };

/* Is the word that grows the value of a variable? Then blanks don't cut it. */
static bool is_value(reader *r) {
    size_t name;
    const char *value;
    if (!r->open || r->used + 1 >= SHELL_COMMAND_BYTES) return false;
    r->room[r->used] = 0;
    if (!is_assignment(r->room + r->begin, &name, &value)) return false;
    if (r->c->count && is_one_of(r->c->words[0].text, declaring)) return true;
    for (uint32_t i = 0; i < r->c->count; i++)
        if (!is_assignment(r->c->words[i].text, &name, &value)) return false;
    return true;
}

/* ---- expanding ---- */

/* Puts a value in: outside of quotes blanks cut words, and ends of words within a list always do. */
static void put_value(reader *r, const char *value, bool unsure, bool in_quotes) {
    bool whole = in_quotes || is_value(r);
    size_t bytes = strlen(value);
    r->s->work += bytes;
    if (r->s->work > SHELL_WORK_BYTES) {
        r->s->cut = r->c->cut = true;
        value = "", unsure = true;
    }
    for (const char *v = value; *v; v++) {
        bool cuts = *v == BETWEEN ? !is_value(r) : !whole && strchr(" \t\n", *v) != NULL;
        if (cuts) {
            end_word(r);
            if (*v == BETWEEN) put(r, 0);
        } else {
            put(r, *v);
        }
    }
    if (unsure) put(r, '?'), r->unsure = true;
}

static void put_unsure(reader *r) {
    put(r, '?');
    r->unsure = true;
}

/* From behind an opening bracket to behind the one that closes it. */
static void skip_balanced(reader *r, char open, char close) {
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

static void put_named(reader *r, const char *name, bool in_quotes) {
    const shell_variable *v = shell_find(r->s, name);
    if (v)
        put_value(r, v->value, v->unsure, in_quotes);
    else
        put_unsure(r);
}

/* ${NAME}, ${NAME[@]}, ${NAME:-word}; whatever else stands in braces is not known. */
static void put_braced(reader *r, bool in_quotes) {
    const char *from = r->at;
    skip_balanced(r, '{', '}');
    const char *to = r->at > from && r->at[-1] == '}' ? r->at - 1 : r->at;
    char name[NAME_BYTES] = "", fallback[256] = "";
    size_t n = name_length(from, to);
    if (!n && from < to && strchr("0123456789@*#", *from)) {
        n = 1;
        while (from + n < to && from[n] >= '0' && from[n] <= '9') n++;
    }
    if (!n || n >= sizeof name) {
        put_unsure(r);
        return;
    }
    memcpy(name, from, n);
    const char *rest = from + n;
    size_t left = (size_t)(to - rest);
    if (!left || (left == 3 && (memcmp(rest, "[@]", 3) == 0 || memcmp(rest, "[*]", 3) == 0))) {
        put_named(r, name, in_quotes);
        return;
    }
    size_t skip = *rest == ':' ? 1 : 0;
    bool has_default =
        left > skip && (rest[skip] == '-' || rest[skip] == '=') && left - skip - 1 < sizeof fallback;
    if (!has_default) {
        put_unsure(r);
        return;
    }
    memcpy(fallback, rest + skip + 1, left - skip - 1);
    const shell_variable *v = shell_find(r->s, name);
    bool empty = v && !*v->value && !v->unsure && skip;
    if (v && !empty)
        put_value(r, v->value, v->unsure, in_quotes);
    else /* the environment may have it, but not an argument */
        put_value(r, fallback, (!v && (*name < '0' || *name > '9')) || strpbrk(fallback, "$`\"'"), in_quotes);
}

/* Behind "$((". */
static void put_sum(reader *r) {
    const char *from = r->at;
    char written[256], said[32];
    int64_t value;
    skip_balanced(r, '(', ')');
    size_t n = (size_t)(r->at - from);
    if (r->at < r->end && *r->at == ')') r->at++;
    if (n && from[n - 1] == ')') n--;
    if (n >= sizeof written) {
        put_unsure(r);
        return;
    }
    memcpy(written, from, n);
    written[n] = 0;
    if (!shell_sum(r->s, written, &value)) {
        if (strpbrk(written, "=+-")) shell_doubt(r->s); /* it may set some */
        put_unsure(r);
        return;
    }
    snprintf(said, sizeof said, "%lld", (long long)value);
    put_value(r, said, false, true);
}

/* Behind "$". */
static void put_dollar(reader *r, bool in_quotes) {
    char name[NAME_BYTES] = "";
    if (r->at == r->end) {
        put(r, '$');
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
            skip_balanced(r, '(', ')');
            put_unsure(r);
        }
        return;
    }
    size_t n = name_length(r->at, r->end);
    if (!n && strchr("0123456789@*#?$!-", *r->at) && *r->at) n = 1;
    if (!n || n >= sizeof name) {
        put(r, '$');
        return;
    }
    memcpy(name, r->at, n);
    r->at += n;
    put_named(r, name, in_quotes);
}

static void skip_backticks(reader *r) {
    while (r->at < r->end && *r->at != '`') r->at += *r->at == '\\' && r->at + 1 < r->end ? 2 : 1;
    if (r->at < r->end) r->at++;
    put_unsure(r);
}

static void read_double_quotes(reader *r) {
    put(r, 0);
    r->quoted = true;
    while (r->at < r->end && *r->at != '"') {
        char c = *r->at++;
        if (c == '\\' && r->at < r->end) {
            char next = *r->at++;
            if (next == '\n') continue;
            if (!strchr("$`\"\\", next)) put(r, '\\');
            put(r, next);
        } else if (c == '$') {
            put_dollar(r, true);
        } else if (c == '`') {
            skip_backticks(r);
        } else {
            put(r, c);
        }
    }
    if (r->at < r->end) r->at++;
}

static void read_single_quotes(reader *r) {
    put(r, 0);
    r->quoted = true;
    while (r->at < r->end && *r->at != '\'') put(r, *r->at++);
    if (r->at < r->end) r->at++;
}

/* ---- commands ---- */

static void join(reader *r, uint32_t from, text *out) {
    for (uint32_t i = from; i < r->c->count; i++)
        text_add(out, "%s%s", i > from ? "\x1f" : "", r->c->words[i].text);
}

/* Does it depend on something whether the command that ends here runs? */
static bool may_not_run(const reader *r) {
    return r->maybe || r->depth || r->function || r->chained || r->chain.level;
}

static void assign(reader *r, const char *word, const char *value, bool unsure) {
    char name[NAME_BYTES] = "";
    text all = { 0 };
    size_t n = name_length(word, word + strlen(word));
    if (n >= sizeof name) {
        r->s->cut = true;
        return;
    }
    memcpy(name, word, n);
    const shell_variable *old = shell_find(r->s, name);
    bool list =
        strchr(value, BETWEEN) || (old && strchr(old->value, BETWEEN)) || r->array_from < SHELL_MOST_WORDS;
    if (word[n] == '+' && old)
        text_add(&all, "%s%s", old->value, list && *old->value && *value ? "\x1f" : "");
    if (word[n] == '+' && (!old || old->unsure)) unsure = true;
    text_add(&all, "%s", value);
    bool branch = may_not_run(r) || r->child.level;
    r->s->work += all.length;
    if (all.data && !all.failed && r->s->work <= SHELL_WORK_BYTES)
        shell_set(r->s, name, all.data, unsure || branch);
    else
        r->s->cut = true;
    text_close(&all);
}

/* Behind the bracket that closes NAME=( ... ). */
static void end_array(reader *r) {
    text all = { 0 };
    bool unsure = r->c->cut;
    end_word(r);
    for (uint32_t i = r->array_from + 1; i < r->c->count; i++) unsure |= r->c->words[i].unsure;
    join(r, r->array_from + 1, &all);
    if (r->array_from < r->c->count)
        assign(r, r->c->words[r->array_from].text, all.data ? all.data : "", unsure);
    text_close(&all);
    r->c->count = r->array_from;
    r->array_from = SHELL_MOST_WORDS;
}

static const char *const opening[] = { "if", "while", "until", "for", "case", "select", NULL };
static const char *const closing[] = { "fi", "done", "esac", NULL };
static const char *const leading[] = { "then", "else", "elif", "do", "!", "time", "{", NULL };

static void drop_first(shell_command *c) {
    memmove(c->words, c->words + 1, (c->count - 1) * sizeof *c->words);
    c->count--;
}

/* Keywords before a command; false: nothing is left of it. */
static bool take_keywords(reader *r) {
    shell_command *c = r->c;
    while (c->count && !c->words[0].quoted && !c->words[0].unsure) {
        const char *first = c->words[0].text;
        if (is_one_of(first, opening)) {
            bool loops =
                strcmp(first, "for") == 0 || strcmp(first, "case") == 0 || strcmp(first, "select") == 0;
            r->depth++;
            if (loops && c->count > 1) shell_set(r->s, c->words[1].text, "", true);
            if (loops) return false;
        } else if (is_one_of(first, closing)) {
            if (r->depth) r->depth--;
        } else if (strcmp(first, "}") == 0) {
            if (r->braces && --r->braces < r->function) r->function = 0;
            close_group(&r->chain, r->depth);
        } else if (strcmp(first, "function") == 0 && c->count > 1) {
            drop_first(c);
            if (!r->function) r->function = r->braces + 1;
        } else if (!is_one_of(first, leading)) {
            break;
        }
        if (strcmp(first, "{") == 0) r->braces++, open_group(&r->chain, r->depth, r->chained);
        bool timed = strcmp(first, "time") == 0;
        drop_first(c);
        if (timed && c->count && strcmp(c->words[0].text, "-p") == 0) drop_first(c);
    }
    return c->count > 0;
}

/* True: there was nothing but assignments. */
static bool take_assignments(reader *r) {
    shell_command *c = r->c;
    size_t name;
    const char *value;
    uint32_t k = 0;
    bool declares = c->count && is_one_of(c->words[0].text, declaring);
    while (k < c->count && !declares && is_assignment(c->words[k].text, &name, &value)) k++;
    if (k == c->count || declares) {
        for (uint32_t i = declares; i < c->count; i++)
            if (is_assignment(c->words[i].text, &name, &value))
                assign(r, c->words[i].text, value, c->words[i].unsure);
            else if (c->words[i].unsure) /* export $(cat FILE) */
                shell_doubt(r->s);
        return true;
    }
    c->prefixed = k > 0;
    for (; k; k--) {
        static const char devices[] = "CUDA_VISIBLE_DEVICES=";
        const char *first = c->words[0].text;
        if (strncmp(first, devices, sizeof devices - 1) == 0)
            c->hides |= first[sizeof devices - 1] < '0' || first[sizeof devices - 1] > '9';
        drop_first(c);
    }
    return false;
}

/* What goes before && and lets the rest run as a rule. */
static const char *const harmless[] = { "cd",       "module", "source", ".",      "export",     "set",
                                        "mkdir",    "conda",  "echo",   "ulimit", "date",       "ml",
                                        "hostname", "pushd",  "pip",    "sleep",  "nvidia-smi", NULL };

static void end_command(reader *r, bool chains) {
    end_word(r);
    shell_command *c = r->c;
    bool calm = !c->count || is_one_of(c->words[0].text, harmless);
    size_t name;
    const char *value;
    calm |= c->count && is_assignment(c->words[0].text, &name, &value);
    if (take_keywords(r) && !take_assignments(r)) {
        c->maybe = may_not_run(r);
        c->child = r->child.level > 0;
        bool leaves = strcmp(c->words[0].text, "exit") == 0;
        bool becomes = strcmp(c->words[0].text, "exec") == 0 && c->count > 1;
        if (r->s->each(r->s->context, r->s, c)) r->ended = true;
        if ((leaves || becomes) && !c->maybe)
            r->ended = true;
        else if ((leaves || becomes) && !r->rescues)
            r->maybe = true; /* all behind it: the script may have ended here */
    }
    r->rescues = chains && calm && !r->chained;
    r->chained = chains && (!calm || r->chained);
    r->waits = false;
    c->count = 0, c->fed = c->cut = c->prefixed = c->hides = false;
    r->used = 0;
}

/* "name ( )" begins a function, whose body runs when it is called. */
static void read_bracket(reader *r, char c) {
    bool lists = c == '(' && r->open && r->used > r->begin && r->room[r->used - 1] == '=' && !r->quoted;
    if (lists && r->array_from == SHELL_MOST_WORDS && r->c->count + 1 < SHELL_MOST_WORDS) {
        end_word(r);
        r->array_from = r->c->count ? r->c->count - 1 : 0;
        return;
    }
    if (c == ')' && r->array_from < SHELL_MOST_WORDS) {
        end_array(r);
        return;
    }
    const char *next = r->at;
    while (next < r->end && (*next == ' ' || *next == '\t')) next++;
    uint32_t words = r->c->count + r->open;
    if (c == '(' && !words && r->at < r->end && *r->at == '(') { /* ((B = 2)) */
        r->at++;
        skip_balanced(r, '(', ')');
        if (r->at < r->end && *r->at == ')') r->at++;
        shell_doubt(r->s);
        put(r, '('), put(r, '(');
        end_word(r);
        return;
    }
    if (c == '(' && words == 1 && next < r->end && *next == ')') {
        end_word(r);
        r->c->count = 0, r->used = 0;
        r->at = next + 1;
        if (!r->function) r->function = r->braces + 1;
        return;
    }
    end_command(r, r->chained);
    if (c == '(') {
        open_group(&r->chain, r->depth, r->chained);
        open_group(&r->child, r->depth, true);
    } else {
        close_group(&r->chain, r->depth);
        close_group(&r->child, r->depth);
    }
}

/* ---- redirections ---- */

static void skip_blanks(reader *r) {
    while (r->at < r->end && (*r->at == ' ' || *r->at == '\t')) r->at++;
}

/* The word behind an operator, without quotes, of which little may be kept. */
static void skip_target(reader *r, char *out, size_t room) {
    size_t n = 0;
    char quote = 0;
    skip_blanks(r);
    for (; r->at < r->end; r->at++) {
        char c = *r->at;
        if (quote ? c == quote : c == '\'' || c == '"') {
            quote = quote ? 0 : c;
            continue;
        }
        if (!quote && (strchr(" \t\n;&|<>()", c) || !c)) break;
        if (n + 1 < room) out[n++] = c;
    }
    if (room) out[n] = 0;
}

static void read_redirection(reader *r, char c) {
    char word[NAME_BYTES];
    /* "2>" has its number before it */
    bool number = r->open && r->used - r->begin == 1 && r->room[r->begin] >= '0' && r->room[r->begin] <= '9';
    if (number)
        r->open = false, r->used = r->begin;
    else
        end_word(r);
    if (r->at < r->end && *r->at == '(') { /* <(...) is a file of its own */
        r->at++;
        skip_balanced(r, '(', ')');
        put_unsure(r);
        end_word(r);
        return;
    }
    const char *from = r->at;
    while (r->at < r->end && strchr("<>&|", *r->at) && *r->at) r->at++;
    bool document = c == '<' && r->at - from == 1 && *from == '<';
    bool tabs = document && r->at < r->end && *r->at == '-';
    if (tabs) r->at++;
    skip_target(r, word, sizeof word);
    if (c == '<') r->c->fed = true;
    if (!document) return;
    if (r->here_count == HERE_MOST || strlen(word) + 1 == sizeof word) {
        r->s->cut = true; /* what follows may be text, and no commands */
        return;
    }
    r->here_tabs[r->here_count] = tabs;
    snprintf(r->here[r->here_count++], NAME_BYTES, "%s", word);
}

/* Behind the end of a line: the documents that it announced. */
static void skip_here(reader *r) {
    for (uint32_t i = 0; i < r->here_count; i++) {
        size_t length = strlen(r->here[i]);
        bool found = false;
        while (r->at < r->end && !found) {
            const char *line = r->at, *stop = memchr(line, '\n', (size_t)(r->end - line));
            r->at = stop ? stop + 1 : r->end;
            if (!stop) stop = r->end;
            while (r->here_tabs[i] && line < stop && *line == '\t') line++;
            found = (size_t)(stop - line) == length && memcmp(line, r->here[i], length) == 0;
        }
    }
    r->here_count = 0;
}

/* ---- the walk ---- */

static void end_line(reader *r) {
    if (r->array_from < SHELL_MOST_WORDS) { /* a list goes on */
        end_word(r);
        return;
    }
    bool goes_on = r->waits && !r->open && !r->c->count, rescues = r->rescues;
    end_command(r, goes_on && r->chained);
    r->waits = goes_on, r->rescues = goes_on && rescues;
    skip_here(r);
}

/* ; & | and what they are doubled to. A word that goes on behind "&&" may not run. */
static void read_operator(reader *r, char c) {
    bool twice = r->at < r->end && *r->at == c;
    if (c == '&' && r->at < r->end && *r->at == '>') { /* &> */
        end_word(r);
        r->at++;
        read_redirection(r, '>');
        return;
    }
    if (twice) r->at++;
    bool either = twice && c == '|';
    end_command(r, (twice && c != ';') || (c == '|' && r->chained));
    r->waits = twice ? c != ';' : c == '|';
    r->rescues &= either;
    r->chained |= either; /* what is behind || runs where something fails, as a rule or not */
}

static void read_plain(reader *r, char c) {
    if (c == '\\') {
        if (r->at == r->end) return;
        char next = *r->at++;
        if (next == '\r' && r->at < r->end && *r->at == '\n') next = *r->at++;
        if (next == '\n') return;
        put(r, next);
        r->quoted = true;
    } else if (c == '\'') {
        read_single_quotes(r);
    } else if (c == '"') {
        read_double_quotes(r);
    } else if (c == '$') {
        put_dollar(r, false);
    } else if (c == '`') {
        skip_backticks(r);
    } else {
        put(r, c);
    }
}

static void read_next(reader *r) {
    char c = *r->at++;
    if (c == '\n')
        end_line(r);
    else if (c == ' ' || c == '\t' || c == '\r')
        end_word(r);
    else if (c == '#' && !r->open)
        while (r->at < r->end && *r->at != '\n') r->at++;
    else if (c == ';' || c == '&' || c == '|')
        read_operator(r, c);
    else if (c == '(' || c == ')')
        read_bracket(r, c);
    else if (c == '<' || c == '>')
        read_redirection(r, c);
    else
        read_plain(r, c);
}

status shell_read(shell *s, const char *all, size_t bytes, bool maybe) {
    reader r = { .s = s, .at = all, .end = all + bytes, .array_from = SHELL_MOST_WORDS, .maybe = maybe };
    r.c = memory_new(1, sizeof *r.c);
    r.room = memory_new(1, SHELL_COMMAND_BYTES);
    status result = r.c && r.room ? STATUS_OK : status_set(STATUS_FAILED, "no memory to read a script");
    while (result == STATUS_OK && r.at < r.end && !r.ended) read_next(&r);
    if (result == STATUS_OK && !r.ended) end_command(&r, false);
    memory_free(r.c);
    memory_free(r.room);
    return result;
}
