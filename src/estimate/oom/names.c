/* What a function does, told by the words of its name: "val_one_epoch", "_save_best",
 * "self.restore_weights(", "optimizer_g.step(". Programs name such functions as they like, and their words
 * are few. */
#include <ctype.h>
#include <string.h>

#include "estimate/oom/readers.h"

enum { LONGEST_WORD = 24, MOST_WORDS = 12 };

/* The words of a name, small; of a path "self.optimizer_g.step" those of all its parts. */
typedef struct {
    char words[MOST_WORDS][LONGEST_WORD];
    size_t count, own; /* from `own` on they are the function's, before that of what it belongs to */
    bool called;       /* and not defined */
} name;

static bool in_name(char c) { return isalnum((unsigned char)c) || c == '_'; }

static bool in_path(char c) { return in_name(c) || strchr(".[]'\"", c); }

/* "saveBest" and "save_best" alike. */
static name words_of(span path, bool called) {
    name n = { .called = called };
    size_t length = 0;
    for (const char *p = path.at; p < path.end; p++) {
        bool begins = p > path.at && isupper((unsigned char)*p) && islower((unsigned char)p[-1]);
        if ((!isalnum((unsigned char)*p) || begins) && length) n.count++, length = 0;
        if (*p == '.') n.own = n.count;
        if (!isalnum((unsigned char)*p) || n.count == MOST_WORDS || length + 1 == LONGEST_WORD) continue;
        n.words[n.count][length++] = (char)tolower((unsigned char)*p);
    }
    n.count += length > 0;
    return n;
}

static bool is_one_of(const char *word, const char *const *list) {
    while (*list && strcmp(word, *list) != 0) list++;
    return *list != NULL;
}

static bool has_word(const name *n, size_t from, const char *const *list) {
    for (size_t i = from; i < n->count && i < MOST_WORDS; i++)
        if (is_one_of(n->words[i], list)) return true;
    return false;
}

#define HAS(name, from, ...) has_word((name), (from), (const char *const[]){ __VA_ARGS__, NULL })

/* What is checked, and what is fetched to be validated with, is no validation. */
static bool validates(const name *n) {
    size_t own = n->own;
    if (n->called && n->count == own + 1 && HAS(n, own, "eval", "val", "valid"))
        return false; /* model.eval() */
    if (HAS(n, own, "args", "arguments", "kwargs", "config", "inputs", "schema", "request", "shape", "device",
            "usage"))
        return false;
    if (HAS(n, own, "loader", "dataloader", "dataset", "data", "mask", "index", "idx", "max", "min"))
        return false;
    if (HAS(n, own, "val", "valid", "validate", "validation", "validating", "eval", "evaluate", "evaluation",
            "evaluator"))
        return true;
    if (HAS(n, own, "test") && HAS(n, own, "epoch", "loop", "step")) return true;
    return HAS(n, 0, "evaluator", "validator");
}

/* Autograd saves too, and pictures are saved. */
static bool saves(const name *n) {
    size_t own = n->own;
    if (HAS(n, 0, "backward", "image", "images", "img", "fig", "figure", "plot", "plt", "sample", "samples",
            "video"))
        return false;
    if (HAS(n, own, "load", "restore", "cpu", "init")) return false;
    if (HAS(n, own, "save", "saving", "saver")) return true;
    return HAS(n, own, "state") && HAS(n, own, "dict") && !HAS(n, own, "set", "from");
}

/* Weights, and not what is trained on. */
static bool loads(const name *n) {
    size_t own = n->own;
    static const char *const weights[] = { "model",   "models",     "net",    "network",    "weights",
                                           "weight",  "checkpoint", "ckpt",   "state",      "pipeline",
                                           "pipe",    "unet",       "vae",    "encoder",    "decoder",
                                           "adapter", "shard",      "shards", "pretrained", "paddle",
                                           "th",      "flow",       NULL };
    if (HAS(n, own, "data", "dataset", "datasets", "dataloader", "image", "images", "config", "tokenizer",
            "batch"))
        return false;
    if (HAS(n, own, "resume", "restore")) return true;
    return HAS(n, own, "load", "loads", "loading", "reload") && has_word(n, 0, weights);
}

/* Its steps, and where its state is made. */
static bool updates(const name *n) {
    if (HAS(n, 0, "scheduler", "sched", "lr")) return false;
    if (HAS(n, n->own, "optimizer", "optim") && HAS(n, n->own, "init", "initialize", "configure", "states"))
        return true;
    bool optimizer = HAS(n, 0, "optim", "optimizer", "optimizers", "opt", "scaler");
    return optimizer && HAS(n, n->own, "step", "update");
}

static bool makes_logits(const name *n) {
    if (HAS(n, n->own, "logprob", "logprobs", "logps", "nll", "ctc", "rnnt", "logsumexp")) return true;
    bool logarithms = HAS(n, n->own, "log") && HAS(n, n->own, "prob", "probs", "softmax");
    return logarithms || (HAS(n, n->own, "cross") && HAS(n, n->own, "entropy"));
}

/* Attention that is named for making all scores. */
static bool makes_scores(const name *n) {
    return HAS(n, n->own, "attention", "attn") && HAS(n, n->own, "unfused", "eager", "naive", "math");
}

static oom_place place_of_words(const name *n) {
    if (makes_scores(n)) return OOM_ATTENTION;
    if (validates(n)) return OOM_VALIDATION;
    if (loads(n)) return OOM_LOADING;
    if (saves(n)) return OOM_SAVING;
    if (updates(n)) return OOM_OPTIMIZER;
    return makes_logits(n) ? OOM_LOSS : OOM_NOWHERE;
}

/* Behind the last " in " of a frame, where the line or an argument list ends it: else it is no name. */
static span defined(span line) {
    span at = { NULL, line.end };
    for (span s = span_behind(line, " in "); s.at; s = span_behind(s, " in ")) at = s;
    const char *end = at.at;
    while (end && end < line.end && (in_name(*end) || *end == '.')) end++;
    bool ends = end && (end == line.end || strchr("(\r", *end) ||
                        (*end == ' ' && (end + 1 == line.end || end[1] == ' ')));
    return (span){ ends ? at.at : NULL, end };
}

/* A file of a library's optimizers, but for schedules, which stand there too and wrap what they call. */
static bool is_optimizers_file(span line) {
    bool file = span_behind(line, "/optim/").at || span_behind(line, "\\optim\\").at ||
                span_behind(line, "/optimizers/").at;
    return file && !span_behind(line, "lr_scheduler").at;
}

oom_place oom_place_of_names(span line) {
    span frame = defined(line);
    name n;
    if (is_optimizers_file(line)) return OOM_OPTIMIZER;
    if (frame.at) {
        n = words_of(frame, false);
        oom_place place = place_of_words(&n);
        if (place != OOM_NOWHERE || (frame.end < line.end && *frame.end == '(')) return place;
    }
    for (span s = span_behind(line, "("); s.at; s = span_behind(s, "(")) {
        span path = { s.at - 1, s.at - 1 };
        while (path.at > line.at && in_path(path.at[-1])) path.at--;
        n = words_of(path, true);
        oom_place place = place_of_words(&n);
        if (place != OOM_NOWHERE) return place;
    }
    return OOM_NOWHERE;
}

/* ---- the scores of attention ---- */

/* The file's or the function's name of a frame: "models/attention.py", line 7, in forward */
bool oom_frame_is_attention(span line, bool *is_frame) {
    *is_frame =
        span_behind(line, "File \"").at || (span_behind(line, ":").at && span_behind(line, " in ").at);
    const char *begin = line.at;
    for (const char *p = line.at; p < line.end; p++)
        if (*p == '/' || *p == '\\') begin = p;
    span last = { begin, line.end };
    return *is_frame && (span_has(last, "attention") || span_has(last, "attn"));
}

/* What is as large as all pairs of tokens. */
bool oom_line_makes_scores(span line) {
    static const char *const words[] = { "softmax", "bmm(",        "matmul", "einsum(",
                                         " @ ",     "masked_fill", "scores", "dots" };
    for (size_t i = 0; i < sizeof words / sizeof *words; i++)
        if (span_behind(line, words[i]).at) return true;
    return false;
}
