/* Memory of another kind: a file for what does not stay in memory. It has its full length from the beginning,
 * so that no write can fail for want of room, and no name, so that it is gone when the process is, however
 * that ends, and nobody can take it for anything else. Where the file system allows it, bytes pass the page
 * cache by. */
#pragma once

#include <stdint.h>

#include "base/status.h"

/* Places, lengths and addresses are multiples of this. */
enum { DEVICE_FILE_PAGE = 4096 };

typedef struct {
    int handle; /* of no file: -1 */
    uint64_t bytes;
} device_file;

/* Could a file of so many bytes be made in the folder? STATUS_INVALID where it is no folder, can't be written
 * to, or lies in memory; STATUS_NO_FIT where it has not the room. Nothing is left behind. */
status device_file_check(const char *folder, uint64_t bytes);

status device_file_open(device_file *f, const char *folder, uint64_t bytes); /* reads as zeros */
void device_file_close(device_file *f);

/* Its length, as the operating system counts it. */
uint64_t device_file_size(const device_file *f);

status device_file_read(const device_file *f, uint64_t at, void *into, uint64_t bytes);
status device_file_write(const device_file *f, uint64_t at, const void *from, uint64_t bytes);

/* Bytes per second to and from a file in this folder, which takes some seconds. */
typedef struct {
    double read, written;
} device_file_rates;
status device_file_measure(const char *folder, device_file_rates *rates);
