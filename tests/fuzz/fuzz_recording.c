/* Recorded steps: whatever is read can be played, at other batches and lengths and with modules computed
 * again. */
#include "estimate/recorded/recorded_play.h"
#include "fuzz/fuzz.h"

static void play(const recording *r, int64_t batch, int64_t length, bool again, bool cuda) {
    torch_settings s = { .batch = batch,
                         .step = 2 * batch,
                         .context = length,
                         .checkpointing = again,
                         .cuda = cuda,
                         .workspace = 1 << 20,
                         .gpus = 1,
                         .state_bits = cuda ? 8 : 32,
                         .update_by_rule = cuda };
    torch_result out;
    if (fuzz_said(recorded_play(r, &s, &out)) != STATUS_OK) return;
    uint64_t whole = 0;
    for (int i = 0; i < TAPE_TERMS; i++) whole += out.by_term[i];
    FUZZ_EXPECT(out.live.likely <= whole + 1 && whole <= out.live.likely + whole / 1000000 + 1);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    recording r;
    const char *path = fuzz_file("x.json", data, size);
    bool is_one = recording_is(path);
    if (fuzz_said(recording_read(path, &r)) == STATUS_OK) {
        FUZZ_EXPECT(r.program_count > 0 && r.modules.count == r.classes.count);
        const recording_program *p = &r.programs[0];
        play(&r, p->batches.of[0], p->lengths.of[0], false, false);
        play(&r, 5, 7, true, true);
        play(&r, 1 << 20, 1 << 20, is_one, false);
    }
    recording_close(&r);
    return 0;
}
