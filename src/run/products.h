/* How a plan's products of 16 bits are made: they have the bits of their kind (base/instructions.h), which is
 * part of what a run is. */
#pragma once

#include "run/decision.h"

#define PRODUCTS_WIDENED "widened" /* as they may be made on every kind of device */

/* "amx", "avx512-bf16" or PRODUCTS_WIDENED; of a GPU's tensor cores "tensor-cores-9.0", since another
 * capability may add in another order, or "tensor-groups-9.0", by groups of warps, or "tensor-groups-10.0",
 * in tensor memory; "": the plan has no such products. Where libraries make some, of whatever type,
 * "cuBLASLt 13.1.0 and cuDNN 9.26.0 0123456789abcdef" stands before: the version of each that does, and a
 * digest of its products and attentions with their algorithms. Returns `kind`. */
enum { PRODUCTS_KIND_BYTES = 96 };
const char *products_kind(const decision *d, char kind[PRODUCTS_KIND_BYTES]);

/* Is it a kind of which a library makes some? */
bool products_by_library(const char *kind);

/* What goes on with a kind: "--instructions amx, where the processor has these". */
enum { PRODUCTS_WAY_BYTES = 256 };
const char *products_way(const char *kind, char way[PRODUCTS_WAY_BYTES]);
