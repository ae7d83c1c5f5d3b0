#include "estimate/oom/span.h"

#include <ctype.h>
#include <string.h>

span span_behind(span s, const char *word) {
    size_t n = strlen(word);
    for (const char *p = s.at; p && n <= (size_t)(s.end - p); p++) {
        p = memchr(p, *word, (size_t)(s.end - p) - n + 1);
        if (!p) break;
        if (memcmp(p, word, n) == 0) return (span){ p + n, s.end };
    }
    return (span){ NULL, s.end };
}

static bool begins(const char *at, const char *word, size_t n) {
    for (size_t i = 0; i < n; i++)
        if (tolower((unsigned char)at[i]) != tolower((unsigned char)word[i])) return false;
    return true;
}

span span_behind_any(span s, const char *word) {
    size_t n = strlen(word);
    for (const char *p = s.at; p && n <= (size_t)(s.end - p); p++)
        if (begins(p, word, n)) return (span){ p + n, s.end };
    return (span){ NULL, s.end };
}

bool span_has(span s, const char *word) { return span_behind_any(s, word).at != NULL; }

span span_line(span *rest) {
    if (!rest->at || rest->at >= rest->end) return (span){ NULL, rest->end };
    const char *end = memchr(rest->at, '\n', (size_t)(rest->end - rest->at));
    span line = { rest->at, end ? end : rest->end };
    rest->at = end ? end + 1 : rest->end;
    return line;
}

bool span_number(span *s, double *out) {
    double value = 0, place = 1;
    bool any = false, point = false;
    while (s->at < s->end && (*s->at == ' ' || *s->at == '(')) s->at++;
    for (; s->at < s->end; s->at++) {
        if (*s->at == '.' && !point && any) {
            point = true;
            continue;
        }
        if (!isdigit((unsigned char)*s->at)) break;
        any = true;
        if (point)
            value += (*s->at - '0') * (place /= 10);
        else if (value < 1e18)
            value = value * 10 + (*s->at - '0');
    }
    *out = value;
    return any;
}

/* Of units that begin alike the longest comes first. Those of a thousand are not meant by who writes GB here:
 * MPS, XLA and PBS count in 1024. */
uint64_t span_size(span s) {
    static const struct {
        const char *name;
        double bytes;
    } units[] = { { "bytes", 1 },
                  { "KiB", 1024 },
                  { "MiB", 1048576 },
                  { "GiB", 1073741824 },
                  { "TiB", 1099511627776.0 },
                  { "KB", 1024 },
                  { "kB", 1024 },
                  { "kb", 1024 },
                  { "MB", 1048576 },
                  { "mb", 1048576 },
                  { "GB", 1073741824 },
                  { "gb", 1073741824 },
                  { "TB", 1099511627776.0 },
                  { "K", 1024 },
                  { "M", 1048576 },
                  { "G", 1073741824 },
                  { "T", 1099511627776.0 },
                  { "B", 1 } };
    double value;
    if (!s.at || !span_number(&s, &value)) return 0;
    while (s.at < s.end && *s.at == ' ') s.at++;
    for (size_t i = 0; i < sizeof units / sizeof *units; i++) {
        size_t n = strlen(units[i].name), left = (size_t)(s.end - s.at);
        double bytes = value * units[i].bytes;
        if (left < n || memcmp(s.at, units[i].name, n) != 0) continue;
        if (left > n && isalpha((unsigned char)s.at[n])) continue;
        return bytes < 1e18 ? (uint64_t)bytes : (uint64_t)1e18;
    }
    return 0;
}

int64_t span_count(span s, int64_t absent) {
    double value;
    return s.at && span_number(&s, &value) && value < 1e15 ? (int64_t)value : absent;
}

uint64_t span_size_before(span s, const char *word) {
    span after = span_behind(s, word);
    if (!after.at) return 0;
    const char *end = after.at - strlen(word), *p = end;
    while (p > s.at && p[-1] == ' ') p--;
    while (p > s.at && isalpha((unsigned char)p[-1])) p--;
    while (p > s.at && p[-1] == ' ') p--;
    while (p > s.at && (isdigit((unsigned char)p[-1]) || p[-1] == '.')) p--;
    return span_size((span){ p, end });
}

/* Frames are drawn of characters that UTF-8 begins with E2 94 and E2 95. */
static size_t frame(span s) {
    const unsigned char *p = (const unsigned char *)s.at;
    return s.end - s.at >= 3 && p[0] == 0xe2 && (p[1] == 0x94 || p[1] == 0x95) ? 3 : 0;
}

span span_flat(span s, char *out, size_t room) {
    size_t n = 0;
    while (s.at < s.end && n < room) {
        size_t skip = frame(s);
        if (!skip && isspace((unsigned char)*s.at)) skip = 1;
        if (!skip)
            out[n++] = *s.at++;
        else if (s.at += skip, n && out[n - 1] != ' ')
            out[n++] = ' ';
    }
    return (span){ out, out + n };
}
