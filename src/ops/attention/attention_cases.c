#include "ops/attention/attention_cases.h"

const op_input attention_inputs_of_forward[ATTENTION_INPUTS] = {
    { "q", DTYPE_MASK_FLOAT, 3, 3, false },     { "k", DTYPE_MASK_FLOAT, 3, 3, true },
    { "v", DTYPE_MASK_FLOAT, 3, 3, true },      { "lengths", DTYPE_MASK_INT, 1, 1, true },
    { "segments", DTYPE_MASK_INT, 2, 2, true }, { "offset", DTYPE_MASK_INT, 1, 1, true },
    { "key", DTYPE_MASK_INT, 1, 1, true },      { "bias", DTYPE_MASK_FLOAT, 3, 3, true }
};

const attention_attributes attention_case_plain = { .heads = 3 };
const attention_attributes attention_case_causal = { .heads = 2, .causal = 1 };
const attention_attributes attention_case_dropped = { .heads = 2, .causal = 1, .dropout = 0.3f, .stream = 7 };
const attention_attributes attention_case_grouped = { .heads = 4, .kv_heads = 2, .causal = 1, .scale = 0.4f };
const attention_attributes attention_case_window = { .heads = 1, .causal = 1, .window = 5 };
const attention_attributes attention_case_one = { .heads = 1 };
static const attention_attributes grouped_dropped = {
    .heads = 4, .kv_heads = 1, .dropout = 0.5f, .stream = 3
};
const attention_attributes attention_case_capped = { .heads = 2, .causal = 1, .scale = 2, .cap = 3 };
static const attention_attributes band = { .heads = 2, .window = 9 };

const op_case attention_cases_of_forward[] = {
    { "packed", { ATTENTION_REAL(2, 5, 36) }, &attention_case_plain, 0, false },
    { "packed_causal", { ATTENTION_REAL(1, 70, 24) }, &attention_case_causal, 0, false },
    { "packed_long", { ATTENTION_REAL(1, 300, 18) }, &attention_case_causal, 0, true },
    { "packed_wide", { ATTENTION_REAL(1, 65, 402) }, &attention_case_causal, 0, true },
    { "packed_widest", { ATTENTION_REAL(1, 66, 810) }, &attention_case_causal, 0, false },
    { "packed_lengths",
      { ATTENTION_REAL(3, 7, 36), ATTENTION_NONE, ATTENTION_NONE, ATTENTION_LENGTHS(3, 7) },
      &attention_case_plain,
      0,
      false },
    { "packed_segments",
      { ATTENTION_REAL(2, 9, 24), ATTENTION_NONE, ATTENTION_NONE, ATTENTION_NONE, ATTENTION_SEGMENTS(2, 9) },
      &attention_case_causal,
      0,
      false },
    { "packed_dropout",
      { ATTENTION_REAL(2, 6, 24), ATTENTION_NONE, ATTENTION_NONE, ATTENTION_NONE, ATTENTION_NONE,
        ATTENTION_NONE, ATTENTION_KEY },
      &attention_case_dropped,
      0,
      false },
    { "all",
      { ATTENTION_REAL(2, 67, 24), ATTENTION_NONE, ATTENTION_NONE, ATTENTION_LENGTHS(2, 67),
        ATTENTION_SEGMENTS(2, 67), ATTENTION_NONE, ATTENTION_KEY },
      &attention_case_dropped,
      0,
      true },
    { "cross",
      { ATTENTION_REAL(2, 5, 12), ATTENTION_REAL(2, 7, 12), ATTENTION_REAL(2, 7, 12) },
      &attention_case_plain,
      0,
      false },
    { "cross_long",
      { ATTENTION_REAL(1, 66, 12), ATTENTION_REAL(1, 131, 12), ATTENTION_REAL(1, 131, 12) },
      &attention_case_plain,
      0,
      true },
    { "grouped",
      { ATTENTION_REAL(2, 6, 20), ATTENTION_REAL(2, 6, 10), ATTENTION_REAL(2, 6, 10) },
      &attention_case_grouped,
      0,
      false },
    { "grouped_dropout",
      { ATTENTION_REAL(1, 3, 8), ATTENTION_REAL(1, 5, 2), ATTENTION_REAL(1, 5, 2), ATTENTION_NONE,
        ATTENTION_NONE, ATTENTION_NONE, ATTENTION_KEY },
      &grouped_dropped,
      0,
      false },
    { "grouped_packed", { ATTENTION_REAL(1, 6, 40) }, &attention_case_grouped, 0, false },
    { "offset",
      { ATTENTION_REAL(1, 3, 20), ATTENTION_REAL(1, 9, 10), ATTENTION_REAL(1, 9, 10), ATTENTION_NONE,
        ATTENTION_NONE, ATTENTION_OFFSET(4) },
      &attention_case_grouped,
      0,
      false },
    { "step",
      { ATTENTION_REAL(2, 1, 20), ATTENTION_REAL(2, 80, 10), ATTENTION_REAL(2, 80, 10), ATTENTION_NONE,
        ATTENTION_NONE, ATTENTION_OFFSET(70) },
      &attention_case_grouped,
      0,
      false },
    { "blind",
      { ATTENTION_REAL(1, 3, 20), ATTENTION_REAL(1, 4, 10), ATTENTION_REAL(1, 4, 10), ATTENTION_NONE,
        ATTENTION_NONE, ATTENTION_OFFSET(-2) },
      &attention_case_grouped,
      0,
      false },
    { "window", { ATTENTION_REAL(1, 12, 9) }, &attention_case_window, 0, false },
    { "window_long", { ATTENTION_REAL(1, 150, 9) }, &attention_case_window, 0, true },
    { "band", { ATTENTION_REAL(1, 90, 12) }, &band, 0, true },
    { "capped", { ATTENTION_REAL(1, 12, 24) }, &attention_case_capped, 0, false },
    { "capped_long", { ATTENTION_REAL(2, 150, 24) }, &attention_case_capped, 0, true },
    { "bias",
      { ATTENTION_REAL(2, 6, 20), ATTENTION_REAL(2, 7, 10), ATTENTION_REAL(2, 7, 10), ATTENTION_NONE,
        ATTENTION_NONE, ATTENTION_NONE, ATTENTION_NONE, ATTENTION_REAL(4, 6, 7) },
      &attention_case_grouped,
      0,
      false },
    { "bias_packed",
      { ATTENTION_REAL(2, 5, 36), ATTENTION_NONE, ATTENTION_NONE, ATTENTION_LENGTHS(2, 5), ATTENTION_NONE,
        ATTENTION_NONE, ATTENTION_NONE, ATTENTION_REAL(3, 5, 5) },
      &attention_case_plain,
      0,
      false },
    { "one", { ATTENTION_REAL(1, 1, 3) }, &attention_case_one, 0, false },
    { 0 }
};
