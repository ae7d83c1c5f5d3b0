#include "cli/page_file.h"

#include <stdio.h>
#include <strings.h>
#include <unistd.h>

/* Only a page gives way to a page, or a file with nothing in it: what a page is made of never does, under
 * whatever name, nor anything else of a model or a run. */
static status check_gives_way(const char *path) {
    static const char begins[] = "<!DOCTYPE html";
    char first[sizeof begins] = "";
    int file;
    uint64_t bytes;
    if (access(path, R_OK) != 0) return STATUS_OK;
    TRY(io_open(path, &file, &bytes));
    status result = STATUS_OK;
    if (bytes >= sizeof begins) result = io_read_at(file, path, 0, first, sizeof begins - 1);
    close(file);
    if (result == STATUS_OK && bytes && strcasecmp(first, begins) != 0)
        result = status_set(STATUS_INVALID, "--html %s is there and is no page; choose another name", path);
    return result;
}

/* Pages may be data. */
static bool is_data(const setup_options *r, const char *path) {
    bool is = (r->data && io_is_same(path, r->data)) || (r->eval_data && io_is_same(path, r->eval_data));
    for (uint64_t i = 0; i < r->part_count && !is; i++) is = io_is_same(path, r->parts[i].path);
    return is;
}

status page_file_open(const options *o, io_writer *file) {
    if (!o->html) return STATUS_OK;
    TRY(io_check_file(o->html));
    TRY(check_gives_way(o->html));
    if (is_data(&o->run, o->html))
        return status_set(STATUS_INVALID, "--html %s is the data; choose another name", o->html);
    return io_writer_open(file, o->html);
}

status page_file_end(const options *o, cli_streams *streams, io_writer *file, status written) {
    char name[REPORT_NAME_BYTES];
    TRY(written);
    TRY(io_writer_commit(file));
    if (streams->people.file) output_add(&streams->people, "\nPage: %s\n", report_name(o->html, name));
    return STATUS_OK;
}

void page_file_keep(page_file_kept *kept, status so_far) {
    kept->so_far = so_far;
    snprintf(kept->sentence, sizeof kept->sentence, "%s", status_message());
}

status page_file_end_kept(const options *o, cli_streams *streams, io_writer *file, status written,
                          const page_file_kept *kept) {
    TRY(page_file_end(o, streams, file, written));
    return kept->so_far == STATUS_OK ? STATUS_OK : status_set(kept->so_far, "%s", kept->sentence);
}

status page_file_plan(const options *o, cli_streams *streams, io_writer *file, const setup *s,
                      const decision *d, status so_far) {
    page_file_kept kept;
    if (!file->path) return so_far;
    page_file_keep(&kept, so_far);
    return page_file_end_kept(o, streams, file, report_plan_page(file, s, d), &kept);
}
