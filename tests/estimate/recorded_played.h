/* Recorded steps played in tests. */
#pragma once

#include "estimate/recorded/recorded_play.h"

#define STEP(name) SNUG_ROOT "/tests/estimate/recorded/step_" name ".json"

static recording golden; /* step_blocks.json, from open_golden to close_golden */

static inline int open_golden(void **state) {
    (void)state;
    return recording_read(STEP("blocks"), &golden) == STATUS_OK ? 0 : -1;
}
static inline int close_golden(void **state) {
    (void)state;
    recording_close(&golden);
    return 0;
}

static inline torch_settings plain(void) {
    return (torch_settings){ .batch = 2,
                             .step = 2,
                             .context = 64,
                             .gpus = 1,
                             .state_bits = 32,
                             .state_rank = 4,
                             .base_bits = 16,
                             .types = TORCH_F32 };
}

static inline torch_result played(const recording *r, const torch_settings *s) {
    torch_result out;
    assert_int_equal(recorded_play(r, s, &out), STATUS_OK);
    return out;
}

static inline uint64_t peak_of(const recording *r, const torch_settings *s) {
    return played(r, s).live.likely;
}
