/* Job scripts: whatever stands in one, it is read within bounds, no file that it names is opened, and what
 * was found can be asked. */
#include <string.h>

#include "admit/admit.h"
#include "admit/settings.h"
#include "fuzz/fuzz.h"

static void take(void *context, const char *key, const char *value) {
    size_t *most = context;
    FUZZ_EXPECT(strlen(key) < SETTINGS_KEY_BYTES);
    if (strlen(value) > *most) *most = strlen(value);
}

static void read_settings(const char *name, const uint8_t *data, size_t size) {
    char all[4096];
    size_t most = 0, n = size < sizeof all - 1 ? size : sizeof all - 1;
    memcpy(all, data, n);
    all[n] = 0;
    status result = fuzz_said(settings_read_text(name, all, n, take, &most));
    FUZZ_EXPECT(result == STATUS_OK || result == STATUS_INVALID);
    FUZZ_EXPECT(most <= n);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    static const char *const arguments[] = { "4", "llama-3-8b", "a b" };
    admit_reading r;
    const admit_job job = {
        .script = (const char *)data, .bytes = size, .arguments = arguments, .argument_count = 3
    };
    status result = fuzz_said(admit_read(&job, &r));
    FUZZ_EXPECT(result == STATUS_OK || result == STATUS_INVALID);
    FUZZ_EXPECT(r.run_count <= ADMIT_MOST_RUNS);
    for (uint32_t i = 0; i < r.run_count; i++)
        for (recipe_reading as = RECIPE_LIKELY; as <= RECIPE_LEAST_OLDER; as++) {
            recipe_options o;
            FUZZ_EXPECT(recipe_estimate(&r.runs[i], r.gpus[i], as, &o));
            FUZZ_EXPECT(o.count > 1 && o.count < RECIPE_OPTIONS);
            for (uint32_t k = 0; k < o.count; k++) FUZZ_EXPECT(strlen(o.words[k]) < RECIPE_WORD_BYTES);
            recipe_options_close(&o);
        }
    admit_place place;
    FUZZ_EXPECT(fuzz_said(admit_find_place(&r.asks, "pitzer", &place)) == STATUS_OK);
    FUZZ_EXPECT(place.device[0] || place.unseen.length);
    text_close(&place.unseen);
    admit_close(&r);
    read_settings("x.yaml", data, size);
    read_settings("x.py", data, size);
    return 0;
}
