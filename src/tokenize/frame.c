#include "tokenize/frame.h"

#include <string.h>

status frame_open(frame *f, uint32_t end) {
    tokenizer_frame around = tokenizer_around(f->tokenizer);
    size_t before = around.before.count, behind = around.behind.count;
    if (before > FRAME_IDS || behind > FRAME_IDS)
        return status_set(STATUS_INVALID,
                          "the tokenizer puts %zu tokens before a text and %zu behind it; %d are the most",
                          before, behind, FRAME_IDS);
    f->before_count = (uint32_t)before, f->behind_count = (uint32_t)behind;
    if (before) memcpy(f->before, around.before.id, before * sizeof *f->before);
    if (behind) memcpy(f->behind, around.behind.id, behind * sizeof *f->behind);
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
