/* What is alive at an address: a table by hash, open addressing. */
#pragma once

#include <stdint.h>

#include "base/status.h"

typedef struct {
    uint64_t address;
    uint32_t piece; /* counted from 1; 0: nothing is here */
} address_entry;

typedef struct {
    address_entry *entries;
    uint32_t room, count;
} address_table;

void addresses_close(address_table *t);
/* The piece at the address, from 0; UINT32_MAX: none. */
uint32_t addresses_find(const address_table *t, uint64_t address);
status addresses_put(address_table *t, uint64_t address, uint32_t piece); /* in place of what was there */
void addresses_take(address_table *t, uint64_t address);
