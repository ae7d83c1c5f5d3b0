/* What each character is taken for, as tools/tokenizer_tables.py found it in the tokenizers library. Read
 * through unicode.h. */
#pragma once

#include <stdint.h>

/* Bits of unicode_kind.flags. */
enum {
    UNICODE_WORD = 1 << 0,        /* \w of patterns */
    UNICODE_SPACE = 1 << 1,       /* \s of patterns, a blank of Rust */
    UNICODE_NUMERIC = 1 << 2,     /* Rust's is_numeric */
    UNICODE_RUST_WORD = 1 << 3,   /* \w of Rust's patterns */
    UNICODE_PUNCTUATION = 1 << 4, /* of an older Unicode, with what ASCII calls so */
    UNICODE_CONTROL = 1 << 5, /* what BertNormalizer removes: "other", of an older Unicode, but no blanks */
    UNICODE_MARK = 1 << 6,    /* what StripAccents removes */
    UNICODE_NONSPACING = 1 << 7, /* what BertNormalizer strips */
    UNICODE_NORMAL = 1 << 8,     /* normal forms leave it alone, and nothing moves or joins across it */
};

/* Characters of one kind are alike in all that is asked. */
typedef struct {
    uint8_t category, script; /* places in the lists of names below */
    uint8_t sentence;         /* classes of UnicodeScripts; 0: cuts nowhere */
    uint16_t flags;
} unicode_kind;

/* first, first + step, ..., last: their small letters are `add` further on. */
typedef struct {
    uint32_t first, last;
    int32_t step, add;
} unicode_lower;

extern const char *const unicode_table_categories[30], *const unicode_table_scripts[];
extern const uint32_t unicode_table_script_count;

extern const unicode_kind unicode_table_kinds[];
/* first character << 11 | its kind, up to the next first; ascending from character 0 on. */
extern const uint32_t unicode_table_ranges[], unicode_table_range_count;
/* By the character's upper bits, c >> 8: the range of the first character that has them, and one more. */
extern const uint16_t unicode_table_pages[];

extern const unicode_lower unicode_table_lower[];
extern const uint32_t unicode_table_lower_count;
