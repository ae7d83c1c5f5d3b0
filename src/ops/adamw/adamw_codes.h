/* AdamW whose moments are codes of 8 bits, read and updated in one loop by AVX-512. An update waits for the
 * processor's root and quotient, and codes are decoded meanwhile; apart each would take its own time. */
#pragma once

#include "ir/op.h"

bool adamw_accepts_codes(const op_call *c);
void adamw_run_codes(const op_call *c); /* not skipped */
