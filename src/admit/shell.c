#include "admit/shell.h"

#include <stdio.h>
#include <string.h>

#include "admit/shell_reader.h"
#include "base/memory.h"

/* ---- commands ---- */

static void join(shell_reader *r, uint32_t from, text *out) {
    for (uint32_t i = from; i < r->c->count; i++)
        text_add(out, "%s%s", i > from ? "\x1f" : "", r->c->words[i].text);
}

static void assign(shell_reader *r, const char *word, const char *value, bool unsure) {
    char name[SHELL_NAME_BYTES] = "";
    text all = { 0 };
    size_t n = shell_name_length(word, word + strlen(word));
    if (n >= sizeof name) {
        r->s->cut = true;
        return;
    }
    memcpy(name, word, n);
    const shell_variable *old = shell_find(r->s, name);
    bool list = strchr(value, SHELL_BETWEEN) || (old && strchr(old->value, SHELL_BETWEEN)) ||
                r->array_from < SHELL_MOST_WORDS;
    if (word[n] == '+' && old)
        text_add(&all, "%s%s", old->value, list && *old->value && *value ? "\x1f" : "");
    if (word[n] == '+' && (!old || old->unsure)) unsure = true;
    text_add(&all, "%s", value);
    bool branch = shell_may_not_run(r) || r->child.level || r->apart;
    r->s->work += all.length;
    if (all.data && !all.failed && r->s->work <= SHELL_WORK_BYTES)
        shell_set(r->s, name, all.data, unsure || branch);
    else
        r->s->cut = true;
    text_close(&all);
}

/* Behind the bracket that closes NAME=( ... ). */
static void end_array(shell_reader *r) {
    text all = { 0 };
    bool unsure = r->c->cut;
    shell_end_word(r);
    for (uint32_t i = r->array_from + 1; i < r->c->count; i++) unsure |= r->c->words[i].unsure;
    join(r, r->array_from + 1, &all);
    if (r->array_from < r->c->count)
        assign(r, r->c->words[r->array_from].text, all.data ? all.data : "", unsure);
    text_close(&all);
    r->c->count = r->array_from;
    r->array_from = SHELL_MOST_WORDS;
}

static void drop_first(shell_command *c) {
    memmove(c->words, c->words + 1, (c->count - 1) * sizeof *c->words);
    c->count--;
}

/* A[2]=x: of a list one item, and the others are not followed either. */
static bool is_item(const char *word) {
    size_t n = shell_name_length(word, word + strlen(word));
    const char *close = n && word[n] == '[' ? strchr(word + n, ']') : NULL;
    return close && (close[1] == '=' || (close[1] == '+' && close[2] == '='));
}

static void doubt_item(shell *s, const char *word) {
    char name[SHELL_NAME_BYTES];
    snprintf(name, sizeof name, "%.*s", (int)strcspn(word, "["), word);
    const shell_variable *v = shell_find(s, name);
    char *old = memory_text(v ? v->value : "");
    if (old) shell_set(s, name, old, true);
    if (!old) s->cut = true;
    memory_free(old);
}

static void declare(shell_reader *r, const shell_word *w) {
    char name[SHELL_NAME_BYTES] = "";
    size_t n = shell_name_length(w->text, w->text + strlen(w->text));
    const char *value = "";
    const char *word = r->c->words[0].text;
    bool sets = shell_is_assignment(w->text, &n, &value),
         local = strcmp(word, "export") && strcmp(word, "readonly");
    bool names = n && n < sizeof name && (sets || !w->text[n]);
    if (names) memcpy(name, w->text, n);
    if (names && local && r->s->calls) {
        shell_hide(r->s, name);
        if (!sets) shell_set(r->s, name, "", shell_may_not_run(r));
    }
    bool nowhere = strcmp(word, "local") == 0 && !r->s->calls; /* that is an error, and sets nothing */
    if (sets) assign(r, w->text, value, w->unsure || nowhere);
    if (names && strcmp(word, "export") == 0) shell_export(r->s, name);
    if (sets) return;
    if (is_item(w->text))
        doubt_item(r->s, w->text);
    else if (w->unsure) /* export $(cat FILE) */
        shell_doubt(r->s);
}

/* True: there was nothing but assignments. */
static bool take_assignments(shell_reader *r) {
    shell_command *c = r->c;
    size_t name;
    const char *value;
    uint32_t k = 0;
    bool declares = c->count && shell_declares(c->words[0].text);
    while (k < c->count && !declares &&
           (shell_is_assignment(c->words[k].text, &name, &value) || is_item(c->words[k].text)))
        k++;
    if (declares)
        for (uint32_t i = 1; i < c->count; i++) declare(r, &c->words[i]);
    else if (k == c->count)
        for (uint32_t i = 0; i < c->count; i++) {
            if (shell_is_assignment(c->words[i].text, &name, &value))
                assign(r, c->words[i].text, value, c->words[i].unsure);
            else
                doubt_item(r->s, c->words[i].text);
        }
    if (declares || k == c->count) return true;
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

static void run_command(shell_reader *r) {
    static const char *const leaving[] = { "break", "continue", "return", NULL };
    shell_command *c = r->c;
    if (take_assignments(r)) return;
    c->maybe = shell_may_not_run(r);
    c->child = r->child.level > 0 || r->apart;
    if (shell_is_one_of(c->words[0].text, leaving)) {
        shell_leave(r, c->words[0].text);
        return;
    }
    if (shell_call(r)) return;
    bool leaves = strcmp(c->words[0].text, "exit") == 0;
    bool becomes = strcmp(c->words[0].text, "exec") == 0 && c->count > 1;
    if (r->s->each(r->s->context, r->s, c)) r->ended = true, r->ends = SHELL_HAS_ENDED;
    if ((leaves || becomes) && !c->maybe)
        r->ended = true, r->ends = SHELL_HAS_ENDED;
    else if ((leaves || becomes) && !r->rescues)
        r->maybe = true, r->ends = SHELL_MAY_HAVE_ENDED; /* all behind it: the script may have ended here */
}

/* `apart`: its end says that it is a process of its own. True: a loop begins again. */
static bool end_command(shell_reader *r, bool chains, bool apart) {
    shell_end_word(r);
    shell_command *c = r->c;
    bool calm = c->count ? shell_is_one_of(c->words[0].text, harmless) : !r->closed, again = false;
    size_t name;
    const char *value;
    calm |= c->count && shell_is_assignment(c->words[0].text, &name, &value);
    bool writes = c->count && (strcmp(c->words[0].text, "cat") == 0 || strcmp(c->words[0].text, "tee") == 0);
    r->apart |= apart;
    r->closed = false;
    r->written[0] = 0;
    if (shell_take_keywords(r, r->apart, &again) && !r->function) {
        bool tee = writes && c->count == 2 && c->words[0].text[0] == 't' && !c->words[1].unsure;
        if (tee) snprintf(r->target, sizeof r->target, "%.250s", c->words[1].text);
        if (writes && !shell_may_not_run(r)) memcpy(r->written, r->target, sizeof r->written);
        run_command(r);
    }
    r->rescues = chains && calm && !r->chained && !again;
    r->chained = chains && (!calm || r->chained) && !again;
    r->waits = r->apart = false;
    c->count = 0, c->fed = c->cut = c->prefixed = c->hides = false;
    r->used = 0, r->target[0] = 0;
    return again;
}

/* Stands nothing before, but keywords? */
static bool begins_command(shell_reader *r) {
    static const char *const before[] = { "if",   "while", "until", "then", "do",  "else",
                                          "elif", "{",     "!",     "time", "for", NULL };
    if (r->open) return false;
    for (uint32_t i = 0; i < r->c->count; i++)
        if (r->c->words[i].quoted || !shell_is_one_of(r->c->words[i].text, before)) return false;
    return true;
}

/* Behind "name ( )", before which keywords may stand: "{ name ( )". */
static void define(shell_reader *r) {
    shell_command *c = r->c;
    char name[SHELL_NAME_BYTES + 1];
    bool again = false;
    shell_end_word(r);
    if (c->count)
        snprintf(name, sizeof name, "%s", c->words[--c->count].text);
    else
        name[0] = 0;
    bool says = c->count == 1 && strcmp(c->words[0].text, "function") == 0;
    if (says) c->count = 0;
    if (shell_take_keywords(r, false, &again)) r->s->cut = true;
    c->count = 0, r->used = 0;
    shell_begin_function(r, name);
}

/* "name ( )" begins a function, whose body runs when it is called. */
static void read_bracket(shell_reader *r, char c) {
    bool lists = c == '(' && r->open && r->used > r->begin && r->room[r->used - 1] == '=' && !r->quoted;
    if (lists && r->array_from == SHELL_MOST_WORDS && r->c->count + 1 < SHELL_MOST_WORDS) {
        shell_end_word(r);
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
    if (c == '(' && begins_command(r) && r->at < r->end && *r->at == '(') { /* ((B = 2)) */
        r->at++;
        shell_skip_balanced(r, '(', ')');
        if (r->at < r->end && *r->at == ')') r->at++;
        shell_doubt(r->s);
        shell_put(r, '('), shell_put(r, '(');
        shell_end_word(r);
        return;
    }
    if (c == '(' && words && next < r->end && *next == ')') {
        r->at = next + 1;
        define(r);
        return;
    }
    end_command(r, r->chained, r->apart);
    if (c == '(') {
        shell_open_group(&r->chain, r->depth, r->chained);
        shell_open_group(&r->child, r->depth, true);
    } else {
        shell_close_group(&r->chain, r->depth);
        shell_close_group(&r->child, r->depth);
        r->closed = true;
    }
}

/* ---- redirections ---- */

static void skip_blanks(shell_reader *r) {
    while (r->at < r->end && (*r->at == ' ' || *r->at == '\t')) r->at++;
}

/* The word behind an operator, without quotes, of which little may be kept. */
static void skip_target(shell_reader *r, char *out, size_t room) {
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

/* Where a document goes: "cat > FILE". */
static void keep_target(shell_reader *r, const char *from) {
    bool unsure = false;
    while (from < r->at && (*from == ' ' || *from == '\t')) from++;
    char *name = shell_value_of(r, from, r->at, &unsure);
    r->target[0] = 0;
    if (name && !unsure && strlen(name) < sizeof r->target) snprintf(r->target, sizeof r->target, "%s", name);
    memory_free(name);
}

static void read_redirection(shell_reader *r, char c) {
    char word[SHELL_NAME_BYTES];
    /* "2>" has its number before it */
    bool number = r->open && r->used - r->begin == 1 && r->room[r->begin] >= '0' && r->room[r->begin] <= '9';
    if (number)
        r->open = false, r->used = r->begin;
    else
        shell_end_word(r);
    if (r->at < r->end && *r->at == '(') { /* <(...) is a file of its own */
        r->at++;
        shell_skip_balanced(r, '(', ')');
        shell_put_unsure(r);
        shell_end_word(r);
        return;
    }
    const char *from = r->at;
    while (r->at < r->end && strchr("<>&|", *r->at) && *r->at) r->at++;
    bool document = c == '<' && r->at - from == 1 && *from == '<';
    bool tabs = document && r->at < r->end && *r->at == '-';
    if (tabs) r->at++;
    const char *file = r->at;
    skip_target(r, word, sizeof word);
    if (c == '<') r->c->fed = true;
    if (c == '>' && !number && r->at - from > 0 && file == from) keep_target(r, file);
    if (!document) return;
    if (r->here_count == SHELL_HERE_MOST || strlen(word) + 1 == sizeof word) {
        r->s->cut = true; /* what follows may be text, and no commands */
        return;
    }
    r->here_tabs[r->here_count] = tabs;
    r->here_plain[r->here_count] =
        memchr(file, '\'', (size_t)(r->at - file)) || memchr(file, '"', (size_t)(r->at - file));
    snprintf(r->here[r->here_count++], SHELL_NAME_BYTES, "%s", word);
}

/* A document as the file that it becomes. */
static void keep_document(shell_reader *r, const char *from, const char *to) {
    bool unsure;
    char *value = NULL;
    if (to - from >= SHELL_VALUE_BYTES) {
        shell_write_file(r->s, r->written, NULL);
        return;
    }
    if (r->here_plain[0]) {
        value = memory_new((size_t)(to - from) + 1, 1);
        if (value) memcpy(value, from, (size_t)(to - from));
    } else {
        value = shell_document_of(r, from, to, &unsure);
    }
    shell_write_file(r->s, r->written, value);
    memory_free(value);
}

/* Behind the end of a line: the documents that it announced. */
static void skip_here(shell_reader *r) {
    for (uint32_t i = 0; i < r->here_count; i++) {
        size_t length = strlen(r->here[i]);
        bool found = false;
        const char *from = r->at, *to = r->at;
        while (r->at < r->end && !found) {
            const char *line = to = r->at, *stop = memchr(line, '\n', (size_t)(r->end - line));
            r->at = stop ? stop + 1 : r->end;
            if (!stop) stop = r->end;
            while (r->here_tabs[i] && line < stop && *line == '\t') line++;
            found = (size_t)(stop - line) == length && memcmp(line, r->here[i], length) == 0;
        }
        if (found && r->here_count == 1 && r->written[0]) keep_document(r, from, to);
    }
    r->written[0] = 0;
    r->here_count = 0;
}

/* ---- the walk ---- */

static void end_line(shell_reader *r) {
    if (r->array_from < SHELL_MOST_WORDS) { /* a list goes on */
        shell_end_word(r);
        return;
    }
    bool goes_on = r->waits && !r->open && !r->c->count, rescues = r->rescues, apart = goes_on && r->apart;
    if (end_command(r, goes_on && r->chained, apart)) return;
    r->waits = goes_on, r->rescues = goes_on && rescues, r->apart = apart;
    skip_here(r);
}

/* ; & | and what they are doubled to. A word that goes on behind "&&" may not run. */
static void read_operator(shell_reader *r, char c) {
    bool twice = r->at < r->end && *r->at == c;
    if (c == '&' && r->at < r->end && *r->at == '>') { /* &> */
        shell_end_word(r);
        r->at++;
        read_redirection(r, '>');
        return;
    }
    if (twice) r->at++;
    bool either = twice && c == '|';
    bool apart = !twice && c != ';';
    if (end_command(r, (twice && c != ';') || (c == '|' && r->chained), apart)) return;
    r->apart = apart && c == '|';
    r->waits = twice ? c != ';' : c == '|';
    r->rescues &= either;
    r->chained |= either; /* what is behind || runs where something fails, as a rule or not */
}

static void read_next(shell_reader *r) {
    char c = *r->at++;
    if (c == '\n')
        end_line(r);
    else if (c == ' ' || c == '\t' || c == '\r')
        shell_end_word(r);
    else if (c == '#' && !r->open)
        while (r->at < r->end && *r->at != '\n') r->at++;
    else if (c == ';' || c == '&' || c == '|')
        read_operator(r, c);
    else if (c == '(' || c == ')')
        read_bracket(r, c);
    else if (c == '<' || c == '>')
        read_redirection(r, c);
    else
        shell_read_plain(r, c);
}

status shell_read(shell *s, const char *all, size_t bytes, bool maybe) {
    shell_reader r = {
        .s = s, .at = all, .end = all + bytes, .array_from = SHELL_MOST_WORDS, .maybe = maybe
    };
    r.c = memory_new(1, sizeof *r.c);
    r.room = memory_new(1, SHELL_COMMAND_BYTES);
    r.opened = all;
    status result = r.c && r.room ? STATUS_OK : status_set(STATUS_FAILED, "no memory to read a script");
    do { /* a last "done" without the end of a line begins again too */
        while (result == STATUS_OK && r.at < r.end && !r.ended) read_next(&r);
    } while (result == STATUS_OK && !r.ended && end_command(&r, false, r.apart));
    shell_end_blocks(&r);
    s->ends = r.ends;
    memory_free(r.c);
    memory_free(r.room);
    return result;
}
