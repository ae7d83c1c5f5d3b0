/* Files as the program reads and writes them.
 *
 * Reading goes through pread into memory of the caller's, never through mappings: mapped pages count as
 * resident and would break the budget. Writing is atomic: a temporary file beside the target (PATH.partial,
 * always the same name, so what a killed run left behind is overwritten by the next) is written, synced and
 * renamed, then the folder is synced. Until the rename the old file is untouched; when anything fails the
 * temporary is removed. A lock on the temporary keeps two writers of one path apart.
 *
 * Sentences name the file. Failing to read is STATUS_INVALID (wrong input) unless the device failed; failing
 * to write is STATUS_FAILED.
 *
 * A write beyond the limit of file sizes (ulimit -f) raises SIGXFSZ, which ends a process that does not
 * ignore it: programs should, the library does not touch signals. */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/checksum.h"
#include "base/status.h"

/* Opens a regular file for reading; `*bytes` is its size. Close with close(2). */
status io_open(const char *path, int *file, uint64_t *bytes);

/* Exactly `bytes` bytes from `offset` on, in bounded pieces. `path` is for the sentence. Thread-safe. */
status io_read_at(int file, const char *path, uint64_t offset, void *into, uint64_t bytes);

/* A whole file of at most `limit` bytes, with a zero after it; memory_free it. */
status io_read_file(const char *path, uint64_t limit, char **data, uint64_t *bytes);

/* An atomic write in parts. After io_writer_open came back with STATUS_OK, exactly one of commit and discard
 * ends it; commit discards by itself when it fails. */
typedef struct {
    int file;
    char *path, *temporary;
    uint64_t written;
    checksum sum; /* of what was written */
} io_writer;

status io_writer_open(io_writer *w, const char *path);
status io_writer_add(io_writer *w, const void *data, uint64_t bytes);
status io_writer_commit(io_writer *w);
void io_writer_discard(io_writer *w); /* fine on a zeroed or ended writer */

/* Can a file of this name be written in the folder, as far as that shows beforehand? STATUS_INVALID where a
 * folder or a device has the name. Nothing is touched. */
status io_check_target(const char *folder, const char *name);

/* Could a file be written under this path? For what is only written when all work is done: STATUS_INVALID
 * with what stands in the way. Nothing is touched. */
status io_check_file(const char *path);

/* An atomic write in one call. */
status io_write_file(const char *path, const void *data, size_t bytes);

/* Are both there, and one file or folder, whatever it is called? */
bool io_is_same(const char *path, const char *other);

/* Makes the folder and those above it; fine when it is there already. */
status io_make_folder(const char *path);

/* Whether the folder is there and can be written, or could be made: touches nothing. STATUS_INVALID with what
 * stands in the way. */
status io_check_folder(const char *path);

/* A whole file in bounded pieces, each handed to `take`, which may end it: its status is passed on. `*bytes`
 * is its size. Nothing is allocated. */
status io_pass_file(const char *path, status (*take)(void *context, const void *piece, uint64_t bytes),
                    void *context, uint64_t *bytes);

/* A whole file's checksum and size; it is read in bounded pieces. */
typedef struct {
    uint64_t bytes, sum;
    bool early; /* sum is a digest (base/digest.h), which early versions wrote; else a checksum */
} io_sum;
status io_sum_file(const char *path, bool early, io_sum *sum);
bool io_sum_equal(const io_sum *a, const io_sum *b);

/* Renames a folder or file within one file system, durably; what was at `to` must be a file or absent. */
status io_rename(const char *from, const char *to);

/* Removes the files in a folder, then the folder; fine when there is none. A folder inside is refused before
 * anything is removed: checkpoints hold files only. */
status io_remove_folder(const char *path);

/* A log of lines (metrics.jsonl). Opening makes the file where there is none and cuts a last line that was
 * torn by a kill. Adding a line writes it whole or, when that fails, not at all. Close with close(2). */
status io_append_open(const char *path, int *file);
status io_append_line(int file, const char *path, const char *line);
