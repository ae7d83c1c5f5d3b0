#include "data/answers.h"

#include <inttypes.h>

#include "base/units.h"

enum { PIECE = 255 }; /* tokens that are read at once */

/* Of a piece token i stands at i + 1, and its label at i (data_window). */
typedef struct {
    int32_t tokens[PIECE + 1], labels[PIECE + 1];
} piece;

uint64_t answers_scratch_bytes(const corpus *c) {
    return sizeof(piece) +
           units_align(c->format->scratch_bytes ? c->format->scratch_bytes : (PIECE + 1) * (uint64_t)c->width,
                       8);
}

static status wrong(const corpus *c, uint64_t document, const char *what) {
    return status_set(STATUS_INVALID,
                      "%s: document %" PRIu64 " %s; a model that answers texts learns from records with a "
                      "prompt and a completion, of which snug tokenize MODEL makes tokens",
                      c->path, document, what);
}

/* A document while it is read. */
typedef struct {
    const corpus *c;
    uint64_t document;
    const answers_options *o;
    const answers_sample *to;
    uint64_t text, answer; /* tokens so far */
} reading;

/* A list of T ids: one that has no place takes that of the last. */
static void put(int32_t *list, uint32_t context, uint64_t count, int32_t id) {
    if (list) list[count < context ? count : context - 1] = id;
}

static status take(reading *r, int32_t id, bool learned) {
    if (learned) {
        put(r->to->labels, r->o->context, r->answer++, id);
        return STATUS_OK;
    }
    if (r->answer) return wrong(r->c, r->document, "goes on behind an answer with what is not learned");
    put(r->to->tokens, r->o->context, r->text++, id);
    return STATUS_OK;
}

static status take_piece(reading *r, uint64_t first, uint64_t count, piece *p) {
    data_window w = { .tokens = p->tokens,
                      .labels = p->labels,
                      .context = PIECE + 1,
                      .at = 1,
                      .vocabulary = r->o->vocabulary,
                      .scratch = p + 1,
                      .scratch_bytes = answers_scratch_bytes(r->c) - sizeof *p };
    TRY(corpus_read_documents(r->c, r->document, first, count, &w));
    for (uint64_t i = 0; i < count; i++) TRY(take(r, p->tokens[i + 1], p->labels[i] != DATA_IGNORED_LABEL));
    return STATUS_OK;
}

/* What stands behind text and answer, and what the decoder sees of the latter. */
static void fill(const reading *r) {
    const answers_sample *to = r->to;
    uint64_t most = r->o->context;
    *to->source_length = (int32_t)(r->text < most ? r->text : most);
    for (uint64_t i = r->text; i < most; i++) to->tokens[i] = r->o->padding;
    for (uint64_t i = r->answer; i < most; i++) to->labels[i] = DATA_IGNORED_LABEL;
    to->decoder_tokens[0] = r->o->start;
    for (uint64_t i = 1; i < most; i++)
        to->decoder_tokens[i] = i <= r->answer ? to->labels[i - 1] : r->o->padding;
}

/* Where the document begins and ends. */
static status find(const corpus *c, uint64_t document, uint64_t *begin, uint64_t *end) {
    uint64_t ends[2] = { 0 };
    if (document)
        TRY(corpus_ends(c, document - 1, 2, ends));
    else
        TRY(corpus_ends(c, document, 1, ends + 1));
    *begin = ends[0], *end = ends[1];
    return STATUS_OK;
}

status answers_read(const corpus *c, uint64_t document, const answers_options *o, void *scratch,
                    const answers_sample *to) {
    reading r = { .c = c, .document = document, .o = o, .to = to };
    uint64_t begin, end;
    TRY(find(c, document, &begin, &end));
    for (uint64_t at = begin, n; at < end; at += n) {
        n = end - at < PIECE ? end - at : PIECE;
        TRY(take_piece(&r, at, n, scratch));
    }
    if (!r.text || !r.answer)
        return wrong(c, document, r.text ? "has no answer" : "has no text before its answer");
    if (to->tokens) fill(&r);
    return STATUS_OK;
}
