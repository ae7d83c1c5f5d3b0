#include "snapshot/addresses.h"

#include "base/memory.h"

enum { FIRST_ROOM = 1 << 10 };

void addresses_close(address_table *t) {
    memory_free(t->entries);
    *t = (address_table){ 0 };
}

static uint32_t home(uint64_t address, uint32_t room) {
    /* Twice, so that each bit of the address counts, whichever of them differ. */
    uint64_t x = (address ^ address >> 32) * UINT64_C(0x9e3779b97f4a7c15);
    return (uint32_t)((x ^ x >> 29) * UINT64_C(0x9e3779b97f4a7c15) >> 32) & (room - 1);
}

static uint32_t place(const address_table *t, uint64_t address) {
    uint32_t at = home(address, t->room);
    while (t->entries[at].piece && t->entries[at].address != address) at = (at + 1) & (t->room - 1);
    return at;
}

uint32_t addresses_find(const address_table *t, uint64_t address) {
    return t->room ? t->entries[place(t, address)].piece - 1 : UINT32_MAX;
}

static status grow(address_table *t) {
    address_table more = { .room = t->room ? 2 * t->room : FIRST_ROOM, .count = t->count };
    more.entries = memory_new(more.room, sizeof *more.entries);
    if (!more.entries) return status_set(STATUS_FAILED, "no memory for what is alive in the snapshot");
    for (uint32_t i = 0; i < t->room; i++)
        if (t->entries[i].piece) more.entries[place(&more, t->entries[i].address)] = t->entries[i];
    addresses_close(t);
    *t = more;
    return STATUS_OK;
}

status addresses_put(address_table *t, uint64_t address, uint32_t piece) {
    if (t->count >= t->room / 2) TRY(grow(t));
    address_entry *e = &t->entries[place(t, address)];
    t->count += e->piece == 0;
    *e = (address_entry){ .address = address, .piece = piece + 1 };
    return STATUS_OK;
}

/* What follows without a gap moves up, where it may: so there are no marks for what was taken. */
void addresses_take(address_table *t, uint64_t address) {
    if (!t->room) return;
    uint32_t hole = place(t, address), mask = t->room - 1;
    if (!t->entries[hole].piece) return;
    t->count--;
    for (uint32_t at = (hole + 1) & mask; t->entries[at].piece; at = (at + 1) & mask) {
        uint32_t wants = home(t->entries[at].address, t->room);
        if (((at - wants) & mask) < ((at - hole) & mask)) continue;
        t->entries[hole] = t->entries[at];
        hole = at;
    }
    t->entries[hole] = (address_entry){ 0 };
}
