/* Several calls in one start (ops/sweeps.h): blocks are counted through all of them, and each finds its call.
 * The calls stand in the launch's own arguments, of which there are CUDA_SWEEP_BYTES at most, so a table
 * takes no memory and waits for no copy; what has more calls has more launches. */
#pragma once

#include "ops/cuda.h"

extern "C" {
#include "ops/sweeps.h"
}

enum { CUDA_SWEEP_BYTES = 4 << 10 };

/* How many calls of F a launch has: with what else stands in its arguments, and a place to begin for each. */
template <class F>
struct cuda_sweep_size {
    enum { MOST = (CUDA_SWEEP_BYTES - 64) / (int)(sizeof(F) + sizeof(uint32_t)) };
};

template <class F, int MOST = cuda_sweep_size<F>::MOST>
struct cuda_sweep {
    F of[MOST];
    uint32_t begin[MOST]; /* blocks of the calls before */
    uint32_t count, blocks;

    /* The call that block b is of; no call is without blocks. */
    __device__ __forceinline__ int find(uint32_t b) const {
        int low = 0;
        for (int high = (int)count; MOST > 1 && high - low > 1;) {
            int middle = (low + high) / 2;
            if (begin[middle] <= b)
                low = middle;
            else
                high = middle;
        }
        return low;
    }
    bool is_full() const { return count == MOST; }
    void add(const F &f, uint32_t its_blocks) {
        if (!its_blocks) return;
        of[count] = f, begin[count++] = blocks, blocks += its_blocks;
    }
};

/* launch(sweep) for all calls, as many at a time as go into one: of f_of(call), which has so many blocks. */
template <class F, class OF, class BLOCKS, class LAUNCH>
static void cuda_sweep_calls(const op_call *calls, uint32_t count, OF f_of, BLOCKS blocks_of, LAUNCH launch) {
    for (uint32_t i = 0; i < count;) {
        cuda_sweep<F> sweep;
        sweep.count = sweep.blocks = 0;
        for (; i < count && !sweep.is_full(); i++) {
            F f = f_of(&calls[i]);
            sweep.add(f, blocks_of(f));
        }
        if (sweep.count) launch(sweep);
    }
}
