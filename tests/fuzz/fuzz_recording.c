/* Recorded steps: whatever is read can be played, at other batches and lengths and with modules computed
 * again, of other types and with adapters. */
#include "estimate/recorded/recorded_play.h"
#include "fuzz/fuzz.h"

typedef struct {
    bool again, cuda;
    torch_types types;
    int64_t rank; /* of adapters; 0: none */
} asked;

static void play(const recording *r, int64_t batch, int64_t length, asked a) {
    torch_settings s = { .batch = batch,
                         .step = 2 * batch,
                         .context = length,
                         .checkpointing = a.again,
                         .cuda = a.cuda,
                         .types = a.types,
                         .adapter_rank = a.rank,
                         .workspace = 1 << 20,
                         .gpus = 1,
                         .state_bits = a.cuda ? 8 : 32,
                         .update_by_rule = a.cuda };
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
        int64_t batch = p->batches.of[0], length = p->lengths.of[0];
        play(&r, batch, length, (asked){ .again = false });
        play(&r, batch, length, (asked){ .types = TORCH_AUTOCAST });
        play(&r, batch, length, (asked){ .types = TORCH_HALF, .rank = 4 });
        play(&r, 5, 7, (asked){ .again = true, .cuda = true });
        play(&r, 1 << 20, 1 << 20, (asked){ .again = is_one });
    }
    recording_close(&r);
    return 0;
}
