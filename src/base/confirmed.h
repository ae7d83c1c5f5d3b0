/* What was written for GPUs and tested without one, and which GPUs have confirmed it since. What is not
 * confirmed on a GPU is taken there where it is asked for by name alone, and who asks is told
 * (run/unconfirmed.h). */
#pragma once

#include <stdbool.h>
#include <stdint.h>

typedef enum {
    CONFIRM_NOTHING, /* plain kernels: bench/gpu/verify.sh compares these with the CPU's */
    CONFIRM_PRODUCTS,
    CONFIRM_ATTENTION, /* both of numbers of 16 bits, on tensor cores */
    CONFIRM_CODES,     /* products of codes of 8 bits there */
    CONFIRM_FLOATS,    /* and of floats of 8 bits */
    CONFIRM_GROUPS,    /* products of numbers of 16 bits by groups of warps */
    CONFIRM_GROUPS_FLOATS,
    CONFIRM_CAPTURE, /* programs that are captured (device.capture) */
    CONFIRM_LIBRARY_PRODUCTS,
    CONFIRM_LIBRARY_ATTENTION,
    CONFIRM_TMEM, /* products of numbers of 16 bits whose sums lie in tensor memory */
    CONFIRM_TMEM_FLOATS,
    CONFIRM_KINDS
} confirm_kind;

/* "products on tensor cores", in the plural. */
const char *confirmed_name(confirm_kind kind);

/* Has a GPU of this capability (90) made these, and were they what they should be? */
bool confirmed_on(confirm_kind kind, uint32_t capability);
