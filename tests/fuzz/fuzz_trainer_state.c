/* trainer_state.json of a checkpoint, as it came and with its digest made right, which anybody can do. What
 * is read and written again reads the same. */
#include <stdlib.h>
#include <string.h>

#include "base/digest.h"
#include "fuzz/fuzz.h"
#include "train/trainer_state.h"

static const char key[] = "\"digest\":";

static uint8_t *last_key(uint8_t *data, size_t size) {
    uint8_t *found = NULL;
    for (size_t i = 0; i + sizeof key - 1 <= size; i++)
        if (memcmp(data + i, key, sizeof key - 1) == 0) found = data + i;
    return found;
}

static void make_right(uint8_t *data, size_t size) {
    uint8_t *at = last_key(data, size);
    uint8_t *quote =
        at ? memchr(at + sizeof key - 1, '"', size - (size_t)(at + sizeof key - 1 - data)) : NULL;
    if (!quote || data + size - quote < 18) return;
    char digits[DIGEST_TEXT_BYTES];
    digest d = digest_begin();
    digest_add(&d, data, (uint64_t)(at - data));
    memcpy(quote + 1, digest_text_of(digest_value(&d), digits), 16);
}

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
    make_right(right, size);
    read_one(right, size);
    free(right);
    return 0;
}
