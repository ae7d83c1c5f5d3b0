/* snug explain-oom: what a message on memory that ran out means, and what to try. */
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "base/memory.h"
#include "cli/explain/explain.h"
#include "io/file.h"

enum { LARGEST = 4 << 20 };

/* Of a longer log the end is kept, of a file as of what comes through a pipe: the message stands there. */
static status read_stdin(char **bytes, uint64_t *count) {
    size_t room = 1 << 16, have = 0, got;
    char *all = memory_new(room, 1);
    while (all && (got = fread(all + have, 1, room - have, stdin)) > 0) {
        have += got;
        if (have < room) continue;
        if (room >= LARGEST) {
            memmove(all, all + room / 2, room / 2);
            have = room / 2;
            continue;
        }
        char *more = memory_resize(all, room *= 2, 1);
        if (!more) memory_free(all);
        all = more;
    }
    *bytes = all, *count = have;
    return all ? STATUS_OK : status_set(STATUS_FAILED, "no memory to read the message");
}

static status read_end(const char *path, char **bytes, uint64_t *count) {
    int file;
    uint64_t all;
    TRY(io_open(path, &file, &all));
    *count = all < LARGEST ? all : LARGEST;
    *bytes = memory_room((size_t)*count, 1);
    status result = *bytes ? io_read_at(file, path, all - *count, *bytes, *count)
                           : status_set(STATUS_FAILED, "no memory to read %s", path);
    close(file);
    if (result == STATUS_OK) return STATUS_OK;
    memory_free(*bytes);
    return result;
}

static status read_message(const char *path, oom *m) {
    char *bytes = NULL;
    uint64_t count = 0;
    bool given = path && strcmp(path, "-") != 0;
    TRY(given ? read_end(path, &bytes, &count) : read_stdin(&bytes, &count));
    bool found = oom_read(bytes, (size_t)count, m);
    memory_free(bytes);
    if (found) return STATUS_OK;
    return status_set(
        STATUS_INVALID,
        "%s has no message on memory that ran out (\"out of memory\", \"Tried to allocate\", "
        "RESOURCE_EXHAUSTED, \"Killed process\", Slurm's oom_kill and the like); paste all of it, "
        "with the traceback above",
        given ? path : "the text");
}

status cli_explain(const options *o, cli_streams *streams) {
    oom m;
    explain_advice a = { .count = 0 };
    TRY(read_message(o->subject, &m));
    oom_verdict why = oom_why(&m);
    TRY(explain_advise(o, &m, why, &a));
    text t = { 0 };
    if (streams->people.file) {
        explain_say(&t, &m, why, &a);
        output_text(&streams->people, &t);
    }
    if (!o->json) return STATUS_OK;
    explain_json(&t, &m, why, &a);
    output_text(&streams->result, &t);
    return STATUS_OK;
}
