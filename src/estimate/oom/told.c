/* What people say of where and how memory ran out, in a thread's title or beside the message. */
#include <ctype.h>
#include <string.h>

#include "estimate/oom/readers.h"

enum { LONGEST_WORD = 32, REACH = 3 };

/* ---- words ---- */

/* The next word, small, and whether a sentence's or a clause's end stands before it. Letters beyond ASCII are
 * words of their own kind: they end one. */
static bool next_word(span *s, char out[LONGEST_WORD]) {
    size_t n = 0;
    while (s->at < s->end && !isalpha((unsigned char)*s->at)) s->at++;
    for (; s->at < s->end && (isalnum((unsigned char)*s->at) || *s->at == '_'); s->at++)
        if (n + 1 < LONGEST_WORD) out[n++] = (char)tolower((unsigned char)*s->at);
    out[n] = '\0';
    return n > 0;
}

static bool is_one_of(const char *word, const char *const *list) {
    while (*list && strcmp(word, *list) != 0) list++;
    return *list != NULL;
}

#define IS(word, ...) is_one_of((word), (const char *const[]){ __VA_ARGS__, NULL })

/* OOM_FORWARD: of training. */
static oom_place phase_of(const char *word) {
    if (IS(word, "train", "training", "finetuning", "finetune", "trained")) return OOM_FORWARD;
    if (IS(word, "val", "validation", "validate", "validating", "eval", "evals", "evaluate", "evaluating",
           "evaluation"))
        return OOM_VALIDATION;
    if (IS(word, "save", "saving", "saves", "checkpointing")) return OOM_SAVING;
    if (IS(word, "load", "loading", "resume", "resuming", "restore", "restoring")) return OOM_LOADING;
    return OOM_NOWHERE;
}

static bool is_data(const char *word) {
    return IS(word, "data", "dataset", "datasets", "images", "image", "batch", "batches", "dataloader",
              "tokenizer");
}

/* Checkpoints of another kind. */
static bool is_recomputed(const char *word) { return IS(word, "gradient", "activation", "activations"); }

static bool says_time(const char *word) {
    return IS(word, "during", "when", "while", "at", "on", "upon", "in", "whenever");
}

/* The first that is named within a few words. Data that is loaded fills no device. */
static oom_place phase_within(span s, int reach) {
    char word[LONGEST_WORD], next[LONGEST_WORD];
    for (int i = 0; i < reach && next_word(&s, word); i++) {
        if (is_recomputed(word)) return OOM_NOWHERE;
        oom_place place = phase_of(word);
        span behind = s;
        if (place == OOM_NOWHERE) continue;
        bool data = place == OOM_LOADING && next_word(&behind, next) && is_data(next);
        return data ? OOM_NOWHERE : place;
    }
    return OOM_NOWHERE;
}

/* ---- where ---- */

static bool says_failure(span line) {
    static const char *const words[] = { "memory",
                                         "oom",
                                         "fail",
                                         "crash",
                                         "\xe5\xa4\xb1\xe8\xb4\xa5",   /* failure */
                                         "\xe6\x98\xbe\xe5\xad\x98" }; /* memory of the device */
    for (size_t i = 0; i < sizeof words / sizeof *words; i++)
        if (span_has(line, words[i])) return true;
    return false;
}

/* "OOM when evaluating", "crashes while it resumes training" */
static oom_place told_by_time(span line) {
    char word[LONGEST_WORD];
    for (span s = line; next_word(&s, word);) {
        oom_place place = says_time(word) ? phase_within(s, REACH) : OOM_NOWHERE;
        if (place == OOM_FORWARD && strcmp(word, "in") == 0) continue; /* saving in training is saving */
        if (place != OOM_NOWHERE) return place;
    }
    return OOM_NOWHERE;
}

/* "Evaluation OOM", "Training works, evaluation fails": one of them beside training. */
static oom_place told_alone(span line) {
    char word[LONGEST_WORD];
    oom_place found = OOM_NOWHERE;
    bool loads_data = false;
    for (span s = line; next_word(&s, word);) {
        oom_place place = phase_of(word);
        loads_data = loads_data || is_data(word);
        if (is_recomputed(word)) return OOM_NOWHERE;
        if (place == OOM_NOWHERE || place == OOM_FORWARD || place == found) continue;
        if (found != OOM_NOWHERE) return OOM_NOWHERE;
        found = place;
    }
    return found == OOM_LOADING && loads_data ? OOM_NOWHERE : found;
}

static bool is_title(span line) { return line.at < line.end && *line.at == '#'; }

/* Of a call a bracket stands right behind a name. */
static bool calls(span line) {
    for (span s = span_behind(line, "("); s.at; s = span_behind(s, "("))
        if (s.at - 1 > line.at && (isalnum((unsigned char)s.at[-2]) || s.at[-2] == '_')) return true;
    return false;
}

/* Lines of tracebacks and of logs have been read by others. */
static bool is_prose(span line) {
    return is_title(line) || !(span_behind(line, "File \"").at || calls(line));
}

oom_place oom_place_told(span text) {
    for (span line = span_line(&text); line.at; line = span_line(&text)) {
        if (!is_prose(line) || !says_failure(line)) continue;
        oom_place place = told_by_time(line);
        if (place == OOM_NOWHERE && is_title(line)) place = told_alone(line);
        if (place != OOM_NOWHERE && place != OOM_FORWARD) return place;
    }
    return OOM_NOWHERE;
}

static bool has_one_of(span text, const char *const *words) {
    while (*words && !span_has(text, *words)) words++;
    return *words != NULL;
}

/* The machine's memory and not the device's: "runs out of RAM", "system memory". */
bool oom_told_host(span text) {
    static const char *const words[] = { "system memory",     "cpu memory", "host memory", "system ram",
                                         "cpu ram",           "out of ram", "cpu oom",     "slurm oom",
                                         "slurm out",         "oom killer", "oom-killer",  "oom killed",
                                         "cpu out of memory", NULL };
    return has_one_of(text, words);
}

/* A title that names a library with what it lacks: "NCCL CUDA out of memory". */
bool oom_told_library(span text) {
    static const char *const words[] = { "nccl", "rccl", "hccl", "cudnn", "cublas", NULL };
    span line = span_line(&text);
    return line.at && is_title(line) && says_failure(line) && has_one_of(line, words);
}
