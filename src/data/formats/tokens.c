/* Token ids of 16 or 32 bits, little-endian, one after the other, as nanoGPT writes them; or behind the
 * header of 1,024 bytes that llm.c writes: 256 i32, of which the first three are a magic number, a version
 * and the number of tokens. The magic number tells the width, whatever the name of the file.
 * Taken from https://github.com/karpathy/llm.c, dev/data/data_common.py, as a description of the format. */
#include <inttypes.h>
#include <stddef.h>

#include "data/formats/format.h"

enum { LLMC_HEADER = 1024 };

static const struct {
    int32_t magic, version;
    uint32_t width;
} llmc[] = { { 20240520, 1, 2 }, { 20240801, 7, 4 } };

static status inspect_plain(data_file *f, uint32_t width) {
    f->width = width;
    f->ceiling = (uint64_t)1 << 8 * width;
    f->tokens = (f->bytes - f->offset) / width;
    if ((f->bytes - f->offset) % width == 0) return STATUS_OK;
    return status_set(STATUS_INVALID,
                      "%s has %" PRIu64 " bytes, which is no multiple of %u: it is cut off or does not hold "
                      "%u-bit tokens; choose another --data-kind or make it anew",
                      f->path, f->bytes, width, 8 * width);
}

/* With a header: is the rest what it says? */
static status inspect_llmc(data_file *f, const int32_t head[3], int32_t version, uint32_t width) {
    if (head[1] != version)
        return status_set(STATUS_INVALID,
                          "%s is a token file of llm.c of version %d; version %d is known, or say "
                          "--data-kind u%u to read it as bare tokens",
                          f->path, head[1], version, 8 * width);
    f->offset = LLMC_HEADER;
    TRY(inspect_plain(f, width));
    if (head[2] >= 0 && f->tokens == (uint64_t)head[2]) return STATUS_OK;
    return status_set(STATUS_INVALID,
                      "%s should have %d tokens by its header and has %" PRIu64 "; it was cut off: make it "
                      "anew",
                      f->path, head[2], f->tokens);
}

static status inspect(data_file *f, uint32_t width, bool asked) {
    int32_t head[3];
    if (asked || f->bytes < LLMC_HEADER) return inspect_plain(f, width);
    TRY(format_pread(f, 0, head, sizeof head));
    for (size_t i = 0; i < sizeof llmc / sizeof *llmc; i++)
        if (head[0] == llmc[i].magic) return inspect_llmc(f, head, llmc[i].version, llmc[i].width);
    return inspect_plain(f, width);
}

static status inspect_u16(data_file *f, bool asked) { return inspect(f, 2, asked); }
static status inspect_u32(data_file *f, bool asked) { return inspect(f, 4, asked); }

const data_format format_u16 = { .name = "u16",
                                 .about = "16-bit tokens",
                                 .suffixes = { ".bin", ".u16" },
                                 .inspect = inspect_u16,
                                 .read = format_read_items };

const data_format format_u32 = { .name = "u32",
                                 .about = "32-bit tokens",
                                 .suffixes = { ".u32" },
                                 .inspect = inspect_u32,
                                 .read = format_read_items };
