/* Event files as TensorBoard reads them: events.out.tfevents.TIME.HOST.PID, one for each start of a run.
 * Framing is that of TFRecord (length, its masked CRC32C, the data, its masked CRC32C, little-endian); a
 * record is a protocol buffer Event with a Summary of scalars. The few fields that are needed are written by
 * hand. Formats: https://www.tensorflow.org/tutorials/load_data/tfrecord, event.proto and summary.proto
 * there.
 *
 * A file opens with its version and the mark of a start at a step: readers then drop what an earlier file of
 * the folder says of that step and of later ones, so a resumed run has one curve.
 *
 * Records gather in a fixed buffer, and whole ones go out. What a kill leaves behind is at most a torn last
 * record, which readers pass over. */
#pragma once

#include <stddef.h>
#include <stdint.h>

#include "base/status.h"

enum {
    EVENT_FILE_PATH_BYTES = 4096,
    EVENT_FILE_BUFFER_BYTES = 16 << 10,
    EVENT_FILE_TAG_BYTES = 64,
    EVENT_FILE_SCALARS = 16
};

typedef struct {
    const char *tag; /* shorter than EVENT_FILE_TAG_BYTES */
    float value;
} event_scalar;

typedef struct {
    int file; /* -1: closed */
    char path[EVENT_FILE_PATH_BYTES];
    unsigned char buffer[EVENT_FILE_BUFFER_BYTES];
    size_t used;
} event_file;

/* `first_step`: the first that will be added. STATUS_FAILED when the file cannot be made. */
status event_file_open(event_file *f, const char *folder, int64_t first_step);

/* At most EVENT_FILE_SCALARS. `time` in seconds since 1970. */
status event_file_add(event_file *f, int64_t step, double time, const event_scalar *scalars, uint32_t count);

status event_file_flush(event_file *f);
void event_file_close(event_file *f); /* without flushing; fine when it is closed */

/* CRC-32C (Castagnoli) of the bytes. */
uint32_t event_file_crc32c(const void *data, size_t bytes);
