/* What snug tokenize makes (docs/formats.md): a safetensors file with
 *
 *   tokens   u16 or u32 (tokens)      the ids of all documents, one behind the other
 *   ends     u64 (documents)          how many tokens there are up to the end of each document
 *   learned  u8 (tokens)              1: a model learns to write the token; without it, all are learned
 *   special  u32                      ids that stand for no text, rising: models that fill gaps never have
 *                                     them hidden. It may be missing
 *
 * What it was made of stands in its __metadata__, which is for who makes it (tokenize/). */
#include <inttypes.h>
#include <string.h>

#include "base/memory.h"
#include "data/formats/format.h"
#include "io/safetensors.h"

enum { PIECE = 1024 };           /* tokens, and ends, that are read at once */
enum { SPECIAL_MOST = 1 << 20 }; /* ids that stand for no text; more are none of a tokenizer's */

typedef struct {
    uint32_t ids[PIECE];
    uint64_t ends[PIECE];
    uint8_t learned[PIECE];
} piece;

static status wrong(const data_file *f, const char *what) {
    return status_set(STATUS_INVALID,
                      "%s is no file of tokens: %s; files of tokens are made by snug tokenize, and weights "
                      "are no data",
                      f->path, what);
}

static uint32_t width_of(const safetensors_entry *e) {
    if (e->rank != 1) return 0;
    return strcmp(e->dtype, "U16") == 0 ? 2 : strcmp(e->dtype, "U32") == 0 ? 4 : 0;
}

static bool is_list(const safetensors_entry *e, const char *type) {
    return e && e->rank == 1 && strcmp(e->dtype, type) == 0;
}

static status take_entries(data_file *f, const safetensors *s) {
    const safetensors_entry *tokens = safetensors_find(s, "tokens"), *ends = safetensors_find(s, "ends"),
                            *learned = safetensors_find(s, "learned");
    if (!tokens) return wrong(f, "it has no 'tokens'");
    f->width = width_of(tokens);
    if (!f->width) return wrong(f, "its 'tokens' are no list of u16 or u32");
    if (!is_list(ends, "U64")) return wrong(f, "it has no list 'ends' of u64");
    if (learned && (!is_list(learned, "U8") || learned->dim[0] != tokens->dim[0]))
        return wrong(f, "its 'learned' is no list of u8, one for each token");
    f->ceiling = (uint64_t)1 << 8 * f->width;
    f->tokens = (uint64_t)tokens->dim[0], f->documents = (uint64_t)ends->dim[0];
    f->offset = tokens->offset, f->ends = ends->offset, f->learned = learned ? learned->offset : 0;
    return STATUS_OK;
}

status format_ends(const data_file *f, uint64_t first, uint32_t count, uint64_t *ends) {
    return format_pread(f, f->ends + first * sizeof *ends, ends, count * sizeof *ends);
}

/* Ends rise, and the last one is the number of tokens: what is read by them later is where they say. */
static status check_ends(data_file *f) {
    uint64_t ends[PIECE], before = 0;
    for (uint64_t first = 0; first < f->documents; first += PIECE) {
        uint32_t n = f->documents - first < PIECE ? (uint32_t)(f->documents - first) : PIECE;
        TRY(format_ends(f, first, n, ends));
        for (uint32_t i = 0; i < n; before = ends[i++]) {
            if (ends[i] <= before || ends[i] > f->tokens)
                return status_set(STATUS_INVALID,
                                  "%s: document %" PRIu64 " ends behind %" PRIu64 " tokens, the one before "
                                  "it behind %" PRIu64 ", and there are %" PRIu64 "; make the file anew",
                                  f->path, first + i, ends[i], before, f->tokens);
            if (ends[i] - before > f->longest) f->longest = ends[i] - before;
        }
    }
    if (before == f->tokens) return STATUS_OK;
    return status_set(STATUS_INVALID,
                      "%s: its documents end behind %" PRIu64 " tokens, and it has %" PRIu64
                      "; make the file anew",
                      f->path, before, f->tokens);
}

static status read_special(data_file *f, const safetensors *s) {
    const safetensors_entry *e = safetensors_find(s, "special");
    if (!e) return STATUS_OK;
    if (!is_list(e, "U32") || e->dim[0] > SPECIAL_MOST)
        return wrong(f, "its 'special' is no list of u32, or too long a one");
    if (e->dim[0] == 0) return STATUS_OK;
    f->special = memory_new((size_t)e->dim[0], sizeof *f->special);
    if (!f->special) return status_set(STATUS_FAILED, "%s: no memory for its special ids", f->path);
    f->special_count = (uint64_t)e->dim[0];
    TRY(format_pread(f, e->offset, f->special, e->bytes));
    for (uint64_t i = 1; i < f->special_count; i++)
        if (f->special[i] <= f->special[i - 1]) return wrong(f, "its 'special' does not rise");
    return STATUS_OK;
}

static bool is_special(const data_file *f, uint32_t id) {
    uint64_t low = 0, high = f->special_count;
    while (low < high) {
        uint64_t middle = low + (high - low) / 2;
        if (f->special[middle] < id)
            low = middle + 1;
        else
            high = middle;
    }
    return low < f->special_count && f->special[low] == id;
}

static status inspect(data_file *f, bool asked) {
    (void)asked;
    safetensors s;
    TRY(safetensors_open(f->path, &s));
    status result = take_entries(f, &s);
    if (result == STATUS_OK) result = read_special(f, &s);
    safetensors_close(&s);
    return result == STATUS_OK ? check_ends(f) : result;
}

/* The document in which a token stands. */
static status find_document(const data_file *f, uint64_t token, uint64_t *document) {
    uint64_t low = 0, high = f->documents, end; /* ends below `low` are at most `token` */
    while (low < high) {
        uint64_t middle = low + (high - low) / 2;
        TRY(format_ends(f, middle, 1, &end));
        if (end <= token)
            low = middle + 1;
        else
            high = middle;
    }
    *document = low;
    return STATUS_OK;
}

static status read_learned(const data_file *f, uint64_t first, uint64_t count, piece *p) {
    memset(p->learned, 1, count);
    return f->learned ? format_pread(f, f->learned + first, p->learned, count) : STATUS_OK;
}

/* At most PIECE tokens; `*document` is that of the first of them, and then that of the next one. */
static status read_piece(const data_file *f, uint64_t first, uint64_t count, uint64_t *document,
                         data_window *to) {
    piece *p = to->scratch;
    uint64_t left = f->documents - *document, at = 0;
    uint32_t n = left < count ? (uint32_t)left : (uint32_t)count;
    TRY(format_pread(f, f->offset + first * f->width, p->ids, count * f->width));
    TRY(format_ends(f, *document, n, p->ends));
    TRY(read_learned(f, first, count, p));
    for (uint64_t i = 0; i < count; i++) {
        uint32_t id = f->width == 2 ? ((const uint16_t *)p->ids)[i] : p->ids[i];
        if (id >= to->vocabulary) return format_wrong_id(f, first + i, id, false, to->vocabulary);
        bool learned = p->learned[i] && !(to->in_place && is_special(f, id));
        if (to->tokens) format_put_as(to, (int32_t)id, learned);
        if (at < n && p->ends[at] == first + i + 1) at++, format_begin(to);
    }
    *document += at;
    return STATUS_OK;
}

status format_read_documents(const data_file *f, uint64_t document, uint64_t first, uint64_t count,
                             data_window *to) {
    for (uint64_t n; count > 0; first += n, count -= n) {
        n = count < PIECE ? count : PIECE;
        TRY(read_piece(f, first, n, &document, to));
    }
    return STATUS_OK;
}

static status read_tokens(const data_file *f, uint64_t first, uint64_t count, data_window *to) {
    uint64_t document;
    TRY(find_document(f, first, &document));
    return format_read_documents(f, document, first, count, to);
}

const data_format format_tokens = { .name = "tokens",
                                    .about = "tokens of documents",
                                    .suffixes = { ".safetensors" },
                                    .says_lengths = true,
                                    .scratch_bytes = sizeof(piece),
                                    .inspect = inspect,
                                    .read = read_tokens };
