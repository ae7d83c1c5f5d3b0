/* Devices that are elsewhere: devices/NAME.yaml, one file each, built into the program; a site adds files of
 * its own and names their path. */
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "base/status.h"

typedef struct {
    char name[64], title[96], capability[16];
    uint64_t memory;                /* bytes, as the driver reports them */
    uint64_t context[3], workspace; /* what a process takes beside its allocator: least, likely, most */
    double bandwidth, f32, f16, f8; /* bytes a second; operations a second; 0: none */
    bool no_bf16, no_flash;
} hardware;

/* What CMake has made of devices/ (cmake/hardware.cmake); ends with name NULL. */
typedef struct {
    const char *name, *text;
} hardware_file;
extern const hardware_file hardware_files[];

/* A name, or the path of a YAML file. STATUS_INVALID with what was meant, perhaps. */
status hardware_find(const char *name, hardware *h);
const char *hardware_names(void); /* for messages: "a10, a100-40, ..." */
