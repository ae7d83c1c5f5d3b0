/* Whether memory grew from step to step: by the figures of a log, and by what people say. */
#include <ctype.h>
#include <string.h>

#include "estimate/oom/readers.h"

enum { MANY_STEPS = 100, MANY_EPOCHS = 2, RISES = 3 };

static bool begins_with(span s, const char *word) {
    size_t n = strlen(word);
    return (size_t)(s.end - s.at) >= n && memcmp(s.at, word, n) == 0;
}

static void skip_word(span *s) {
    while (s->at < s->end && *s->at != ' ') s->at++;
    while (s->at < s->end && *s->at == ' ') s->at++;
}

static bool is_unit(span s, double count) {
    if (begins_with(s, "iter") || begins_with(s, "step")) return count >= MANY_STEPS;
    return begins_with(s, "epoch") && count >= MANY_EPOCHS;
}

/* "15K iteration", "22000 iterations", "2 epochs", "2000 training steps" */
static bool many(span s) {
    double count;
    if (!span_number(&s, &count)) return false;
    if (s.at < s.end && (*s.at == 'K' || *s.at == 'k')) count *= 1000;
    for (int word = 0; word < 3; word++) {
        if (is_unit(s, count)) return true;
        skip_word(&s);
    }
    return false;
}

/* "step=1600", "iteration 4900" */
static bool names_late(span s) {
    double count;
    span number = s;
    while (number.at < number.end && isalpha((unsigned char)*number.at)) number.at++;
    if (number.at == s.at || number.at == number.end || !strchr(" =:#", *number.at)) return false;
    number.at++;
    return span_number(&number, &count) && is_unit(s, count);
}

/* "after several epochs" */
static bool is_after_several(span line) {
    static const char *const words[] = { "after several ", "after a few ", "after some ", "after many " };
    for (size_t i = 0; i < sizeof words / sizeof *words; i++) {
        span s = span_behind(line, words[i]);
        if (s.at && is_unit(s, MANY_STEPS)) return true;
    }
    return false;
}

bool oom_tells_growth(span line) {
    static const char *const words[] = { "memory leak",         "leakage",
                                         "keeps increasing",    "keep increasing",
                                         "keeps growing",       "keep growing",
                                         "growed slowly",       "memory grows",
                                         "gradually increas",   "continuously incr",
                                         "constantly increas",  "steadily increas",
                                         "keeps on increas",    "increase over time",
                                         "increases over time", "grows over time" };
    for (size_t i = 0; i < sizeof words / sizeof *words; i++)
        if (span_has(line, words[i])) return true;
    if (!span_has(line, "out of memory") && !span_has(line, "oom")) return false;
    for (const char *p = line.at; p < line.end; p++) {
        span rest = { p, line.end };
        bool begins = p == line.at || p[-1] == ' ';
        if (begins && (isdigit((unsigned char)*p) ? many(rest) : names_late(rest))) return true;
    }
    return is_after_several(line);
}

/* A figure of the device's memory that loops print; 0: none. */
static double figure(span line) {
    static const char *const names[] = { "max mem: ", "max_mem: ", "memory: ", "mem_usage:cuda:0 " };
    double value = 0;
    for (size_t i = 0; i < sizeof names / sizeof *names; i++) {
        span at = span_behind(line, names[i]);
        if (at.at && span_number(&at, &value)) return value;
    }
    span of = span_behind(line, "MiB / ");
    return of.at ? (double)span_size_before(line, " / ") : 0;
}

bool oom_grows(span s) {
    double last = 0, first = 0;
    int rises = 0;
    for (span line = span_line(&s); line.at; line = span_line(&s)) {
        double now = figure(line);
        if (now <= 0) continue;
        if (first <= 0) first = now;
        rises = now > last ? rises + 1 : 0;
        last = now;
    }
    return rises > RISES && last > first;
}
