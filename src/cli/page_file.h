/* The file of --html: opened before any work, so that a place that can't be written is known at once. A file
 * that is there and is no page is not replaced: STATUS_INVALID. All calls are fine without --html. */
#pragma once

#include "cli/cli.h"
#include "io/file.h"

status page_file_open(const options *o, io_writer *file);

/* Of a page that was written with this status: commits it and tells people where it is. */
status page_file_end(const options *o, cli_streams *streams, io_writer *file, status written);

/* What had been said before the page is written, which may say something else: page_file_keep before that,
 * and page_file_end_kept in place of page_file_end passes it on where the page is written. */
typedef struct {
    status so_far;
    char sentence[STATUS_SENTENCE];
} page_file_kept;
void page_file_keep(page_file_kept *kept, status so_far);
status page_file_end_kept(const options *o, cli_streams *streams, io_writer *file, status written,
                          const page_file_kept *kept);

/* The page of a plan, also of one that does not fit: passes on `so_far`, with its sentence, where the page is
 * written. */
status page_file_plan(const options *o, cli_streams *streams, io_writer *file, const setup *s,
                      const decision *d, status so_far);
