/* Texts of somebody else's, in the order in which they were said. */
#pragma once

#include <stdint.h>

enum { TEXT_LIST_MOST = 64 };
typedef struct {
    const char *items[TEXT_LIST_MOST];
    uint32_t count;
} text_list;
