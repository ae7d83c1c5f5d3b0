/* JPEG, by libjpeg-turbo. Its memory manager is replaced by one that takes from the planned memory alone and
 * gives nothing back before the picture is done; what jpeg_create_decompress takes before that can be done,
 * some kilobytes, comes from the heap and goes there again. */
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "data/images/decoder.h"

#ifdef SNUG_JPEG
#include <jerror.h>
#include <jpeglib.h>

/* Blocks of coefficients of a whole picture: libjpeg names the type and leaves it to the manager. */
struct jvirt_barray_control {
    JBLOCKARRAY rows;
};

typedef struct {
    struct jpeg_decompress_struct info; /* the first: libjpeg hands it to the functions below */
    struct jpeg_error_mgr error;
    struct jpeg_source_mgr source;
    struct jpeg_memory_mgr memory, *heap; /* ours, and its own */
    decoder *decoder;
} state;

static decoder *of(j_common_ptr info) { return ((state *)info)->decoder; }

/* ---- errors ---- */

static void fail(j_common_ptr info) {
    char text[JMSG_LENGTH_MAX];
    info->err->format_message(info, text);
    snprintf(of(info)->what, sizeof of(info)->what, "%.150s", text);
    longjmp(of(info)->failed, 1);
}

/* Of what libjpeg only warns of, this means that pixels are made up. */
static void warn(j_common_ptr info, int level) {
    int code = info->err->msg_code;
    if (level < 0 && (code == JWRN_HIT_MARKER || code == JWRN_HUFF_BAD_CODE || code == JWRN_JPEG_EOF ||
                      code == JWRN_BOGUS_PROGRESSION))
        fail(info);
}

static void say_nothing(j_common_ptr info) { (void)info; }

/* ---- memory ---- */

static void *take(j_common_ptr info, size_t bytes) {
    decoder *d = of(info);
    void *block = decode_take(&d->arena, bytes);
    if (block) return block;
    d->lacks_memory = true;
    longjmp(d->failed, 1);
}

static void *take_small(j_common_ptr info, int pool, size_t bytes) {
    (void)pool;
    return take(info, bytes);
}

/* Vector code writes whole registers, so rows are a multiple of them. */
static JSAMPARRAY take_samples(j_common_ptr info, int pool, JDIMENSION width, JDIMENSION count) {
    size_t each = ((size_t)width + 127) & ~(size_t)63;
    (void)pool;
    JSAMPARRAY rows = take(info, count * sizeof *rows);
    JSAMPLE *all = take(info, each * count);
    for (JDIMENSION i = 0; i < count; i++) rows[i] = all + i * each;
    return rows;
}

static JBLOCKARRAY take_blocks(j_common_ptr info, int pool, JDIMENSION width, JDIMENSION count) {
    (void)pool;
    JBLOCKARRAY rows = take(info, count * sizeof *rows);
    JBLOCK *all = take(info, (size_t)width * count * sizeof *all);
    for (JDIMENSION i = 0; i < count; i++) rows[i] = all + (size_t)i * width;
    return rows;
}

static jvirt_barray_ptr want_blocks(j_common_ptr info, int pool, boolean zeroed, JDIMENSION width,
                                    JDIMENSION count, JDIMENSION most) {
    jvirt_barray_ptr whole = take(info, sizeof *whole);
    (void)most;
    whole->rows = take_blocks(info, pool, width, count);
    if (zeroed && count) memset(whole->rows[0], 0, (size_t)width * count * sizeof **whole->rows);
    return whole;
}

static JBLOCKARRAY see_blocks(j_common_ptr info, jvirt_barray_ptr whole, JDIMENSION first, JDIMENSION count,
                              boolean writes) {
    (void)info, (void)count, (void)writes;
    return whole->rows + first;
}

/* Colours of a palette need whole pictures of samples; nobody asks for them. */
static jvirt_sarray_ptr want_samples(j_common_ptr info, int pool, boolean zeroed, JDIMENSION width,
                                     JDIMENSION count, JDIMENSION most) {
    (void)pool, (void)zeroed, (void)width, (void)count, (void)most;
    of(info)->lacks_memory = true;
    longjmp(of(info)->failed, 1);
}

static void have_all(j_common_ptr info) { (void)info; }
static void free_none(j_common_ptr info, int pool) { (void)info, (void)pool; }

static void replace_memory(state *s) {
    s->heap = s->info.mem;
    s->memory = *s->heap;
    s->memory.alloc_small = s->memory.alloc_large = take_small;
    s->memory.alloc_sarray = take_samples, s->memory.alloc_barray = take_blocks;
    s->memory.request_virt_barray = want_blocks, s->memory.access_virt_barray = see_blocks;
    s->memory.request_virt_sarray = want_samples;
    s->memory.realize_virt_arrays = have_all, s->memory.free_pool = free_none;
    s->info.mem = &s->memory;
}

/* ---- the file ---- */

static void begin_input(j_decompress_ptr info) { (void)info; }

static boolean fill_input(j_decompress_ptr info) {
    decoder *d = of((j_common_ptr)info);
    size_t got = decode_read(d, d->input, DECODER_INPUT);
    if (!got) longjmp(d->failed, 1);
    info->src->next_input_byte = d->input, info->src->bytes_in_buffer = got;
    return TRUE;
}

static void skip_input(j_decompress_ptr info, long count) {
    struct jpeg_source_mgr *s = info->src;
    if (count <= 0) return;
    while ((size_t)count > s->bytes_in_buffer) {
        count -= (long)s->bytes_in_buffer;
        fill_input(info);
    }
    s->next_input_byte += count, s->bytes_in_buffer -= (size_t)count;
}

/* ---- a picture ---- */

static void decode_lines(state *s) {
    struct jpeg_decompress_struct *i = &s->info;
    decoder *d = s->decoder;
    jpeg_read_header(i, TRUE);
    bool inks = i->num_components == 4;
    const image_header *h = &d->request->header;
    if (i->image_width != h->width || i->image_height != h->height) {
        snprintf(d->what, sizeof d->what, "its size is said twice, and differs");
        longjmp(d->failed, 1);
    }
    i->out_color_space = inks ? JCS_CMYK : JCS_RGB;
    i->scale_num = 1, i->scale_denom = d->denominator;
    i->dct_method = JDCT_ISLOW;
    jpeg_start_decompress(i);
    if (!decode_begin(d, i->output_width, i->output_height)) {
        d->lacks_memory = true;
        longjmp(d->failed, 1);
    }
    while (i->output_scanline < i->output_height) {
        uint32_t y = i->output_scanline;
        JSAMPROW row = d->line;
        jpeg_read_scanlines(i, &row, 1);
        if (!decode_line(d, y, d->line, inks ? 4 : 3)) break;
    }
}

static bool decode(decoder *d) {
    state *s = decode_take(&d->arena, sizeof *s);
    if (!s) return false;
    memset(s, 0, sizeof *s);
    s->decoder = d;
    s->info.err = jpeg_std_error(&s->error);
    s->error.error_exit = fail, s->error.emit_message = warn, s->error.output_message = say_nothing;
    /* libjpeg's state is all in `s`, so nothing of this function changes behind the jump's back. */
    bool whole = !setjmp(d->failed);
    if (whole) {
        jpeg_create_decompress(&s->info);
        replace_memory(s);
        s->source = (struct jpeg_source_mgr){ .init_source = begin_input,
                                              .fill_input_buffer = fill_input,
                                              .skip_input_data = skip_input,
                                              .resync_to_restart = jpeg_resync_to_restart,
                                              .term_source = begin_input };
        s->info.src = &s->source;
        decode_lines(s);
    }
    if (s->heap) s->info.mem = s->heap;
    jpeg_destroy_decompress(&s->info);
    return whole;
}

/* Ten lines of blocks of each colour and what they become, tables, and of a picture in passes all of it. */
static uint64_t need(const image_header *h) {
    uint64_t width = ((uint64_t)h->width + 31) & ~31ull, lines = 0,
             rows = h->height / 8 + 32; /* of blocks: their addresses */
    for (uint32_t i = 0; i < h->components; i++)
        lines += (width * h->across[i] / h->most_across + 192) * (12 * h->down[i]) +
                 (width + 192) * (h->most_down + 2);
    return sizeof(state) + (128 << 10) + lines +
           (h->whole ? image_file_whole(h) + h->components * 4 * rows * sizeof(void *) : 0);
}

const decoder_kind decoder_jpeg = { .need = need, .decode = decode };

#else

static uint64_t need(const image_header *h) {
    (void)h;
    return 0;
}
static bool decode(decoder *d) {
    (void)d;
    return false;
}
const decoder_kind decoder_jpeg = {
    .need = need, .decode = decode, .library = "libjpeg", .package = "libjpeg62-turbo-dev"
};

#endif
