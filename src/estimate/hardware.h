/* A device that is elsewhere, as devices/NAME.yaml describes it (read by cli/hardware.h). */
#pragma once

#include <stdbool.h>
#include <stdint.h>

typedef struct {
    char name[64], title[96], capability[16];
    int64_t multiprocessors, threads; /* threads that each of them holds */
    uint64_t memory;                  /* bytes, as the driver reports them; 0: no device is named */
    uint64_t context[3], workspace;   /* of the driver, beside any allocator: least, likely, most */
    uint64_t overhead; /* the user's word for what a process takes beside its allocator; 0: by the rules */
    double bandwidth, f32, f16, f8; /* bytes a second; operations a second; 0: none */
    bool no_bf16, no_flash;
} hardware;
