/* How a plan's products of 16 bits are made: they have the bits of their kind (base/instructions.h), which is
 * part of what a run is. */
#pragma once

#include "run/decision.h"

#define PRODUCTS_WIDENED "widened" /* as they may be made on every kind of device */

/* "amx", "avx512-bf16" or PRODUCTS_WIDENED; of a GPU's tensor cores "tensor-cores-9.0", since another
 * capability may add in another order; "": the plan has no such products. */
const char *products_kind(const decision *d);

/* What goes on with a kind: "--instructions amx, where the processor has these". */
enum { PRODUCTS_WAY_BYTES = 128 };
const char *products_way(const char *kind, char way[PRODUCTS_WAY_BYTES]);
