/* gzip, by zlib. What zlib asks for comes from the room, and is never given back: a stream that begins anew
 * begins with the whole room. */
#include <string.h>

#include "data/documents/unpack.h"

#ifdef SNUG_ZLIB
#include <zlib.h>

#include "base/units.h"

/* zlib 1.2.13 asks for 39,920 bytes: its state and a window of 32 KiB. Its offspring align them otherwise. */
enum { ARENA = 64 << 10, ALIGNMENT = 16 };
enum { GZIP_ONLY = MAX_WBITS + 16, GZIP_OR_ZLIB = MAX_WBITS + 32 };

typedef struct {
    z_stream stream;
    size_t used;
    bool ended; /* a member has, and no other one has begun */
    _Alignas(64) unsigned char arena[ARENA];
} state;

static void *take(void *opaque, unsigned count, unsigned size) {
    state *s = opaque;
    size_t bytes, at = s->used;
    if (__builtin_mul_overflow((size_t)count, (size_t)size, &bytes) || bytes > ARENA - at) return Z_NULL;
    s->used += (size_t)units_align(bytes, ALIGNMENT);
    if (s->used > ARENA) s->used = ARENA;
    return s->arena + at;
}

static void give_back(void *opaque, void *block) { (void)opaque, (void)block; }

static status wrong(const state *s, int code) {
    if (code == Z_MEM_ERROR)
        return status_set(STATUS_INVALID, "zlib asks for more than the %d bytes that are planned for it",
                          ARENA);
    if (code == Z_NEED_DICT) return status_set(STATUS_INVALID, "it wants a dictionary, which is not here");
    return status_set(STATUS_INVALID, "it is no gzip: %s", s->stream.msg ? s->stream.msg : "damaged");
}

static status open_stream(state *s, int bits) {
    memset(&s->stream, 0, sizeof s->stream);
    s->used = 0, s->ended = true;
    s->stream.zalloc = take, s->stream.zfree = give_back, s->stream.opaque = s;
    int code = inflateInit2(&s->stream, bits);
    return code == Z_OK ? STATUS_OK : wrong(s, code);
}

static uint64_t need(uint64_t window) {
    (void)window;
    return sizeof(state);
}

static uint64_t need_whole(void) { return sizeof(state); }

static status begin(void *room, uint64_t window) {
    (void)window;
    return open_stream(room, GZIP_ONLY);
}

static unsigned most(size_t bytes) { return bytes < 1u << 30 ? (unsigned)bytes : 1u << 30; }

static status step(void *room, unpack_span *s) {
    state *z = room;
    /* Behind a member zeros may stand that fill a block of a tape or disk. */
    while (z->ended && s->in_left && z->stream.total_in && *s->in == 0) s->in++, s->in_left--;
    s->between = z->ended;
    if (z->ended && !s->in_left) return STATUS_OK;
    if (z->ended && z->stream.total_in && inflateReset(&z->stream) != Z_OK) return wrong(z, Z_STREAM_ERROR);
    z->ended = false;
    unsigned in = most(s->in_left), out = most(s->out_left);
    z->stream.next_in = (unsigned char *)s->in, z->stream.avail_in = in; /* zlib only reads it */
    z->stream.next_out = s->out, z->stream.avail_out = out;
    int code = inflate(&z->stream, Z_NO_FLUSH);
    in -= z->stream.avail_in, out -= z->stream.avail_out;
    s->in += in, s->in_left -= in, s->out += out, s->out_left -= out;
    z->ended = s->between = code == Z_STREAM_END;
    return code == Z_OK || code == Z_STREAM_END || code == Z_BUF_ERROR ? STATUS_OK : wrong(z, code);
}

static status whole(void *room, unpack_span *block) {
    state *z = room;
    TRY(open_stream(z, GZIP_OR_ZLIB));
    do {
        size_t in = block->in_left, out = block->out_left;
        TRY(step(z, block));
        if (in == block->in_left && out == block->out_left) break;
    } while (!z->ended || block->in_left);
    if (!z->ended && !block->out_left)
        return status_set(STATUS_INVALID, "it unpacks to more than is said of it");
    if (!z->ended) return status_set(STATUS_INVALID, "its gzip is cut short");
    return unpack_finished("gzip", block);
}

static status there(void) { return STATUS_OK; }

#else

static status there(void) { return unpack_missing("zlib", "zlib1g-dev"); }
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

const unpacker unpack_gzip = { "gzip", there, need, begin, step, need_whole, whole };
