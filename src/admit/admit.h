/* What a Slurm job asks for and what its commands train or serve, read from its script without running any of
 * it. Whether that fits is asked by the caller, with the options that a recipe gives (admit/recipe.h).
 *
 * One-sided: what can't be seen is kept as a sentence, and whoever reads this refuses nothing that has one.
 */
#pragma once

#include "admit/recipe.h"
#include "admit/resources.h"

enum { ADMIT_MOST_RUNS = 8 };

/* Where a job may run. */
typedef struct {
    char device[64];       /* "": none is known. Of several that may be, the one with the most memory */
    char partition_of[64]; /* the kind of nodes in the site's file; "": none */
    bool several;          /* of several */
    uint64_t memory;       /* that device's, in bytes */
    int64_t node_gpus;     /* of such a node, or 0 */
    text unseen;           /* one sentence where nothing is known of the device */
} admit_place;

typedef struct {
    resources asks;
    recipe runs[ADMIT_MOST_RUNS];
    int64_t gpus[ADMIT_MOST_RUNS]; /* that each run has, of all nodes; 0: not known */
    uint32_t run_count;
    text unseen; /* sentences on the script as a whole, one a line */
} admit_reading;

typedef struct {
    const char *script; /* NULL: none, but --wrap */
    size_t bytes;
    int line_count; /* sbatch's line, without the script's name: options, then the script's arguments */
    const char *const *line;
    const char *const *arguments; /* of the script */
    uint32_t argument_count;
    bool may_open;            /* files that the script names */
    char *const *environment; /* sbatch's, for SBATCH_GRES and the like; NULL: it has none */
} admit_job;

/* STATUS_FAILED: no memory. STATUS_INVALID: that is no script. Close it in any case. */
status admit_read(const admit_job *job, admit_reading *out);
void admit_close(admit_reading *r);

/* The device that the job will get, by the type of its GPUs and by the site's file (clusters/, or a file of
 * that kind; NULL: there is none). STATUS_INVALID: the file can't be read. text_close `unseen`. */
status admit_find_place(const resources *asks, const char *cluster, admit_place *out);
