/* Which of the messages that are known stands in a text. */
#include <ctype.h>
#include <string.h>

#include "estimate/oom/readers.h"

enum { LONGEST = 4096, NEAR = 256 };

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

/* People's words are words: no letter stands beside them, as in ZOOM. */
static bool stands_alone(span all, const char *mark, const char *after) {
    bool before = mark > all.at && isalpha((unsigned char)mark[-1]);
    return !before && !(after < all.end && isalpha((unsigned char)*after));
}

/* What belongs to a message ends where the next one like it begins: beside it stand those of other ranks. */
static span own(span s, const char *mark) {
    span next = span_behind(s, mark);
    if (next.at) s.end = next.at - strlen(mark);
    if (s.end - s.at > LONGEST) s.end = s.at + LONGEST;
    return s;
}

/* The last message of that kind; *at: where it stands. */
static bool read_last(span all, const oom_message *m, oom *out, const char **at) {
    char flat[LONGEST];
    bool any = false;
    for (span s = span_behind(all, m->mark); s.at; s = span_behind(s, m->mark)) {
        oom one = { .kind = m->kind, .gpu = -1 };
        const char *mark = s.at - strlen(m->mark);
        if (!in_text(all, mark, s.at) || (m->kind == OOM_WORDS && !stands_alone(all, mark, s.at))) continue;
        if (m->read && !m->read(span_flat(own(s, m->mark), flat, sizeof flat), all, &one)) continue;
        *out = one, *at = mark, any = true;
    }
    return any;
}

static bool is_kill(const oom_message *m) { return m->kind == OOM_KILLED; }

bool oom_read(const char *bytes, size_t length, oom *out) {
    span all = { bytes, bytes + length };
    const char *at = NULL;
    oom kill = { .gpu = -1 };
    *out = (oom){ .gpu = -1 };
    for (size_t i = 0; i < sizeof tables / sizeof *tables; i++)
        for (const oom_message *m = tables[i]; m->mark; m++) {
            oom one;
            const char *where;
            bool wanted = !out->kind || (is_kill(m) && !kill.kind);
            if (!wanted || !read_last(all, m, &one, &where)) continue;
            if (is_kill(m) && !kill.kind) kill = one;
            if (!out->kind) *out = one, at = where;
        }
    /* signal 9 beside another message is how a launcher ends the other ranks */
    out->killed = kill.kind && (out->kind == OOM_KILLED || kill.kill != OOM_KILL_SIGNAL);
    if (out->kind) oom_find_place(all, at, out);
    return out->kind != OOM_NONE;
}
