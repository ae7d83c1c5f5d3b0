/* Twins of the instructions in mma_group.h. A product reads what lies in shared memory through its
 * descriptors, and what tensor cores have been shown of it: they have a view of their own, NaN at first, into
 * which gpu_group_show brings what its thread wrote (by gpu_copy16, when the copy has landed, and by
 * gpu_set16: no other way is seen).
 *
 * Until a wait the sums of a product are NaN, so who reads them too early has nothing. These end the program
 * with a sentence: a product that begins without a fence since the last wait; threads of a group that begin
 * different ones; a descriptor that points out of shared memory, or has what the emulation doesn't know; what
 * is multiplied and was not shown, or is written before the wait; sums that are written before it; a thread
 * that ends before its products have.
 *
 * Each thread reads its part of the operands where a watch sees it, when the product begins: eight threads
 * the eight rows of a core matrix, which come in one turn of the banks where they are swizzled. */
#pragma once

#include "device/cuda/emulate_mma.h"

namespace emulate {
typedef enum { GROUP_BF16, GROUP_F16, GROUP_E4M3, GROUP_E5M2 /* by e4m3 */ } group_numbers;

/* A product as one of its threads begins it. */
struct group_product {
    float *d; /* the thread's sums: half as many as `columns` */
    unsigned columns;
    group_numbers numbers;
    uint64_t a, b;
    bool a_crossed, b_crossed, onto;
};
/* The n-th sixteen bytes of the operands that the running thread reads; NULL: there are no more. What it
 * found there goes to group_read. */
const void *group_reads(const group_product &p, unsigned n, site at);
void group_read(const group_product &p, unsigned n, const eight &bytes, site at);
void group_begins(const group_product &p, site at);
void group_fence(site at);
void group_commit(site at);
void group_wait(unsigned left, site at);

/* Of the running thread. */
void shared_shown();
/* Sixteen bytes of shared memory, at this offset, are on their way (NaN), and have come, by an engine that
 * has the view of tensor cores (emulate_bulk.h). */
void shared_awaits(unsigned offset);
void shared_brought(unsigned offset, const eight &bytes);
/* An address of shared memory as instructions have it. No multiple of 1024 is where it begins. */
unsigned shared_at(const void *at);
} // namespace emulate

inline unsigned gpu_shared_at(const void *at) { return emulate::shared_at(at); }
inline void gpu_group_show() { emulate::shared_shown(); }
inline void gpu_group_fence(EMULATE_SITE) { emulate::group_fence({ "wgmma.fence", file, line }); }
inline void gpu_group_commit(EMULATE_SITE) { emulate::group_commit({ "wgmma.commit_group", file, line }); }
template <int LEFT>
inline void gpu_group_wait(EMULATE_SITE) {
    emulate::group_wait(LEFT, { "wgmma.wait_group", file, line });
}
template <int LEFT, int FRAGMENTS>
inline void gpu_group_wait(float (&)[FRAGMENTS][4], EMULATE_SITE) {
    emulate::group_wait(LEFT, { "wgmma.wait_group", file, line });
}

inline emulate::group_numbers emulate_group_numbers(gpu_bf16) { return emulate::GROUP_BF16; }
inline emulate::group_numbers emulate_group_numbers(gpu_f16) { return emulate::GROUP_F16; }
inline emulate::group_numbers emulate_group_numbers(gpu_e4m3) { return emulate::GROUP_E4M3; }
inline emulate::group_numbers emulate_group_numbers(gpu_e5m2) { return emulate::GROUP_E5M2; }

template <bool A_CROSSED, bool B_CROSSED, class T, int FRAGMENTS>
inline void gpu_group_mma(T type, float (&d)[FRAGMENTS][4], uint64_t a, uint64_t b, int onto, EMULATE_SITE) {
    emulate::site at = { "wgmma.mma_async", file, line };
    emulate::group_product p = { d[0],      8 * FRAGMENTS, emulate_group_numbers(type), a, b, A_CROSSED,
                                 B_CROSSED, onto != 0 };
    for (unsigned n = 0; const void *from = emulate::group_reads(p, n, at); n++) {
        const emulate::eight bytes = *emulate::wide<emulate::eight>((void *)from); /* read here */
        emulate::group_read(p, n, bytes, at);
    }
    emulate::group_begins(p, at);
}
