/* Clusters that are queued for: clusters/NAME.yaml, one file each, built into the program; a site adds files
 * of its own and names their path. Kinds of nodes stand side by side in lists of one length. */
#pragma once

#include "base/links.h"
#include "base/status.h"
#include "estimate/hardware_files.h"

enum { CLUSTER_WORD_BYTES = 64, CLUSTER_MOST_KINDS = 16, CLUSTER_MOST_FLAGS = 8 };

typedef struct {
    char name[CLUSTER_WORD_BYTES], device[CLUSTER_WORD_BYTES];
    char partition[CLUSTER_WORD_BYTES], constraint[CLUSTER_WORD_BYTES]; /* "": nothing is asked for */
    char type[CLUSTER_WORD_BYTES]; /* of a device, where Slurm wants it named; "": it doesn't */
    int64_t gpus, cores, count;    /* of a node; count: how many of those nodes a job may have */
    uint64_t memory;               /* of a node, for jobs; bytes */
    /* Rates each way, of a device to others of its node, and of a node to others; 0: not known. Of the rest
     * `seconds` alone, 0: not known. */
    link_rates links[LINK_COUNT];
} cluster_nodes;

typedef struct {
    char name[CLUSTER_WORD_BYTES], title[96];
    cluster_nodes kinds[CLUSTER_MOST_KINDS];
    uint32_t kind_count;
    char flags[CLUSTER_MOST_FLAGS][CLUSTER_WORD_BYTES]; /* further options of sbatch, as --account=PROJECT */
    uint32_t flag_count;
    int64_t hours; /* the longest job */
    bool gres;     /* devices are asked for by --gres=gpu:N, else by --gpus-per-node=N */
} cluster;

/* A name, or the path of a YAML file. Every word of it can stand in a script as it is. STATUS_INVALID with a
 * sentence. Whether there are such devices is not looked at. */
status cluster_find(const char *name, cluster *c);

const char *cluster_names(void); /* for messages: "ascend, cardinal, ..." */

/* What CMake has made of clusters/; ends with name NULL. */
extern const hardware_file cluster_files[];
