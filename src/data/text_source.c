#include "data/text_source.h"

#include <inttypes.h>
#include <string.h>

#include "base/memory.h"
#include "base/units.h"
#include "data/answers.h"
#include "data/windows.h"

/* Among so many documents pieces are packed by size (bench/results/fill.md). */
enum { BLOCK_DOCUMENTS = 1024, SCRATCH_ALIGN = 64 };

/* A part of the tokens, and what samples are made of it. */
typedef struct {
    corpus *of;
    uint32_t context, vocabulary;
    uint64_t first, tokens;
    bool hold_out;
    bool packed, whole; /* whole: samples are `windows` */
    bool gaps;          /* asked for; labels are in place then where something is said of tokens */
    text_source_packing packing;
    windows windows;
    bool answers; /* samples are documents from this one on */
    uint64_t document;
} text_state;

/* For one sample. */
static status enough(const text_state *t) {
    if (t->tokens > t->context) return STATUS_OK;
    return status_set(STATUS_INVALID,
                      "%s%s has %" PRIu64 " token%s; a context of %u needs at least %" PRIu64
                      ": use a shorter --context or more text",
                      t->hold_out ? "the training part (first nine tenths) of " : "", t->of->path, t->tokens,
                      t->tokens == 1 ? "" : "s", t->context, (uint64_t)t->context + 1);
}

/* What stands before the packed block in a reader's scratch. */
static uint64_t read_scratch(const data_source *s) {
    const text_state *t = s->state;
    uint64_t bytes = t->of->format->scratch_bytes;
    return bytes ? bytes : ((uint64_t)t->context + 1) * t->of->width;
}

static data_window window_of(const data_source *s, void *scratch) {
    const text_state *t = s->state;
    return (data_window){ .context = t->context,
                          .vocabulary = t->vocabulary,
                          .in_place = s->in_place,
                          .scratch = scratch,
                          .scratch_bytes = read_scratch(s) };
}

/* Behind the last document of a sample: a segment of its own, that nothing is learned of. */
static void pad(data_window *w, int32_t padding) {
    format_begin(w);
    while (w->at < w->context) format_put_as(w, padding, false);
    if (!w->in_place) w->labels[w->context - 1] = DATA_IGNORED_LABEL;
}

static status read_whole(const text_state *t, uint64_t sample, data_window *w) {
    void *own = (char *)w->scratch + units_align(w->scratch_bytes, SCRATCH_ALIGN);
    TRY(windows_read(&t->windows, t->of, sample, own, w));
    if (w->at <= w->context) pad(w, t->packing.padding); /* else its last document goes on */
    return STATUS_OK;
}

static answers_options answers_of(const text_state *t) {
    return (answers_options){ .context = t->context,
                              .vocabulary = t->vocabulary,
                              .start = t->packing.start,
                              .padding = t->packing.padding };
}

static status read_answer(const text_state *t, uint64_t sample, void *scratch, void *const fields[]) {
    answers_options o = answers_of(t);
    answers_sample to = { fields[0], fields[1], fields[2], fields[3] };
    return answers_read(t->of, t->document + sample, &o, scratch, &to);
}

static status source_read(const data_source *s, uint64_t sample, void *scratch, void *const fields[]) {
    const text_state *t = s->state;
    if (t->answers) return read_answer(t, sample, scratch, fields);
    data_window w = window_of(s, scratch);
    w.tokens = fields[0], w.labels = fields[1]; /* (T), (T) */
    if (t->packed) w.segments = fields[2], w.first_position = t->packing.first_position;
    if (t->packed && t->packing.positions) w.positions = fields[3];
    if (t->whole) return read_whole(t, sample, &w);
    return corpus_read(t->of, t->first + sample * t->context, (uint64_t)t->context + 1, &w);
}

/* Whether each document is a text and its answer shows in its tokens alone. */
static status check_answers(const data_source *s) {
    const text_state *t = s->state;
    answers_options o = answers_of(t);
    void *scratch = memory_new(s->scratch_bytes, 1);
    status result = STATUS_OK;
    if (!scratch) return status_set(STATUS_FAILED, "no memory to look through the data");
    for (uint64_t i = 0; i < s->samples && result == STATUS_OK; i++)
        result = answers_read(t->of, t->document + i, &o, scratch, &(answers_sample){ 0 });
    memory_free(scratch);
    return result;
}

/* Without fields ids are only compared with the vocabulary. */
static status source_check(const data_source *s) {
    enum { BLOCK = 64 << 10 };
    const text_state *t = s->state;
    if (t->answers) return check_answers(s);
    if (t->of->ceiling <= t->vocabulary) return STATUS_OK;
    void *block = memory_new(BLOCK, 1);
    if (!block) return status_set(STATUS_FAILED, "no memory to look through the data");
    data_window w = window_of(s, block);
    w.scratch_bytes = BLOCK;
    status result = corpus_read(t->of, t->first, t->tokens, &w);
    memory_free(block);
    return result;
}

static void source_close(data_source *s) {
    text_state *t = s->state;
    windows_close(&t->windows);
    corpus_close(t->of);
    memory_free(t);
}

/* A source of some of the tokens; takes one of the corpus's users. */
static status open_part(const text_state *part, data_source *s) {
    const corpus *c = part->of;
    uint64_t field = (uint64_t)part->context * sizeof(int32_t);
    text_state *t = memory_new(1, sizeof *t);
    if (!t) return status_set(STATUS_FAILED, "no memory to open a part of the data");
    *t = *part;
    *s = (data_source){ .samples = t->tokens ? (t->tokens - 1) / t->context : 0,
                        .field_count = 2,
                        .label_field = 1,
                        .field_bytes = { field, field },
                        .in_place = t->gaps && (c->learns_some || c->says_special),
                        .held_bytes = t->first ? sizeof *t : sizeof *t + sizeof *c + c->held_bytes,
                        .read = source_read,
                        .check = source_check,
                        .close = source_close,
                        .state = t };
    s->scratch_bytes = read_scratch(s);
    return STATUS_OK;
}

status text_source_open(const text_source_options *o, data_source *s) {
    *s = (data_source){ 0 };
    if (o->context < 1 || o->context > INT32_MAX / 8 || o->vocabulary < 1 || o->vocabulary > INT32_MAX)
        return status_set(STATUS_INVALID,
                          "data needs a context and a vocabulary of at least 1, not %u and %u", o->context,
                          o->vocabulary);
    text_state t = {
        .context = o->context, .vocabulary = o->vocabulary, .hold_out = o->hold_out, .gaps = o->gaps
    };
    TRY(corpus_open(o->path, o->kind, &t.of));
    t.tokens = o->hold_out ? t.of->tokens - t.of->tokens / 10 : t.of->tokens;
    status result = STATUS_OK;
    if (!corpus_says_ends(t.of)) result = enough(&t);
    if (result == STATUS_OK) result = open_part(&t, s);
    if (result != STATUS_OK) corpus_close(t.of);
    return result;
}

status text_source_may_say_longest(const char *path, data_kind kind, bool *may) {
    data_kind found;
    TRY(corpus_kind(path, kind, &found));
    *may = found != DATA_KIND_AUTO && format_of(found)->says_lengths;
    return STATUS_OK;
}

status text_source_enough(const data_source *s) {
    const text_state *t = s->state;
    return t->whole || t->answers || t->first ? STATUS_OK : enough(t);
}

status text_source_held_out(const data_source *training, data_source *s) {
    text_state t = *(const text_state *)training->state;
    *s = (data_source){ 0 };
    t.packed = t.whole = t.answers = false, t.windows = (windows){ 0 };
    t.first += t.tokens;
    t.tokens = t.of->tokens - t.first;
    t.of->users++;
    status result = open_part(&t, s);
    if (result != STATUS_OK) t.of->users--;
    return result;
}

/* Documents belong to the part in which they begin. */
static status keep_whole(text_state *t, bool alone) {
    uint64_t first, end;
    TRY(windows_document_at(t->of, t->first, &first));
    TRY(windows_document_at(t->of, t->first + t->tokens, &end));
    windows_options o = {
        .context = t->context, .block = BLOCK_DOCUMENTS, .alone = alone, .first = first, .end = end
    };
    TRY(windows_open(t->of, &o, &t->windows));
    t->whole = true;
    return STATUS_OK;
}

static status pack_answers(data_source *s) {
    text_state *t = s->state;
    uint64_t end;
    if (!corpus_says_ends(t->of) || !t->of->learns_some)
        return status_set(STATUS_INVALID,
                          "%s doesn't say what is a text and what the answer to it, which this model learns; "
                          "give records with a prompt and a completion, and a model directory with a "
                          "tokenizer.json",
                          t->of->path);
    TRY(windows_document_at(t->of, t->first, &t->document));
    TRY(windows_document_at(t->of, t->first + t->tokens, &end));
    t->answers = true, t->packed = false;
    s->samples = end - t->document;
    s->scratch_bytes = answers_scratch_bytes(t->of);
    s->field_count = 4, s->in_place = false;
    s->field_bytes[2] = s->field_bytes[0], s->field_bytes[3] = sizeof(int32_t);
    return STATUS_OK;
}

status text_source_pack(data_source *s, const text_source_packing *p) {
    text_state *t = s->state;
    t->packing = *p;
    if (p->way == TEXT_SOURCE_ANSWERS) return pack_answers(s);
    t->packed = true;
    s->field_count = p->positions ? 4 : 3;
    for (uint32_t f = 2; f < s->field_count; f++) s->field_bytes[f] = s->field_bytes[0];
    if (p->way == TEXT_SOURCE_RUNNING) return STATUS_OK;
    if (!corpus_says_ends(t->of))
        return status_set(STATUS_INVALID,
                          "%s doesn't say how long its documents are, so they can't be kept whole; make "
                          "tokens of it with snug tokenize",
                          t->of->files[0].path);
    TRY(keep_whole(t, p->way == TEXT_SOURCE_ALONE));
    s->in_place = t->gaps;
    s->samples = t->windows.windows;
    s->scratch_bytes = units_align(read_scratch(s), SCRATCH_ALIGN) + windows_scratch_bytes(BLOCK_DOCUMENTS);
    s->held_bytes += t->windows.held_bytes;
    return STATUS_OK;
}

double text_source_padding(const data_source *s) {
    const text_state *t = s->state;
    double places = (double)t->windows.windows * t->context;
    return t->whole && places > 0 ? 1 - (double)t->windows.tokens / places : 0;
}

uint64_t text_source_longest(const data_source *s) { return ((const text_state *)s->state)->of->longest; }

bool text_source_learns_some(const data_source *s) { return ((const text_state *)s->state)->of->learns_some; }

bool text_source_says_ends(const data_source *s) {
    return corpus_says_ends(((const text_state *)s->state)->of);
}

uint64_t text_source_documents(const data_source *s) { return ((const text_state *)s->state)->of->documents; }

uint64_t text_source_tokens(const data_source *s) {
    const text_state *t = s->state;
    return t->whole ? t->windows.tokens : t->tokens;
}

data_kind text_source_kind(const data_source *s) { return ((const text_state *)s->state)->of->kind; }

bool text_source_is_text(const data_source *s) { return ((const text_state *)s->state)->of->format->is_text; }

const char *text_source_path(const data_source *s) {
    return ((const text_state *)s->state)->of->files[0].path;
}
