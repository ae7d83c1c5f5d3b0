/* metrics.jsonl of a run that is resumed. */
#include <math.h>
#include <stdlib.h>

#include "fuzz/fuzz.h"
#include "train/history.h"

enum { DONE = 7, ROOM = 3 };

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    train_result r = { .losses = calloc(DONE, sizeof *r.losses),
                       .evaluations = calloc(ROOM, sizeof *r.evaluations) };
    fuzz_file("metrics.jsonl", data, size);
    FUZZ_EXPECT(history_recall(fuzz_folder(), DONE, ROOM, &r) == STATUS_OK);
    FUZZ_EXPECT(r.evaluation_count <= ROOM);
    for (uint32_t i = 0; i < r.evaluation_count; i++)
        FUZZ_EXPECT(r.evaluations[i].step >= 1 && r.evaluations[i].step <= DONE);
    free(r.losses);
    free(r.evaluations);
    return 0;
}
