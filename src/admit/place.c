/* Which device a job gets: by the type that it asks for, and by the site's file. */
#include <stdio.h>
#include <string.h>
#include <strings.h>

#include "admit/admit.h"
#include "estimate/clusters/cluster.h"

/* Is `word` one of a list, as of partitions or of features? */
static bool has_word(const char *list, const char *word) {
    size_t length = strlen(word);
    for (const char *at = list; *at;) {
        size_t n = strcspn(at, ",&|[]()*:");
        if (n == length && strncasecmp(at, word, n) == 0) return true;
        at += n + (at[n] != 0);
    }
    return false;
}

/* May the job run on nodes of this kind? What the file leaves out excludes nothing. */
static bool may_run(const resources *asks, const cluster_nodes *k) {
    if (asks->partition[0] && k->partition[0] && !has_word(asks->partition, k->partition)) return false;
    if (asks->type[0] && k->type[0] && strcasecmp(asks->type, k->type) != 0) return false;
    bool simple = !strpbrk(asks->constraint, "!|[]()*"); /* of others Slurm is the judge */
    if (asks->constraint[0] && simple && k->constraint[0] && !has_word(asks->constraint, k->constraint))
        return false;
    return resources_node_gpus(asks) <= k->gpus;
}

static void consider(const char *device, admit_place *out) {
    hardware h;
    if (hardware_find(device, &h) != STATUS_OK) return;
    out->several |= out->device[0] && strcmp(out->device, h.name) != 0;
    if (h.memory <= out->memory) return;
    out->memory = h.memory;
    snprintf(out->device, sizeof out->device, "%.60s", device);
}

/* "a100", where there are a100-40 and a100-80: whichever has more. Slurm's names have underscores. */
static void find_by_type(const char *type, admit_place *out) {
    char name[RESOURCES_WORD_BYTES];
    snprintf(name, sizeof name, "%s", type);
    for (char *c = name; *c; c++) *c = *c == '_' ? '-' : *c >= 'A' && *c <= 'Z' ? (char)(*c - 'A' + 'a') : *c;
    size_t length = strlen(name);
    if (strchr(name, '/') || text_ends_with(name, ".yaml")) return; /* a name, and no file */
    consider(name, out);
    if (out->device[0]) return;
    for (uint32_t i = 0; i < hardware_count(); i++) {
        const char *known = hardware_name(i);
        if (strncmp(known, name, length) == 0 && known[length] == '-' && !strstr(known, "-mig-"))
            consider(known, out);
    }
}

static void find_in_cluster(const resources *asks, const cluster *c, admit_place *out) {
    for (uint32_t i = 0; i < c->kind_count; i++) {
        if (!may_run(asks, &c->kinds[i])) continue;
        uint64_t before = out->memory;
        consider(c->kinds[i].device, out);
        if (out->memory > before) {
            out->node_gpus = c->kinds[i].gpus;
            snprintf(out->partition_of, sizeof out->partition_of, "%s", c->kinds[i].name);
        }
    }
}

status admit_find_place(const resources *asks, const char *cluster_name, admit_place *out) {
    cluster c;
    *out = (admit_place){ .device = "" };
    if (cluster_name) {
        TRY(cluster_find(cluster_name, &c));
        find_in_cluster(asks, &c, out);
    }
    if (!out->device[0] && asks->type[0]) find_by_type(asks->type, out);
    if (out->device[0]) return STATUS_OK;
    if (asks->type[0])
        text_add(&out->unseen,
                 "no device is known by the type '%.60s'; the site's file may say which it is\n", asks->type);
    else
        text_add(&out->unseen, "which device the job gets is not known: it asks for no type, and %s\n",
                 cluster_name ? "no nodes of the site's file are meant"
                              : "there is no file of the site's (--cluster)");
    return STATUS_OK;
}
