#include "io/pickle_memo.h"

#include <string.h>

#include "base/memory.h"

enum { WORDS = PICKLE_PAGE / 64, MOST_PAGES = 1 << 22, HEAD = 2 * WORDS + WORDS / 4 }; /* in 8 bytes */

static pickle_page *page_at(const pickle_memo *m, uint32_t page) {
    return (pickle_page *)m->pages.data + 1 + page;
}

status pickle_memo_open(pickle_memo *m) {
    *m = (pickle_memo){ 0 };
    return array_open(&m->pages, sizeof(pickle_page), MOST_PAGES);
}

void pickle_memo_close(pickle_memo *m) {
    for (uint32_t i = 1; i < m->pages.count; i++) {
        pickle_page *p = (pickle_page *)m->pages.data + i;
        memory_free(p->all);
        memory_free(p->kept);
    }
    array_close(&m->pages);
    *m = (pickle_memo){ 0 };
}

static uint16_t *ranks(const pickle_page *p) { return (uint16_t *)(p->kept + 2 * WORDS); }
static uint32_t *words(const pickle_page *p) { return (uint32_t *)(p->kept + HEAD); }

static bool is_plain(uint32_t word) {
    uint32_t kind = word & (PICKLE_KINDS - 1);
    return word && kind < PICKLE_OWN && kind != PICKLE_TEXT && kind != PICKLE_INTEGER &&
           (kind != PICKLE_TUPLE || word == PICKLE_TUPLE);
}

static status pack(pickle_memo *m, pickle_page *p) {
    uint32_t count = 0, at = 0;
    for (uint32_t i = 0; i < PICKLE_PAGE; i++) count += p->all[i] && !is_plain(p->all[i]);
    size_t bytes = HEAD * sizeof(uint64_t) + count * sizeof(uint32_t);
    p->kept = memory_new(1, bytes);
    if (!p->kept) return status_set(STATUS_FAILED, "no memory for what the pickle may come back to");
    for (uint32_t i = 0; i < PICKLE_PAGE; i++) {
        uint64_t bit = UINT64_C(1) << i % 64;
        if (i % 64 == 0) ranks(p)[i / 64] = (uint16_t)at;
        if (is_plain(p->all[i])) {
            p->kept[WORDS + i / 64] |= bit;
        } else if (p->all[i]) {
            p->kept[i / 64] |= bit;
            words(p)[at++] = p->all[i];
        }
    }
    memory_free(p->all);
    m->bytes += bytes, m->bytes -= PICKLE_PAGE * sizeof(uint32_t);
    p->all = NULL;
    return STATUS_OK;
}

static status new_page(pickle_memo *m) {
    uint32_t index;
    TRY(array_add(&m->pages, 1, &index));
    pickle_page *p = (pickle_page *)m->pages.data + index;
    p->all = memory_room(PICKLE_PAGE, sizeof *p->all);
    if (!p->all) return status_set(STATUS_FAILED, "no memory for what the pickle may come back to");
    m->bytes += PICKLE_PAGE * sizeof(uint32_t) + sizeof *p;
    if (index > PICKLE_LAG) return pack(m, page_at(m, m->packed++));
    return STATUS_OK;
}

status pickle_memo_add(pickle_memo *m, uint32_t word) {
    if (m->count % PICKLE_PAGE == 0) TRY(new_page(m));
    page_at(m, m->count / PICKLE_PAGE)->all[m->count % PICKLE_PAGE] = word;
    m->count++;
    return STATUS_OK;
}

/* Where the value stands; NULL: nowhere. */
static uint32_t *place(const pickle_memo *m, uint32_t i) {
    const pickle_page *p = page_at(m, i / PICKLE_PAGE);
    uint32_t in = i % PICKLE_PAGE;
    if (p->all) return p->all + in;
    if (!(p->kept[in / 64] >> in % 64 & 1)) return NULL;
    uint64_t before = p->kept[in / 64] & ((UINT64_C(1) << in % 64) - 1);
    return words(p) + ranks(p)[in / 64] + __builtin_popcountll(before);
}

uint32_t pickle_memo_at(const pickle_memo *m, uint32_t i) {
    const uint32_t *at = place(m, i);
    const pickle_page *p = page_at(m, i / PICKLE_PAGE);
    if (at) return *at;
    return p->kept[WORDS + i % PICKLE_PAGE / 64] >> i % 64 & 1 ? PICKLE_TUPLE : 0;
}

void pickle_memo_set(pickle_memo *m, uint32_t i, uint32_t word) {
    uint32_t *at = place(m, i);
    if (at && *at) *at = word;
}
