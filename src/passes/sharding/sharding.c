/* Training by several ranks, each of which has some of a batch's units of samples.
 *
 * copies (data parallel): every rank has all weights and states; the sums of gradients are shares while
 *     units are added, and gathered before the update, which every rank makes of all.
 * optimizer, gradients (ZeRO 1 and 2, one and the same here, since sums are shares in any case): states are
 *     shares as well, each rank updates its own, and the new weights are gathered.
 * weights (ZeRO 3, FSDP): weights are shares too, and gathered where forward and backward read them. Groups
 *     of ranks may have a copy each (HSDP): then weights travel within a group, and sums from group to group.
 *     With `gradients` a group shares its states so, and new weights are gathered within it.
 * chain: for runs without units. Every rank has all, and sums go from rank to rank (chain.c).
 *
 * S. Rajbhandari et al., ZeRO: Memory Optimizations Toward Training Trillion Parameter Models, 2020. Y. Zhao
 * et al., PyTorch FSDP: Experiences on Scaling Fully Sharded Data Parallel, 2023. */
#include "passes/sharding/sharding.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { STAGE, AHEAD, KEEP, GROUP, LATE }; /* places of the numbers in a setting */
enum { MOST_KEPT = 100000, MOST_GROUPED = 1 << 16 };

static const char *const stages[] = { [SHARE_SUMS] = "copies",
                                      [SHARE_STATES] = "gradients",
                                      [SHARE_WEIGHTS] = "weights",
                                      [SHARE_CHAIN] = "chain" };

static share_setting of_setting(const pass_setting *s) {
    return (share_setting){ (share_stage)s->value[STAGE], s->value[AHEAD], s->value[KEEP], s->value[GROUP],
                            s->value[LATE] };
}

/* A group of all ranks is none, and a group of one shares nothing. */
static share_setting among(const pass_setting *s, int64_t ranks) {
    share_setting set = of_setting(s);
    if (set.group == 1) set = (share_setting){ .stage = SHARE_SUMS };
    if (set.group == ranks) set.group = 0;
    if (!set.group) set.late = 0;
    return set;
}

/* ---- what people write ---- */

static status not_read(const char *text) {
    return status_set(STATUS_INVALID,
                      "--sharding: '%s' is neither auto, copies, chain, gradients nor weights; the last two "
                      "may go on with :group=RANKS, that with :late=1, and weights with :ahead=0 to %d and "
                      ":keep=BLOCKS as well",
                      text, MOST_AHEAD);
}

/* ":ahead=2", ":keep=4", ":group=8", ":late=1", in any order. Where weights are whole none are fetched. */
static bool read_part(const char **at, share_setting *s) {
    const struct {
        const char *name;
        int64_t *to;
        long least, most;
    } parts[] = { { ":ahead=", &s->ahead, 0, MOST_AHEAD },
                  { ":keep=", &s->keep, 0, MOST_KEPT },
                  { ":group=", &s->group, 1, MOST_GROUPED },
                  { ":late=", &s->late, 0, 1 } };
    for (size_t i = 0; i < sizeof parts / sizeof *parts; i++) {
        size_t length = strlen(parts[i].name);
        char *end;
        bool fetches = parts[i].to != &s->group && parts[i].to != &s->late;
        if (strncmp(*at, parts[i].name, length) != 0 || (fetches && s->stage != SHARE_WEIGHTS)) continue;
        const char *digits = *at + length;
        if (*digits < '0' || *digits > '9') return false;
        long value = strtol(digits, &end, 10);
        if (value < parts[i].least || value > parts[i].most) return false;
        *parts[i].to = value;
        *at = end;
        return true;
    }
    return false;
}

static void write_setting(const share_setting *s, pass_setting *out) {
    int n = snprintf(out->text, sizeof out->text, "%s", stages[s->stage]);
    if (s->stage == SHARE_WEIGHTS && s->ahead != 1)
        n += snprintf(out->text + n, sizeof out->text - (size_t)n, ":ahead=%lld", (long long)s->ahead);
    if (s->keep) n += snprintf(out->text + n, sizeof out->text - (size_t)n, ":keep=%lld", (long long)s->keep);
    if (s->late) n += snprintf(out->text + n, sizeof out->text - (size_t)n, ":late=1");
    if (s->group) snprintf(out->text + n, sizeof out->text - (size_t)n, ":group=%lld", (long long)s->group);
    out->value[STAGE] = s->stage, out->value[AHEAD] = s->ahead, out->value[KEEP] = s->keep;
    out->value[GROUP] = s->group, out->value[LATE] = s->late;
}

static status parse(const char *text, pass_setting *out) {
    share_setting s = { .ahead = 1 };
    size_t length = strcspn(text, ":");
    int found = -1;
    for (int i = SHARE_SUMS; i <= SHARE_CHAIN; i++)
        if (strlen(stages[i]) == length && strncmp(text, stages[i], length) == 0) found = i;
    if (length == strlen("optimizer") && strncmp(text, "optimizer", length) == 0) found = SHARE_STATES;
    if (found < 0 || (text[length] && found != SHARE_STATES && found != SHARE_WEIGHTS)) return not_read(text);
    s.stage = (share_stage)found;
    for (const char *at = text + length; *at;)
        if (!read_part(&at, &s)) return not_read(text);
    if (s.late && !s.group) return not_read(text);
    *out = (pass_setting){ .class = PASS_EXACT, .gradients = true };
    write_setting(&s, out);
    return STATUS_OK;
}

/* ---- what is worth trying ---- */

static int32_t blocks_of(const graph *g) {
    int32_t blocks = 0;
    for (node_id id = 1; id < g->nodes.count; id++)
        if (graph_node(g, id)->site >= blocks) blocks = graph_node(g, id)->site + 1;
    return blocks;
}

/* Where there are several hosts, the ranks of each may be a group, or those of two hosts. Parts of a host
 * send more between hosts than all of it, and where it is within hosts that ranks are slow no group is
 * faster. */
enum { GROUPS = 2 };
static int groups_of_hosts(const pass_context *c, int64_t groups[GROUPS]) {
    const int64_t sizes[GROUPS] = { c->of_host, 2 * c->of_host };
    int count = 0;
    if (c->of_host < 2 || c->of_host >= c->ranks) return 0;
    for (int i = 0; i < GROUPS; i++)
        if (sizes[i] < c->ranks && c->ranks % sizes[i] == 0) groups[count++] = sizes[i];
    return count;
}

static void offer(const share_setting *s, pass_setting *out, uint32_t room, uint32_t *count) {
    if (*count == room) return;
    out[*count] = (pass_setting){ .class = PASS_EXACT, .gradients = true };
    write_setting(s, &out[(*count)++]);
}

/* Of two groups the last one is as near as any other: only of more is it worth it to tell sums late. */
static void offer_grouped(share_setting s, const pass_context *c, pass_setting *out, uint32_t room,
                          uint32_t *count) {
    offer(&s, out, room, count);
    s.late = s.group && c->ranks / s.group > 2;
    if (s.late) offer(&s, out, room, count);
}

/* Sums alone are shared only where nothing else can be: what updates on shares saves costs nothing. */
static uint32_t settings(const graph *g, const pass_context *c, pass_setting *out, uint32_t room,
                         pass_without *without) {
    const char *name;
    if (!c->training || c->ranks < 2) return 0;
    *without = PASS_NEEDED; /* ranks that know nothing of each other train several models */
    if (c->chained) return room && parse("chain", &out[0]) == STATUS_OK;
    bool any = cut_any(g, &name);
    if (!any || *name) return room && parse(any ? "gradients" : "copies", &out[0]) == STATUS_OK;
    int64_t blocks = blocks_of(g), some = (c->layers && blocks ? c->layers : blocks) / 2;
    int64_t groups[1 + GROUPS] = { 0 };
    int group_count = 1 + groups_of_hosts(c, groups + 1);
    uint32_t count = 0;
    for (int i = 0; i < group_count && i < 2; i++)
        offer_grouped((share_setting){ .stage = SHARE_STATES, .ahead = 1, .group = groups[i] }, c, out, room,
                      &count);
    for (int i = 0; i < group_count; i++) {
        share_setting s = { SHARE_WEIGHTS, 1, some, groups[i], 0 };
        if (some) offer_grouped(s, c, out, room, &count); /* else it is as the next one */
        s.keep = 0;
        offer_grouped(s, c, out, room, &count);
        s.ahead = 0;
        if (i < 2) offer_grouped(s, c, out, room, &count);
    }
    return count;
}

static status check_chain(const graph *g, const pass_setting *s, const pass_context *c) {
    bool chain = s->value[STAGE] == SHARE_CHAIN;
    if (chain && !c->chained)
        return status_set(STATUS_INVALID,
                          "--sharding chain is of runs without --unit; leave one of the two out");
    if (!chain)
        return status_set(STATUS_INVALID,
                          "--sharding %s adds up units of samples: say --unit N; without units there is "
                          "--sharding chain",
                          s->text);
    const char *why = chain_refusal(g, c);
    return why ? status_set(STATUS_INVALID, "--sharding chain: %s; say --unit N", why) : STATUS_OK;
}

static status check_group(const pass_setting *s, const pass_context *c) {
    long long group = s->value[GROUP], ranks = c->ranks;
    if (!group || ranks % group == 0) return STATUS_OK;
    return status_set(STATUS_INVALID,
                      "--sharding %s: %lld ranks are no whole number of groups of %lld; choose a divisor of "
                      "%lld",
                      s->text, ranks, group, ranks);
}

static status check(const graph *g, const pass_setting *s, const pass_context *c) {
    const char *name;
    if (!c->training) return STATUS_OK;
    if (c->ranks < 2)
        return status_set(STATUS_INVALID, "--sharding %s is of several ranks, and there is one; leave it out",
                          s->text);
    if (c->chained || s->value[STAGE] == SHARE_CHAIN) return check_chain(g, s, c);
    TRY(check_group(s, c));
    bool any = cut_any(g, &name);
    if (among(s, c->ranks).stage == SHARE_SUMS || (any && (!*name || s->value[STAGE] == SHARE_STATES)))
        return STATUS_OK;
    if (*name)
        return status_set(
            STATUS_INVALID,
            "--sharding %s: the update of '%s' needs all of it (Adafactor has means of rows and "
            "columns); say --optimizer adamw, or --sharding copies",
            s->text, name);
    return status_set(STATUS_INVALID,
                      "--sharding %s: this model has no weight of %d numbers or more that could be shared; "
                      "say --sharding copies",
                      s->text, SMALL);
}

static status copy_all(const graph *in, graph *out) {
    rewrite r;
    TRY(rewrite_open(&r, in, out));
    for (node_id id = 1; id < in->nodes.count && !out->failed; id++) rewrite_node(&r, id);
    return rewrite_close(&r);
}

static status run(const graph *in, const pass_setting *s, const pass_context *c, graph *out) {
    share_setting setting = among(s, c->ranks);
    if (c->chained && c->training) return chain_run(in, c, out);
    if (c->ranks < 2 || setting.stage == SHARE_CHAIN || (!c->training && setting.stage == SHARE_SUMS))
        return copy_all(in, out);
    return share_run(in, &setting, c, out);
}

const pass pass_sharding = {
    .name = "sharding",
    .help = "what ranks share of a training: sums alone, states, or weights too",
    .values = "auto, copies, gradients (with :group=RANKS), weights (and with :ahead=N, :keep=BLOCKS), chain",
    .paper = "Rajbhandari et al. 2020",
    .class = PASS_EXACT,
    .stage = PASS_STEP,
    .frees = 1u << ROLE_GRADIENT | 1u << ROLE_STATE | 1u << ROLE_PARAMETER,
    .parse = parse,
    .settings = settings,
    .check = check,
    .run = run
};
