/* Kinds of work that processors do at rates of their own: ops say which theirs is, devices have a rate for
 * each. */
#pragma once

#include <stdbool.h>

typedef enum {
    WORK_ARITHMETIC,      /* additions and products of elements */
    WORK_FUNCTIONS,       /* exponentials and their kin, with the arithmetic around them */
    WORK_PRODUCTS,        /* of matrices */
    WORK_ATTENTION,       /* small products and exponentials, tile by tile */
    WORK_CODES,           /* products of matrices on codes of 8 bits */
    WORK_PRODUCTS_HALF,   /* on bf16, which some devices multiply faster; f16 is widened everywhere */
    WORK_ATTENTION_HALF,  /* on numbers of 16 bits: bf16 as it is where there are tiles, else widened */
    WORK_ARITHMETIC_HALF, /* these are widened and narrowed on their way */
    WORK_FUNCTIONS_HALF,
    WORK_KINDS
} work_kind;

static inline bool work_is_products(work_kind k) {
    return k == WORK_PRODUCTS || k == WORK_PRODUCTS_HALF || k == WORK_CODES;
}
