/* Which of the messages that are known stands in a text. */
#include <ctype.h>
#include <string.h>

#include "estimate/oom/readers.h"

enum { LONGEST = 4096, NEAR = 256, LONGEST_BROKEN = 16 << 10 };

static const oom_message *const tables[] = { oom_messages_torch, oom_messages_servers, oom_messages_graphs,
                                             oom_messages_host, oom_messages_bare };

/* Whether the line around a mark is text: words of a program stand between zeros. */
static bool in_text(span all, const char *mark, const char *after) {
    for (const char *p = mark; p > all.at && mark - p < NEAR && p[-1] != '\n'; p--)
        if (!p[-1]) return false;
    for (const char *p = after; p < all.end && p - after < NEAR && *p != '\n'; p++)
        if (!*p) return false;
    return true;
}

/* People's words are words: no letter stands beside them, as in ZOOM, but what makes a verb or a name of
 * them: OOMs, OOMed, OOMing, OutOfMemoryError. */
static bool stands_alone(span all, const char *mark, const char *after) {
    static const char *const ends[] = { "", "s", "ed", "ing", "error", "errors" };
    const char *end = after;
    while (end < all.end && isalpha((unsigned char)*end)) end++;
    size_t n = (size_t)(end - after);
    bool allowed = false;
    for (size_t i = 0; i < sizeof ends / sizeof *ends; i++)
        allowed = allowed || (strlen(ends[i]) == n && span_has((span){ after, end }, ends[i]));
    return allowed && !(mark > all.at && isalpha((unsigned char)mark[-1]));
}

/* What belongs to a message ends where the next one like it begins: beside it stand those of other ranks. */
static span own(span s, const char *mark) {
    span next = span_behind(s, mark);
    if (next.at) s.end = next.at - strlen(mark);
    if (s.end - s.at > LONGEST) s.end = s.at + LONGEST;
    return s;
}

/* People write small and capital letters as they like. */
static span behind(span s, const oom_message *m) {
    return m->kind == OOM_WORDS ? span_behind_any(s, m->mark) : span_behind(s, m->mark);
}

/* The last message of that kind; *at: where it stands. */
static bool read_last(span all, const oom_message *m, oom *out, const char **at) {
    char flat[LONGEST];
    bool any = false;
    for (span s = behind(all, m); s.at; s = behind(s, m)) {
        oom one = { .kind = m->kind, .gpu = -1 };
        const char *mark = s.at - strlen(m->mark);
        if (!in_text(all, mark, s.at) || (m->kind == OOM_WORDS && !stands_alone(all, mark, s.at))) continue;
        if (m->read && !m->read(span_flat(own(s, m->mark), flat, sizeof flat), all, &one)) continue;
        *out = one, *at = mark, any = true;
    }
    return any;
}

static bool is_kill(const oom_message *m) { return m->kind == OOM_KILLED; }

/* Fills *out and, where a message of that kind is there, *kill. Returns where the message of *out stands. */
static const char *read_all(span all, oom *out, oom *kill) {
    const char *at = NULL;
    for (size_t i = 0; i < sizeof tables / sizeof *tables; i++)
        for (const oom_message *m = tables[i]; m->mark; m++) {
            oom one;
            const char *where;
            bool wanted = !out->kind || (is_kill(m) && !kill->kind);
            if (!wanted || !read_last(all, m, &one, &where)) continue;
            if (is_kill(m) && !kill->kind) *kill = one;
            if (!out->kind) *out = one, at = where;
        }
    return at;
}

/* Mails and terminals break lines in the middle of a message: read as one line it may say more. */
static void read_broken(span all, oom *out, oom *kill) {
    char flat[LONGEST_BROKEN];
    oom one = { .gpu = -1 };
    if (all.end - all.at > LONGEST_BROKEN) all.at = all.end - LONGEST_BROKEN;
    read_all(span_flat(all, flat, sizeof flat), &one, kill);
    if (one.kind && (!out->kind || one.kind != OOM_WORDS)) *out = one;
}

bool oom_read(const char *bytes, size_t length, oom *out) {
    span all = { bytes, bytes + length };
    oom kill = { .gpu = -1 };
    *out = (oom){ .gpu = -1 };
    const char *at = read_all(all, out, &kill);
    if (!out->kind || out->kind == OOM_WORDS) read_broken(all, out, &kill);
    /* signal 9 beside another message is how a launcher ends the other ranks */
    out->killed = kill.kind && (out->kind == OOM_KILLED || kill.kill != OOM_KILL_SIGNAL);
    if (out->kind) oom_find_place(all, at ? at : all.end, out);
    return out->kind != OOM_NONE;
}
