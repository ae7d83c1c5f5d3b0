/* snug admit: will a Slurm job fit what it asks for? */
#define _GNU_SOURCE /* environ */
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "base/memory.h"
#include "base/units.h"
#include "cli/admit/admission.h"
#include "cli/cli.h"
#include "io/file.h"

enum { SCRIPT_BYTES = 4 << 20 };

/* The standard input, up to what a script may have. */
static status read_input(char **script, uint64_t *bytes) {
    char *room = memory_room(SCRIPT_BYTES + 2, 1);
    size_t used = 0;
    ssize_t n = 1;
    if (!room) return status_set(STATUS_FAILED, "no memory to read a script");
    while (n > 0 && used <= SCRIPT_BYTES) {
        n = read(0, room + used, SCRIPT_BYTES + 1 - used);
        if (n > 0) used += (size_t)n;
    }
    if (n < 0) {
        memory_free(room);
        return status_set(STATUS_INVALID, "the script can't be read from the standard input");
    }
    if (used > SCRIPT_BYTES) {
        memory_free(room);
        return status_set(STATUS_INVALID, "the script on the standard input has more than %d bytes",
                          SCRIPT_BYTES);
    }
    room[used] = 0;
    *script = room, *bytes = used;
    return STATUS_OK;
}

/* Where the script's name is, and what of sbatch's line is before and behind it. */
static const char *settle_line(const options *o, admit_job *job) {
    const admit_words *a = &o->admit;
    resources asks = { .nodes = 0 };
    int script;
    resources_read_line(a->line_count, a->line, &asks, &script);
    bool named = a->whole && script < a->line_count && !asks.wrapped;
    int arguments = script + (named ? 1 : 0);
    job->line_count = script, job->line = a->line;
    job->arguments = a->line + arguments;
    job->argument_count = (uint32_t)(a->line_count - arguments);
    if (asks.wrapped) return NULL;
    return named ? a->line[script] : o->subject;
}

static status answer(const options *o, cli_streams *streams, const admit_job *job, const char *name) {
    admission all;
    status result = admission_decide(o, job, name, &all);
    if (result == STATUS_OK) {
        text t = { 0 };
        admission_say(&all, &t);
        output_text(&streams->people, &t);
        if (o->json) {
            admission_put_json(&all, &t);
            output_text(&streams->result, &t);
        }
        result = admission_status(&all);
    }
    admission_close(&all);
    return result;
}

status cli_admit(const options *o, cli_streams *streams) {
    admit_job job = { .may_open = !o->admit.script_only, .environment = environ };
    const char *name = settle_line(o, &job);
    char *script = NULL;
    uint64_t bytes = 0;
    if (o->admit.seconds) alarm((unsigned)o->admit.seconds);
    bool wrapped = !name && o->admit.whole && job.line_count;
    if (!name && !wrapped)
        return status_set(STATUS_INVALID,
                          "no script named: snug admit JOB.sh; one on sbatch's standard input is "
                          "not looked at");
    if (name && strcmp(name, "-") == 0)
        TRY(read_input(&script, &bytes));
    else if (name)
        TRY(io_read_file(name, SCRIPT_BYTES, &script, &bytes));
    job.script = script, job.bytes = (size_t)bytes;
    status result = answer(o, streams, &job,
                           !name                    ? "the wrapped command"
                           : strcmp(name, "-") == 0 ? "this job"
                                                    : name);
    memory_free(script);
    return result;
}
