/* Zstandard, by libzstd, in memory of ours: libzstd says before how much it takes for a window. Those two
 * functions are of its part that is not promised to later versions, so CMake asks whether they are there. */
#include "data/documents/unpack.h"

#ifdef SNUG_ZSTD
#define ZSTD_STATIC_LINKING_ONLY
#include <zstd.h>
#include <zstd_errors.h>

#include "base/units.h"

typedef struct {
    ZSTD_DStream *stream;
    uint64_t window;
    bool inside; /* of a frame */
    _Alignas(64) unsigned char arena[];
} state;

static uint64_t need(uint64_t window) { return sizeof(state) + ZSTD_estimateDStreamSize((size_t)window); }
static uint64_t need_whole(void) { return sizeof(state) + (uint64_t)ZSTD_estimateDCtxSize(); }

static status begin(void *room, uint64_t window) {
    state *s = room;
    int log = 10;
    while (log < 31 && 1ull << (log + 1) <= window) log++;
    s->stream = ZSTD_initStaticDStream(s->arena, (size_t)(need(window) - sizeof(state)));
    s->window = window, s->inside = false;
    if (!s->stream || ZSTD_isError(ZSTD_DCtx_setParameter(s->stream, ZSTD_d_windowLogMax, log)))
        return status_set(STATUS_INVALID, "libzstd does not begin in the memory that it said it takes");
    return STATUS_OK;
}

static status wrong(const state *s, size_t code) {
    char bytes[UNITS_TEXT_BYTES];
    ZSTD_ErrorCode why = ZSTD_getErrorCode(code);
    if (why == ZSTD_error_frameParameter_windowTooLarge || why == ZSTD_error_memory_allocation)
        return status_set(STATUS_INVALID,
                          "a frame wants a larger window than the %s that are planned for unpacking",
                          units_bytes_text(s->window, bytes));
    return status_set(STATUS_INVALID, "it is no Zstandard: %s", ZSTD_getErrorName(code));
}

static status step(void *room, unpack_span *s) {
    state *z = room;
    ZSTD_inBuffer in = { s->in, s->in_left, 0 };
    ZSTD_outBuffer out = { s->out, s->out_left, 0 };
    size_t left = ZSTD_decompressStream(z->stream, &out, &in);
    if (ZSTD_isError(left)) return wrong(z, left);
    s->in += in.pos, s->in_left -= in.pos, s->out += out.pos, s->out_left -= out.pos;
    if (in.pos || out.pos) z->inside = left != 0;
    s->between = !z->inside;
    return STATUS_OK;
}

static status whole(void *room, unpack_span *block) {
    state *z = room;
    ZSTD_DCtx *context = ZSTD_initStaticDCtx(z->arena, ZSTD_estimateDCtxSize());
    if (!context)
        return status_set(STATUS_INVALID, "libzstd does not begin in the memory that it said it takes");
    size_t made = ZSTD_decompressDCtx(context, block->out, block->out_left, block->in, block->in_left);
    if (ZSTD_isError(made) && ZSTD_getErrorCode(made) == ZSTD_error_dstSize_tooSmall)
        return status_set(STATUS_INVALID, "it unpacks to more than is said of it");
    if (ZSTD_isError(made)) return wrong(z, made);
    block->out_left -= made, block->in_left = 0;
    return unpack_finished("Zstandard", block);
}

static status there(void) { return STATUS_OK; }

#else

static status there(void) { return unpack_missing("libzstd", "libzstd-dev"); }
static uint64_t need(uint64_t window) {
    (void)window;
    return 0;
}
static uint64_t need_whole(void) { return 0; }
static status begin(void *room, uint64_t window) {
    (void)room, (void)window;
    return there();
}
static status step(void *room, unpack_span *s) {
    (void)room, (void)s;
    return there();
}
static status whole(void *room, unpack_span *block) { return step(room, block); }

#endif

const unpacker unpack_zstd = { "Zstandard", there, need, begin, step, need_whole, whole };
