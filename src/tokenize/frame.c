#include "tokenize/frame.h"

#include <string.h>

/* What stands around a text shows beside the text alone. */
status frame_open(frame *f, tokenizer_work *w, uint32_t end) {
    enum { PROBE = 64 };
    static const char probe[] = "a";
    uint32_t plain[PROBE];
    tokenizer_ids ids;
    tokenizer_document document = { 0 };
    tokenizer_window window = { probe, sizeof probe - 1, true };
    TRY(tokenizer_encode_window(f->tokenizer, w, &document, window, &ids));
    size_t inner = ids.count < PROBE ? ids.count : PROBE, first = 0;
    memcpy(plain, ids.id, inner * sizeof *plain);
    TRY(tokenizer_encode(f->tokenizer, w, probe, sizeof probe - 1, true, &ids));
    while (first + inner < ids.count && memcmp(ids.id + first, plain, inner * sizeof *plain) != 0) first++;
    size_t behind = ids.count - first - inner;
    if (first > FRAME_IDS || behind >= FRAME_IDS)
        return status_set(STATUS_INVALID,
                          "the tokenizer puts %zu tokens before a text and %zu behind it; %d are the most",
                          first, behind, FRAME_IDS - 1);
    f->before_count = (uint32_t)first, f->behind_count = (uint32_t)behind;
    memcpy(f->before, ids.id, first * sizeof *f->before);
    memcpy(f->behind, ids.id + first + inner, behind * sizeof *f->behind);
    if (end != TOKENIZER_NONE && !behind) f->behind[f->behind_count++] = end;
    return STATUS_OK;
}

bool frame_learns(const frame_ids *ids, size_t i, size_t *range) {
    if (!ids->spans) return ids->learned;
    tokenizer_span s = ids->spans[i];
    while (*range < ids->range_count && ids->ranges[*range].end <= s.begin) ++*range;
    for (size_t r = *range; r < ids->range_count && ids->ranges[r].begin < s.end; r++)
        if (ids->ranges[r].learned && s.begin < s.end) return true;
    return false;
}
