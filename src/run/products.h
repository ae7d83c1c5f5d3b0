/* How a plan's products of bf16 are made: they have the bits of their kind (base/instructions.h), which is
 * part of what a run is. */
#pragma once

#include "run/decision.h"

#define PRODUCTS_WIDENED "widened" /* as they are made on every kind of device but for some processors */

/* "amx", "avx512-bf16" or PRODUCTS_WIDENED; "": the plan has no such products. */
const char *products_kind(const decision *d);
