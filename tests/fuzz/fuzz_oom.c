/* Pasted messages on memory that ran out: whatever is read is consistent, and nothing is read beyond the end.
 */
#include "estimate/oom/oom.h"
#include "fuzz/fuzz.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    oom m;
    bool found = oom_read((const char *)data, size, &m);
    FUZZ_EXPECT(found == (m.kind != OOM_NONE));
    FUZZ_EXPECT(m.kind != OOM_TORCH || m.tried > 0 || m.allowed > 0);
    FUZZ_EXPECT(m.kind >= OOM_NONE && m.kind < OOM_KINDS);
    FUZZ_EXPECT(m.backend >= OOM_ON_CUDA && m.backend < OOM_BACKENDS);
    FUZZ_EXPECT(m.place >= OOM_NOWHERE && m.place < OOM_PLACES);
    FUZZ_EXPECT(m.kind != OOM_KILLED || m.killed);
    FUZZ_EXPECT(m.kind != OOM_VLLM_NOT_FREE || (m.total > 0 && m.utilization > 0 && m.utilization <= 1));
    FUZZ_EXPECT(!m.unclear || (!m.process && !m.others));
    FUZZ_EXPECT(!m.process || m.kind == OOM_TORCH || m.kind == OOM_KILLED);
    FUZZ_EXPECT(oom_short(&m) <= m.tried);
    FUZZ_EXPECT(oom_unaccounted(&m) <= m.total);
    oom_verdict why = oom_why(&m);
    FUZZ_EXPECT(why.cause >= OOM_FULL && why.cause < OOM_CAUSES);
    FUZZ_EXPECT(!why.sure || why.cause != OOM_UNSAID);
    FUZZ_EXPECT(why.cause != OOM_FRAGMENTED || m.tried > 0);
    oom_missing(&m);
    return 0;
}
