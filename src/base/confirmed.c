#include "base/confirmed.h"

#include <stddef.h>

/* A line for each kind and capability, { CONFIRM_PRODUCTS, 90 }, with what ran there and when. */
static const struct {
    confirm_kind kind;
    uint32_t capability;
} confirmed[] = {
    { CONFIRM_NOTHING, 0 }, /* ends it */
};

const char *confirmed_name(confirm_kind kind) {
    static const char *const names[CONFIRM_KINDS] = {
        [CONFIRM_NOTHING] = "",
        [CONFIRM_PRODUCTS] = "products on tensor cores",
        [CONFIRM_ATTENTION] = "attention on tensor cores",
        [CONFIRM_CODES] = "products of codes of 8 bits on tensor cores",
        [CONFIRM_FLOATS] = "products of floats of 8 bits on tensor cores",
        [CONFIRM_GROUPS] = "products by groups of warps",
        [CONFIRM_GROUPS_FLOATS] = "products of floats of 8 bits by groups of warps",
        [CONFIRM_CAPTURE] = "captured programs",
        [CONFIRM_LIBRARY_PRODUCTS] = "products by cuBLASLt",
        [CONFIRM_LIBRARY_ATTENTION] = "attention by cuDNN",
        [CONFIRM_TMEM] = "products in tensor memory",
        [CONFIRM_TMEM_FLOATS] = "products of floats of 8 bits in tensor memory",
    };
    return names[kind];
}

bool confirmed_on(confirm_kind kind, uint32_t capability) {
    if (kind == CONFIRM_NOTHING) return true;
    for (size_t i = 0; confirmed[i].capability; i++)
        if (confirmed[i].kind == kind && confirmed[i].capability == capability) return true;
    return false;
}
