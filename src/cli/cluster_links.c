#include "cli/cluster_links.h"

#include <stdio.h>
#include <string.h>

#include "comm/comm.h"

static status find_kind(const cluster *c, const char *gpu, const cluster_nodes **out) {
    char devices[256] = "";
    size_t used = 0;
    for (uint32_t i = 0; i < c->kind_count; i++) {
        *out = &c->kinds[i];
        if (!gpu || hardware_same(c->kinds[i].device, gpu)) return STATUS_OK;
        if (used + 1 < sizeof devices)
            used += (size_t)snprintf(devices + used, sizeof devices - used, "%s%s", used ? ", " : "",
                                     c->kinds[i].device);
    }
    return status_set(STATUS_INVALID, "--gpu %.60s: no nodes of --cluster %s have it; they have %s", gpu,
                      c->name, devices);
}

/* Of GPUs each rank has one. */
static status check_ranks(const options *o, const cluster *c, const cluster_nodes *kind) {
    int64_t ranks = o->run.ranks ? o->run.ranks : comm_world().world,
            of_host = o->run.of_host ? o->run.of_host : ranks;
    if (ranks < 2)
        return status_set(STATUS_INVALID,
                          "--cluster %s says how fast ranks reach each other, and there is one; say --ranks "
                          "N[xPER_HOST]",
                          c->name);
    if (o->gpu && of_host > kind->gpus)
        return status_set(STATUS_INVALID,
                          "%lld ranks on each host: nodes %s of --cluster %s have %lld device%s; say --ranks "
                          "%lldx%lld",
                          (long long)of_host, kind->name, c->name, (long long)kind->gpus,
                          kind->gpus == 1 ? "" : "s", (long long)ranks, (long long)kind->gpus);
    return STATUS_OK;
}

static bool says_any(const cluster_nodes *kind) {
    bool any = false;
    for (int i = 0; i < LINK_COUNT; i++) any |= kind->links[i].rate > 0 || kind->links[i].seconds > 0;
    return any;
}

bool cluster_links_take(options *o, const cluster_nodes *kind, const char *name, links_said *said) {
    if (!says_any(kind)) return false;
    said->name = name;
    memcpy(said->of, kind->links, sizeof said->of);
    o->run.links = said;
    return true;
}

status cluster_links_choose(options *o, links_said *said) {
    cluster c;
    const cluster_nodes *kind = NULL;
    if (!o->estimate.cluster) return STATUS_OK;
    TRY(cluster_find(o->estimate.cluster, &c));
    TRY(find_kind(&c, o->gpu, &kind));
    TRY(check_ranks(o, &c, kind));
    if (cluster_links_take(o, kind, o->estimate.cluster, said)) return STATUS_OK;
    return status_set(STATUS_INVALID,
                      "--cluster %s: the file does not say how fast links of nodes %s are; name that "
                      "under 'within' and 'between', or leave --cluster out",
                      c.name, kind->name);
}
