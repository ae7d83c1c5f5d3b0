#include "data/documents/parquet_codes.h"

#include <stddef.h>

static bool read_varint(const unsigned char **at, const unsigned char *end, uint64_t *value) {
    *value = 0;
    for (unsigned shift = 0; shift < 64; shift += 7) {
        if (*at == end) return false;
        unsigned char byte = *(*at)++;
        if (shift == 63 && byte > 1) return false;
        *value |= (uint64_t)(byte & 0x7f) << shift;
        if (!(byte & 0x80)) return true;
    }
    return false;
}

/* `width` bits from bit `bit` on, the lowest first; they are there. */
static uint64_t bits_at(const unsigned char *from, uint64_t bit, uint32_t width) {
    uint64_t value = 0;
    uint32_t shift = (uint32_t)(bit % 8), got = 0;
    for (const unsigned char *b = from + bit / 8; got < width; b++, shift = 0) {
        value |= (uint64_t)(*b >> shift) << got;
        got += 8 - shift;
    }
    return width < 64 ? value & (((uint64_t)1 << width) - 1) : value;
}

uint32_t parquet_width(uint32_t largest) {
    uint32_t width = 0;
    for (; largest; largest >>= 1) width++;
    return width;
}

/* ---- runs ---- */

parquet_hybrid parquet_hybrid_of(const unsigned char *at, const unsigned char *end, uint32_t width) {
    return (parquet_hybrid){ .at = at, .end = end, .width = width };
}

static bool begin_run(parquet_hybrid *h) {
    uint64_t header;
    if (h->packed) h->at += h->bit / 8; /* a packed run has a multiple of eight numbers, so whole bytes */
    h->bit = 0;
    if (!read_varint(&h->at, h->end, &header)) return false;
    h->packed = header & 1;
    h->left = header >> 1;
    uint64_t there = (uint64_t)(h->end - h->at), bytes = (h->width + 7) / 8;
    if (h->packed) {
        /* Some writers cut the last one where its numbers end. */
        uint64_t most = h->width ? there * 8 / h->width : UINT32_MAX;
        h->left = h->left > UINT64_MAX / 8 ? most : h->left * 8;
        if (h->left > most) h->left = most;
        return true;
    }
    if (bytes > there) return false;
    h->value = 0;
    for (uint32_t i = 0; i < bytes; i++) h->value |= (uint32_t)*h->at++ << 8 * i;
    return true;
}

bool parquet_hybrid_next(parquet_hybrid *h, uint32_t *value) {
    while (!h->left) {
        if (h->at + (h->packed ? h->bit / 8 : 0) >= h->end) return false;
        if (!begin_run(h)) return false;
    }
    h->left--;
    *value = h->packed ? (uint32_t)bits_at(h->at, h->bit, h->width) : h->value;
    if (h->packed) h->bit += h->width;
    return true;
}

/* ---- differences ---- */

static int64_t unzigzag(uint64_t raw) { return (int64_t)(raw >> 1) ^ -(int64_t)(raw & 1); }

bool parquet_delta_of(parquet_delta *d, const unsigned char *at, const unsigned char *end, int64_t most,
                      uint64_t values) {
    uint64_t block, miniblocks, first;
    *d = (parquet_delta){ .at = at, .end = end, .most = most };
    if (!read_varint(&d->at, end, &block) || !read_varint(&d->at, end, &miniblocks) ||
        !read_varint(&d->at, end, &d->total) || !read_varint(&d->at, end, &first))
        return false;
    if (d->total > values) return false; /* numbers of no bits take no room: their count has no other bound */
    if (block == 0 || block > 1 << 24 || miniblocks == 0 || block % miniblocks || block / miniblocks % 8)
        return false;
    d->miniblocks = (uint32_t)miniblocks;
    d->in_each = (uint32_t)(block / miniblocks);
    d->miniblock = d->miniblocks - 1, d->in = d->in_each; /* as behind the last of a block */
    d->value = unzigzag(first);
    return true;
}

static bool begin_block(parquet_delta *d) {
    uint64_t least_step;
    if (!read_varint(&d->at, d->end, &least_step) || d->miniblocks > (uint64_t)(d->end - d->at)) return false;
    d->least_step = unzigzag(least_step);
    d->widths = d->at;
    d->at += d->miniblocks;
    d->miniblock = 0;
    return true;
}

static bool begin_miniblock(parquet_delta *d) {
    if (++d->miniblock == d->miniblocks && !begin_block(d)) return false;
    uint64_t width = d->widths[d->miniblock], bytes = width * d->in_each / 8;
    if (width > 64 || bytes > (uint64_t)(d->end - d->at)) return false;
    d->packed = d->at;
    d->at += bytes;
    d->in = 0;
    return true;
}

bool parquet_delta_whole(parquet_delta *d, int64_t *value) {
    if (d->given == d->total) return false;
    if (d->given) {
        if (d->in == d->in_each && !begin_miniblock(d)) return false;
        uint32_t width = d->widths[d->miniblock];
        uint64_t step = bits_at(d->packed, (uint64_t)d->in * width, width);
        d->in++;
        /* Modulo 2^64, as writers of 32 and of 64 bits have it. */
        d->value = (int64_t)((uint64_t)d->value + (uint64_t)d->least_step + step);
    }
    d->given++;
    *value = d->value;
    return true;
}

bool parquet_delta_next(parquet_delta *d, uint32_t *value) {
    int64_t whole;
    if (!parquet_delta_whole(d, &whole) || whole < 0 || whole > d->most) return false;
    *value = (uint32_t)whole;
    return true;
}

bool parquet_delta_pass(parquet_delta d, const unsigned char **end, uint64_t *sum) {
    uint32_t value;
    *sum = 0;
    while (d.given < d.total) {
        if (!parquet_delta_next(&d, &value)) return false;
        *sum += value;
    }
    *end = d.at;
    return true;
}
