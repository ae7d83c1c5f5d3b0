/* The letters that ByteLevel writes for bytes: what can be seen of Latin-1 for itself, the others from U+0100
 * on, in their order. As GPT-2 had it (github.com/openai/gpt-2, src/encoder.py). */
#include "text/tokenizer/tokenizer_internal.h"

static unsigned letter_of(unsigned byte) {
    if (byte_letters_seen(byte)) return byte;
    return 0x100 + (byte <= 0x20 ? byte : byte < 0xad ? byte - 0x7f + 0x21 : 0x43);
}

size_t byte_letters_write(unsigned char byte, char out[2]) {
    unsigned point = letter_of(byte);
    if (point < 0x80) return out[0] = (char)point, 1;
    out[0] = (char)(0xc0 | point >> 6), out[1] = (char)(0x80 | (point & 0x3f));
    return 2;
}
