/* trainer_state.json of a checkpoint, as it came and with its sum made right, which anybody can do. What
 * is read and written again reads the same. */
#include <stdlib.h>
#include <string.h>

#include "fuzz/fuzz.h"
#include "oracle/state_sum.h"
#include "train/trainer_state.h"

static void read_one(const uint8_t *data, size_t size) {
    trainer_state t, again;
    const char *path = fuzz_file("trainer_state.json", data, size);
    if (fuzz_said(trainer_state_read(path, &t)) != STATUS_OK) return;
    FUZZ_EXPECT(t.step >= 1 && t.samples >= 1 && t.micro_batch >= 1 && t.run.count <= IDENTITY_FACTS);
    FUZZ_EXPECT(trainer_state_write(path, &t) == STATUS_OK);
    FUZZ_EXPECT(fuzz_said(trainer_state_read(path, &again)) == STATUS_OK);
    FUZZ_EXPECT(t.step == again.step && t.samples == again.samples && t.micro_batch == again.micro_batch);
    FUZZ_EXPECT(identity_compare(&t.run, &again.run, "itself") == STATUS_OK);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    read_one(data, size);
    uint8_t *right = malloc(size + 1);
    memcpy(right, data, size);
    right[size] = 0;
    state_sum_sign((char *)right);
    read_one(right, size);
    free(right);
    return 0;
}
