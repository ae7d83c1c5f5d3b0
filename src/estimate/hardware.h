/* A device that is elsewhere, as a file of devices/ describes it (estimate/hardware_files.h). */
#pragma once

#include <stdbool.h>
#include <stdint.h>

typedef struct {
    char name[64], title[96], capability[16];
    int64_t multiprocessors, threads; /* threads that each of them holds */
    uint64_t memory;     /* bytes that a process can have: what the driver reports less what is left to the
                          * machine; 0: no device is named */
    uint64_t leaves;     /* of unified memory, in bytes: what the rest of the machine keeps; 0: not unified */
    bool memory_by_rule; /* nobody published what the driver reports; context[2] has what it may be off by */
    uint64_t context[3], workspace; /* of the driver, beside any allocator: least, likely, most */
    uint64_t overhead; /* the user's word for what a process takes beside its allocator; 0: by the rules */
    double bandwidth, f32, f16, f8; /* bytes a second; operations a second; 0: none */
    double cache, link, call;       /* bytes of the second cache; bytes a second between it and the host's
                                     * memory; seconds of starting a kernel; 0: not known */
    double peers, network;          /* bytes a second each way: to devices of its node; its part of what its
                                     * node sends to others; 0: not known */
    bool mps; /* torch calls it "mps", which has neither collectives nor bitsandbytes; else "cuda", ROCm's too
               */
    bool no_bf16, no_flash; /* no flash attention, but torch's memory-efficient kernel */
    bool no_fused;          /* nor any other: torch writes scores out */
} hardware;
