/* What models share. */
#pragma once

#include "text/tokenizer/tokenizer_internal.h"

extern const part_kind bpe_kind, unigram_kind;

/* Pieces come to a BPE as bytes, which ByteLevel would have written as letters. */
void bpe_bytes_come(tokenizer *t);

/* A part of a word, which is never a token because it is a word (ignore_merges). */
status bpe_encode_inside(tokenizer_work *w, span text);
/* The bytes at the beginning of `text` that the token says; 0: it says others. */
uint32_t bpe_says(const tokenizer *t, uint32_t id, span text);

/* byte_ids of t: of "<0x00>" to "<0xFF>". */
void models_byte_ids(tokenizer *t);
