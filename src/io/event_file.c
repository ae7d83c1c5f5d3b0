#define _GNU_SOURCE
#include "io/event_file.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/clock.h"

/* ---- the checksum ---- */

/* Castagnoli's polynomial, bits reversed; a nibble at a time needs a table of 16. */
uint32_t event_file_crc32c(const void *data, size_t bytes) {
    static const uint32_t table[16] = { 0x00000000, 0x105ec76f, 0x20bd8ede, 0x30e349b1,
                                        0x417b1dbc, 0x5125dad3, 0x61c69362, 0x7198540d,
                                        0x82f63b78, 0x92a8fc17, 0xa24bb5a6, 0xb21572c9,
                                        0xc38d26c4, 0xd3d3e1ab, 0xe330a81a, 0xf36e6f75 };
    const unsigned char *p = data;
    uint32_t crc = 0xffffffffu;
    for (size_t i = 0; i < bytes; i++) {
        crc ^= p[i];
        crc = crc >> 4 ^ table[crc & 15];
        crc = crc >> 4 ^ table[crc & 15];
    }
    return ~crc;
}

/* So that a checksum of data that holds checksums is no trouble. */
static uint32_t masked(uint32_t crc) { return (crc >> 15 | crc << 17) + 0xa282ead8u; }

/* ---- protocol buffers ---- */

/* A message being written; the sizes of all that is written are bounded by EVENT_BYTES. */
enum {
    SCALAR_BYTES = EVENT_FILE_TAG_BYTES + 16,
    EVENT_BYTES = EVENT_FILE_SCALARS * SCALAR_BYTES + 64,
    RECORD_BYTES = EVENT_BYTES + 16
};
_Static_assert(2 * RECORD_BYTES <= EVENT_FILE_BUFFER_BYTES, "a record fits beside another");

typedef struct {
    unsigned char *data;
    size_t length;
} message;

/* How a field is written, by its type. */
enum { WIRE_NUMBER = 0, WIRE_64_BITS = 1, WIRE_BYTES = 2, WIRE_32_BITS = 5 };

static void put_bytes(message *m, const void *bytes, size_t count) {
    memcpy(m->data + m->length, bytes, count);
    m->length += count;
}

static void put_little(message *m, uint64_t value, int bytes) {
    for (int i = 0; i < bytes; i++) m->data[m->length++] = (unsigned char)(value >> (8 * i));
}

static void put_varint(message *m, uint64_t value) {
    for (; value >= 0x80; value >>= 7) m->data[m->length++] = (unsigned char)(value | 0x80);
    m->data[m->length++] = (unsigned char)value;
}

static void put_key(message *m, uint32_t field, uint32_t wire) { put_varint(m, field << 3 | wire); }

static void put_number(message *m, uint32_t field, uint64_t value) {
    put_key(m, field, WIRE_NUMBER);
    put_varint(m, value);
}

static void put_double(message *m, uint32_t field, double value) {
    uint64_t bits;
    memcpy(&bits, &value, sizeof bits);
    put_key(m, field, WIRE_64_BITS);
    put_little(m, bits, 8);
}

static void put_float(message *m, uint32_t field, float value) {
    uint32_t bits;
    memcpy(&bits, &value, sizeof bits);
    put_key(m, field, WIRE_32_BITS);
    put_little(m, bits, 4);
}

static void put_data(message *m, uint32_t field, const void *bytes, size_t count) {
    put_key(m, field, WIRE_BYTES);
    put_varint(m, count);
    put_bytes(m, bytes, count);
}

/* ---- the messages ---- */

/* Fields of Event, Summary.Value and SessionLog. */
enum { EVENT_TIME = 1, EVENT_STEP = 2, EVENT_VERSION = 3, EVENT_SUMMARY = 5, EVENT_SESSION = 7 };
enum { SUMMARY_VALUE = 1, VALUE_TAG = 1, VALUE_SIMPLE = 2 };
enum { SESSION_STATUS = 1, SESSION_START = 1 };

static void put_scalar(message *summary, const event_scalar *s) {
    unsigned char bytes[SCALAR_BYTES];
    message value = { bytes, 0 };
    put_data(&value, VALUE_TAG, s->tag, strnlen(s->tag, EVENT_FILE_TAG_BYTES - 1));
    put_float(&value, VALUE_SIMPLE, s->value);
    put_data(summary, SUMMARY_VALUE, bytes, value.length);
}

/* The record around a message goes to the buffer. */
static status add_record(event_file *f, const message *event) {
    if (f->used + RECORD_BYTES > sizeof f->buffer) TRY(event_file_flush(f));
    message record = { f->buffer + f->used, 0 };
    put_little(&record, event->length, 8);
    put_little(&record, masked(event_file_crc32c(record.data, 8)), 4);
    put_bytes(&record, event->data, event->length);
    put_little(&record, masked(event_file_crc32c(event->data, event->length)), 4);
    f->used += record.length;
    return STATUS_OK;
}

static status add_version(event_file *f, double time) {
    static const char version[] = "brain.Event:2";
    unsigned char bytes[64];
    message event = { bytes, 0 };
    put_double(&event, EVENT_TIME, time);
    put_data(&event, EVENT_VERSION, version, sizeof version - 1);
    return add_record(f, &event);
}

static status add_start(event_file *f, double time, int64_t step) {
    unsigned char bytes[64], inside[16];
    message event = { bytes, 0 }, session = { inside, 0 };
    put_number(&session, SESSION_STATUS, SESSION_START);
    put_double(&event, EVENT_TIME, time);
    put_number(&event, EVENT_STEP, (uint64_t)step);
    put_data(&event, EVENT_SESSION, inside, session.length);
    return add_record(f, &event);
}

status event_file_add(event_file *f, int64_t step, double time, const event_scalar *scalars, uint32_t count) {
    unsigned char bytes[EVENT_BYTES], inside[EVENT_FILE_SCALARS * SCALAR_BYTES];
    message event = { bytes, 0 }, summary = { inside, 0 };
    for (uint32_t i = 0; i < count && i < EVENT_FILE_SCALARS; i++) put_scalar(&summary, &scalars[i]);
    put_double(&event, EVENT_TIME, time);
    put_number(&event, EVENT_STEP, (uint64_t)step);
    put_data(&event, EVENT_SUMMARY, inside, summary.length);
    return add_record(f, &event);
}

/* ---- the file ---- */

static const char beginning[] = "events.out.tfevents.";

/* Readers take the files of a folder in the order of their names, so the number in this one's must be above
 * that of every earlier one, also where two runs began in one second or the clock was set back. */
static uint64_t next_number(const char *folder) {
    uint64_t number = (uint64_t)clock_today();
    DIR *d = opendir(folder);
    if (!d) return number;
    for (struct dirent *item; (item = readdir(d));) {
        if (strncmp(item->d_name, beginning, sizeof beginning - 1) != 0) continue;
        uint64_t other = strtoull(item->d_name + sizeof beginning - 1, NULL, 10);
        if (other >= number && other < 9999999999u) number = other + 1;
    }
    closedir(d);
    return number;
}

status event_file_open(event_file *f, const char *folder, int64_t first_step) {
    char host[65] = "localhost";
    f->file = -1;
    f->used = 0;
    gethostname(host, sizeof host - 1);
    int length = snprintf(f->path, sizeof f->path, "%s/%s%010llu.%s.%ld", folder, beginning,
                          (unsigned long long)next_number(folder), host, (long)getpid());
    if (length >= (int)sizeof f->path)
        return status_set(STATUS_INVALID, "the path '%.60s...' is too long", folder);
    f->file = open(f->path, O_WRONLY | O_CREAT | O_EXCL | O_APPEND | O_CLOEXEC, 0666);
    if (f->file < 0) return status_set(STATUS_FAILED, "cannot create %s: %s", f->path, strerror(errno));
    double time = clock_today();
    TRY(add_version(f, time));
    TRY(add_start(f, time, first_step));
    return event_file_flush(f);
}

status event_file_flush(event_file *f) {
    const unsigned char *from = f->buffer;
    while (f->used) {
        ssize_t n = write(f->file, from, f->used);
        if (n < 0 && errno == EINTR) continue;
        if (n < 0) {
            f->used = 0;
            return status_set(
                STATUS_FAILED, "cannot write %s: %s%s", f->path, strerror(errno),
                errno == ENOSPC || errno == EDQUOT ? "; free some space or choose another folder" : "");
        }
        from += n;
        f->used -= (size_t)n;
    }
    return STATUS_OK;
}

void event_file_close(event_file *f) {
    if (f->file >= 0) close(f->file);
    f->file = -1;
}
