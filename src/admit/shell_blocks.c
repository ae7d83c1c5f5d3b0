/* Loops, branches, brackets and functions of a shell's script. A loop over words that are known is read turn
 * by turn, and a function where it is called; what depends on anything else may not run. */
#include <stdio.h>
#include <string.h>

#include "admit/shell_reader.h"
#include "base/memory.h"

/* ---- groups ---- */

void shell_open_group(shell_group *g, uint32_t depth, bool begins) {
    if (g->level ? g->depth != depth : !begins) return;
    g->level++, g->depth = depth;
}

void shell_close_group(shell_group *g, uint32_t depth) {
    if (g->level && g->depth == depth) g->level--;
}

/* ---- blocks ---- */

static shell_block *top(shell_reader *r) {
    return r->depth && r->depth <= SHELL_MOST_BLOCKS ? &r->blocks[r->depth - 1] : NULL;
}

bool shell_may_not_run(const shell_reader *r) {
    bool unsure = r->maybe || r->function || r->chained || r->chain.level;
    for (uint32_t i = 0; i < r->depth && i < SHELL_MOST_BLOCKS; i++)
        unsure |= r->blocks[i].unsure || r->blocks[i].broken;
    return unsure;
}

/* Deeper than what is kept all is unsure, to the end. */
static shell_block *push(shell_reader *r, const char *word) {
    r->depth++;
    shell_block *b = top(r);
    if (!b) {
        r->s->cut = r->maybe = true;
        return NULL;
    }
    bool branch = strcmp(word, "if") == 0, chooses = strcmp(word, "case") == 0;
    *b = (shell_block){ .loops = !branch && !chooses, .unsure = !branch, .apart = r->apart };
    return b;
}

static void pop(shell_reader *r, bool apart) {
    shell_block *b = top(r);
    if (b && (b->apart || apart) && !r->function) shell_doubt(r->s);
    if (b) memory_free(b->values);
    if (b) b->values = NULL;
    if (r->depth) r->depth--;
}

void shell_end_blocks(shell_reader *r) {
    while (r->depth) pop(r, false);
}

/* ---- for ---- */

/* "{1..4}", without quotes. */
static bool add_range(const char *word, text *out, uint32_t *count) {
    long long from, to;
    char end, more;
    if (sscanf(word, "{%lld..%lld%c%c", &from, &to, &end, &more) != 3 || end != '}') return false;
    if (from < -1000000 || to > 1000000 || from > to || to - from >= SHELL_MOST_TURNS) return false;
    for (; from <= to; from++, ++*count) text_add(out, "%s%lld", *count ? "\x1f" : "", from);
    return true;
}

static void next_turn(shell_reader *r, shell_block *b) {
    char value[SHELL_NAME_BYTES * 8];
    size_t n = strcspn(b->values + b->at, "\x1f");
    snprintf(value, sizeof value, "%.*s", (int)n, b->values + b->at);
    b->at += n + 1;
    shell_set(r->s, b->name, value, n >= sizeof value || shell_may_not_run(r));
}

/* for NAME in WORDS: of words that are not known the largest number is the likely one, or else the last. */
static void begin_for(shell_reader *r, shell_block *b) {
    const shell_command *c = r->c;
    text all = { 0 };
    bool known = !c->cut;
    uint32_t count = 0;
    if (c->count < 2 || !b || r->function) return;
    const char *name = c->words[1].text;
    size_t length = shell_name_length(name, name + strlen(name));
    if (!length || name[length] || length >= sizeof b->name) return;
    snprintf(b->name, sizeof b->name, "%s", name);
    if (c->count < 4 || strcmp(c->words[2].text, "in") != 0) {
        shell_set(r->s, b->name, "", true);
        return;
    }
    for (uint32_t i = 3; i < c->count; i++) {
        const shell_word *w = &c->words[i];
        if (!w->quoted && add_range(w->text, &all, &count)) continue;
        known &= !w->unsure && (w->quoted || !strpbrk(w->text, "*?[{"));
        text_add(&all, "%s%s", count++ ? "\x1f" : "", w->text);
    }
    known &= count <= SHELL_MOST_TURNS && all.data && !all.failed;
    if (known) {
        b->values = memory_text(all.data);
        b->bytes = all.length;
    }
    if (b->values) {
        b->turns = true, b->unsure = false;
        next_turn(r, b);
    } else {
        char likely[SHELL_NAME_BYTES * 4];
        shell_likely(all.data ? all.data : "", likely, sizeof likely);
        shell_set(r->s, b->name, likely, true);
    }
    text_close(&all);
}

/* At "done": true: the next turn begins. */
static bool turn_again(shell_reader *r, bool apart) {
    shell_block *b = top(r);
    bool more = b && b->turns && b->body && b->at <= b->bytes && !r->here_count && !r->function;
    if (more) r->s->work += (uint64_t)(r->at - b->body) + 1;
    if (more && r->s->work <= SHELL_WORK_BYTES) {
        r->at = b->body;
        next_turn(r, b);
        return true;
    }
    if (more) r->s->cut = true;
    pop(r, apart);
    return false;
}

/* ---- functions ---- */

void shell_begin_function(shell_reader *r, const char *name) {
    if (r->function) return;
    const char *next = r->at;
    while (next < r->end && strchr(" \t\r\n", *next) && *next) next++;
    if (next == r->end || *next != '{' || strlen(name) >= sizeof r->function_name) {
        r->maybe = true; /* a body without braces: where it ends is not known */
        return;
    }
    snprintf(r->function_name, sizeof r->function_name, "%s", name);
    r->function = r->braces + 1;
    r->function_body = NULL;
}

static void keep_function(shell_reader *r) {
    shell *s = r->s;
    shell_function *f = s->functions;
    const char *body = r->function_body ? r->function_body : r->at;
    size_t bytes = (size_t)(r->at - body);
    while (f < s->functions + s->function_count && strcmp(f->name, r->function_name) != 0) f++;
    bool is_new = f == s->functions + s->function_count;
    r->function = 0;
    if (is_new && s->function_count == SHELL_MOST_FUNCTIONS) {
        s->cut = true;
        return;
    }
    char *name = is_new ? memory_text(r->function_name) : f->name, *copy = memory_new(bytes + 1, 1);
    if (!name || !copy) {
        s->cut = true;
        memory_free(copy);
        if (is_new) memory_free(name);
        return;
    }
    memcpy(copy, body, bytes);
    bool maybe = shell_may_not_run(r) || r->child.level || (!is_new && f->maybe);
    if (!is_new) memory_free(f->body);
    *f = (shell_function){ name, copy, bytes, maybe, false };
    s->function_count += is_new, s->redefined += !is_new;
}

/* Reads a copy: the function may be defined anew by what it does itself. */
static void read_body(shell *s, const shell_function *f, bool maybe) {
    size_t bytes = f->bytes;
    s->work += bytes + SHELL_COMMAND_BYTES;
    char *copy = s->work <= SHELL_WORK_BYTES && s->calls < SHELL_MOST_CALLS ? memory_new(bytes + 1, 1) : NULL;
    if (!copy) {
        s->cut = true;
        return;
    }
    memcpy(copy, f->body, bytes);
    s->calls++;
    if (shell_read(s, copy, bytes, maybe) != STATUS_OK) s->cut = true;
    s->calls--;
    memory_free(copy);
}

bool shell_call(shell_reader *r) {
    shell *s = r->s;
    const shell_command *c = r->c;
    const char *words[SHELL_MOST_WORDS];
    bool unsure[SHELL_MOST_WORDS];
    shell_function *f = s->functions;
    while (f < s->functions + s->function_count && strcmp(f->name, c->words[0].text) != 0) f++;
    if (f == s->functions + s->function_count || c->words[0].unsure) return false;
    bool maybe = c->maybe || f->maybe, apart = c->child || r->apart;
    for (uint32_t i = 1; i < c->count; i++)
        words[i - 1] = c->words[i].text, unsure[i - 1] = c->words[i].unsure;
    if (c->prefixed) shell_doubt(s);
    if (c->hides) shell_set(s, "CUDA_VISIBLE_DEVICES", "", true);
    f->called = true;
    shell_frame frame;
    shell_begin_frame(s, &frame);
    shell_set_arguments(s, words, unsure, c->count - 1);
    if (c->cut) shell_doubt_arguments(s);
    s->ends = SHELL_RUNS;
    read_body(s, f, maybe);
    shell_end_frame(s, &frame);
    if (apart) {
        shell_doubt(s); /* what a child sets is gone, and its exit is its own */
    } else if (s->ends == SHELL_HAS_ENDED && !maybe) {
        r->ended = true, r->ends = SHELL_HAS_ENDED;
    } else if (s->ends != SHELL_RUNS) {
        r->maybe = true, r->ends = SHELL_MAY_HAVE_ENDED;
    }
    return true;
}

void shell_drop_functions(shell *s, uint32_t count) {
    while (s->function_count > count) {
        shell_function *f = &s->functions[--s->function_count];
        memory_free(f->name);
        memory_free(f->body);
    }
}

status shell_read_uncalled(shell *s) {
    for (uint32_t i = 0; i < s->function_count; i++) {
        if (s->functions[i].called) continue;
        s->functions[i].called = true;
        shell_doubt_arguments(s);
        read_body(s, &s->functions[i], true);
    }
    return STATUS_OK;
}

void shell_leave(shell_reader *r, const char *name) {
    bool maybe = shell_may_not_run(r);
    if (strcmp(name, "return") == 0) {
        if (r->s->calls && !maybe) r->ended = true;
        if (r->s->calls && maybe) r->maybe = true;
        return;
    }
    for (uint32_t i = 0; i < r->depth && i < SHELL_MOST_BLOCKS; i++) /* "break 2" is not counted */
        if (r->blocks[i].loops) r->blocks[i].broken = true;
}

/* ---- keywords ---- */

static void drop_first(shell_command *c) {
    memmove(c->words, c->words + 1, (c->count - 1) * sizeof *c->words);
    c->count--;
}

static void open_brace(shell_reader *r) {
    r->braces++;
    if (r->apart && !r->apart_braces) r->apart_braces = r->braces;
    if (r->function && r->braces == r->function && !r->function_body) r->function_body = r->opened;
    shell_open_group(&r->chain, r->depth, r->chained);
}

static void close_brace(shell_reader *r, bool apart) {
    if (r->braces && r->braces == r->apart_braces) apart = true, r->apart_braces = 0;
    if (apart && !r->function) shell_doubt(r->s);
    if (r->braces && --r->braces < r->function) keep_function(r);
    shell_close_group(&r->chain, r->depth);
}

/* "do" and "then": what was a condition is none any more. */
static void enter(shell_reader *r, const char *word) {
    shell_block *b = top(r);
    if (!b) return;
    if (strcmp(word, "then") == 0 && !b->loops) b->unsure = true;
    if (strcmp(word, "do") == 0 && b->turns && !b->body) b->body = r->opened;
}

/* True: the command is over with that. */
static bool begin_block(shell_reader *r, const char *word) {
    shell_block *b = push(r, word);
    bool names = strcmp(word, "for") == 0 || strcmp(word, "select") == 0;
    if (names) begin_for(r, b);
    if (b && strcmp(word, "select") == 0) b->turns = false, b->unsure = true;
    return names || strcmp(word, "case") == 0;
}

bool shell_take_keywords(shell_reader *r, bool apart, bool *again) {
    static const char *const opening[] = { "if", "while", "until", "for", "case", "select", NULL };
    static const char *const closing[] = { "fi", "done", "esac", NULL };
    static const char *const leading[] = { "then", "else", "elif", "do", "!", "time", NULL };
    shell_command *c = r->c;
    while (c->count && !c->words[0].quoted && !c->words[0].unsure) {
        const char *first = c->words[0].text;
        bool timed = strcmp(first, "time") == 0;
        if (shell_is_one_of(first, opening)) {
            if (begin_block(r, first)) return false;
        } else if (strcmp(first, "done") == 0) {
            if (turn_again(r, apart)) {
                *again = true;
                return false;
            }
        } else if (shell_is_one_of(first, closing)) {
            pop(r, apart);
        } else if (strcmp(first, "}") == 0) {
            close_brace(r, apart);
        } else if (strcmp(first, "{") == 0) {
            open_brace(r);
        } else if (strcmp(first, "function") == 0 && c->count > 1) {
            const char *body = c->count > 2 && strcmp(c->words[2].text, "{") == 0 ? r->opened : NULL;
            drop_first(c);
            if (!r->function && body) {
                snprintf(r->function_name, sizeof r->function_name, "%.63s", c->words[0].text);
                r->function = r->braces + 1, r->function_body = NULL;
            } else if (!r->function) {
                shell_begin_function(r, c->words[0].text);
            }
        } else if (shell_is_one_of(first, leading)) {
            enter(r, first);
        } else {
            break;
        }
        drop_first(c);
        if (timed && c->count && strcmp(c->words[0].text, "-p") == 0) drop_first(c);
    }
    return c->count > 0;
}
