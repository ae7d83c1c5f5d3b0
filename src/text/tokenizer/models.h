/* What models share. */
#pragma once

#include "text/tokenizer/tokenizer_internal.h"

extern const part_kind bpe_kind;

/* Pieces come to a BPE as bytes, which ByteLevel would have written as letters. */
void bpe_bytes_come(tokenizer *t);

/* byte_ids of t: of "<0x00>" to "<0xFF>". */
void models_byte_ids(tokenizer *t);
