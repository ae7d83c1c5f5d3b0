/* Devices that are elsewhere, built into the program: devices/NAME.yaml has one, devices/tables/FAMILY.yaml
 * a family, one device a line. A site adds files of its own and names their path. */
#pragma once

#include "base/status.h"
#include "estimate/hardware.h"

/* What CMake has made of devices/ (cmake/carried.cmake); both end with name NULL. */
typedef struct {
    const char *name, *text;
} hardware_file;
extern const hardware_file hardware_files[], hardware_tables[];

/* A name, or the path of a YAML file. Names are taken as people and drivers write them: "4090", "RTX 4090"
 * and "NVIDIA GeForce RTX 4090" are rtx-4090. STATUS_INVALID with what was meant, perhaps. */
status hardware_find(const char *name, hardware *h);

/* Do two such words name one device? Of files their paths are compared. */
bool hardware_same(const char *a, const char *b);

/* All devices that have a name, those of a file first. NULL where `index` is beyond the last. */
uint32_t hardware_count(void);
const char *hardware_name(uint32_t index);
const char *hardware_names(void); /* "a10, a100-40, ...", all of them */

/* ---- within this room ---- */

/* Which device is meant: its index, or hardware_count(). */
uint32_t hardware_meant(const char *name);
status hardware_unknown(const char *name);          /* STATUS_INVALID, with the nearest */
const hardware_file *hardware_text(uint32_t index); /* the file or the table that it stands in */
bool hardware_in_table(uint32_t index);

/* The rows of a table: its entries that are lists and no keys of a device. */
bool hardware_is_row(const char *key, bool list);
