/* A cluster's file: what is read has nodes with devices, and every word of it can stand in a script. */
#include <ctype.h>
#include <string.h>

#include "estimate/clusters/cluster.h"
#include "fuzz/fuzz.h"

static int fine(const char *word) {
    for (; *word; word++)
        if (!isgraph((unsigned char)*word) || strchr("'\"\\$`;<>(){}#!~^?", *word)) return 0;
    return 1;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    cluster c;
    if (fuzz_said(cluster_find(fuzz_file("x.yaml", data, size), &c)) != STATUS_OK) return 0;
    FUZZ_EXPECT(c.kind_count > 0 && c.kind_count <= CLUSTER_MOST_KINDS && c.hours > 0);
    FUZZ_EXPECT(c.flag_count <= CLUSTER_MOST_FLAGS && !strpbrk(c.title, "\n\r"));
    for (uint32_t i = 0; i < c.kind_count; i++) {
        const cluster_nodes *k = &c.kinds[i];
        FUZZ_EXPECT(k->gpus > 0 && k->cores > 0 && k->count > 0 && k->memory >> 20);
        for (int l = 0; l < LINK_COUNT; l++)
            FUZZ_EXPECT(k->links[l].rate >= 0 && k->links[l].rate <= 1e15 && k->links[l].seconds >= 0 &&
                        k->links[l].seconds <= 10);
        FUZZ_EXPECT(fine(k->name) && fine(k->device) && fine(k->partition) && fine(k->constraint) &&
                    fine(k->type));
    }
    for (uint32_t i = 0; i < c.flag_count; i++) FUZZ_EXPECT(fine(c.flags[i]));
    return 0;
}
