/* Devices that are elsewhere: devices/NAME.yaml, one file each, built into the program; a site adds files of
 * its own and names their path. */
#pragma once

#include "base/status.h"
#include "estimate/hardware.h"

/* What CMake has made of devices/ (cmake/carried.cmake); ends with name NULL. */
typedef struct {
    const char *name, *text;
} hardware_file;
extern const hardware_file hardware_files[];

/* A name, or the path of a YAML file. STATUS_INVALID with what was meant, perhaps. */
status hardware_find(const char *name, hardware *h);
const char *hardware_names(void); /* for messages: "a10, a100-40, ..." */
