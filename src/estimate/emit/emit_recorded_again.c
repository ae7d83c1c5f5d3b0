/* Modules that are computed again, in PyTorch's words: with results of operations that stay, a policy for
 * torch.utils.checkpoint.create_selective_checkpoint_contexts. */
#include <string.h>

#include "base/memory.h"
#include "estimate/emit/emit_recorded.h"

/* ---- groups ---- */

static uint32_t group_of(emit_recorded_groups *g, uint64_t kinds) {
    uint32_t i = 0;
    while (i < g->count && g->kinds[i] != kinds) i++;
    if (i == g->count) g->kinds[g->count++] = kinds;
    return i;
}

/* Marks are bytes: modules of further groups would be of the last one, and no plan has as many. */
enum { MOST_GROUPS = UINT8_MAX };

status emit_recorded_groups_find(const recording *r, const plan_way *w, emit_recorded_groups *g) {
    *g = (emit_recorded_groups){ .marks = memory_new((size_t)r->modules.count + 1, sizeof *g->marks),
                                 .kinds = memory_new((size_t)r->modules.count + 1, sizeof *g->kinds) };
    if (!g->marks || !g->kinds) return status_set(STATUS_FAILED, "no memory to write what was planned");
    g->count = 1;
    for (uint32_t m = 0; m < r->modules.count; m++) {
        if (w->action[m] != PLAN_AGAIN) continue;
        uint32_t group = group_of(g, w->keeps[m]);
        if (group >= MOST_GROUPS)
            return status_set(STATUS_INVALID, "the plan keeps results of more than %d sets of operations",
                              MOST_GROUPS);
        g->marks[m] = (uint8_t)(group + 1);
    }
    return STATUS_OK;
}

void emit_recorded_groups_close(emit_recorded_groups *g) {
    memory_free(g->kinds);
    memory_free(g->marks);
    *g = (emit_recorded_groups){ 0 };
}

void emit_recorded_kinds(const recording *r, uint64_t kinds, text *out) {
    recorded_kinds known;
    bool first = true;
    recorded_kinds_find(r, &known);
    for (uint32_t k = 0; k < known.count; k++) {
        if (!(kinds & recorded_kind_bit(k + 1))) continue;
        text_add(out, "%s%s", first ? "" : ", ", known.name[k]);
        first = false;
    }
}

/* ---- the file ---- */

/* Names are words (recorded_kinds.c). */
static void add_operations(const recording *r, uint64_t kinds, text *out) {
    recorded_kinds known;
    bool first = true;
    recorded_kinds_find(r, &known);
    for (uint32_t k = 0; k < known.count; k++) {
        const char *alone[] = { known.name[k], NULL };
        const char *const *all = recorded_kind_operations(known.name[k]);
        if (!(kinds & recorded_kind_bit(k + 1))) continue;
        for (all = all ? all : alone; *all; all++) {
            text_add(out, "%s\"%s\"", first ? "" : ", ", *all);
            first = false;
        }
    }
}

status emit_recorded_again_lists(const emit_recorded_of *q, text *out) {
    emit_recorded_groups g;
    status result = emit_recorded_groups_find(q->recording, q->way, &g);
    if (result == STATUS_OK && q->way->again > q->way->keeping)
        result = emit_recorded_names_of(
            q->recording,
            &(emit_recorded_list){ "AGAIN", "run again in backward, and keep their inputs alone", g.marks,
                                   1 },
            out);
    if (result == STATUS_OK && q->way->keeping)
        text_add(out, "KEEPING = [  # run again too, but what these operations make stays\n");
    for (uint32_t i = 1; result == STATUS_OK && i < g.count; i++) {
        text_add(out, "    ([");
        add_operations(q->recording, g.kinds[i], out);
        text_add(out, "], [\n");
        result = emit_recorded_modules(q->recording, g.marks, (uint8_t)(i + 1), out);
        text_add(out, "    ]),\n");
    }
    if (result == STATUS_OK && q->way->keeping) text_add(out, "]\n");
    emit_recorded_groups_close(&g);
    return result;
}

void emit_recorded_again_imports(const plan_way *w, bool chunks, text *out) {
    if (!w->again && !chunks) return;
    text_add(out, w->keeping ? "from torch.utils.checkpoint import (CheckpointPolicy, checkpoint,\n"
                               "                                    create_selective_checkpoint_contexts)\n"
                             : "from torch.utils.checkpoint import checkpoint\n");
}

void emit_recorded_again_functions(const plan_way *w, text *out) {
    if (!w->keeping) return;
    text_add(out,
             "\n\n"
             "def saving(operations):\n"
             "    def policy(ctx, op, *args, **kwargs):\n"
             "        stays = getattr(op, \"overloadpacket\", op).__name__ in operations\n"
             "        return CheckpointPolicy.MUST_SAVE if stays else CheckpointPolicy.PREFER_RECOMPUTE\n\n"
             "    return functools.partial(create_selective_checkpoint_contexts, policy)\n");
}

void emit_recorded_again_prepare(const plan_way *w, text *out) {
    if (w->again > w->keeping)
        text_add(out, "    for name in AGAIN:\n"
                      "        module = base.get_submodule(name)\n"
                      "        module.forward = functools.partial(checkpoint, module.forward, "
                      "use_reentrant=False)\n");
    if (w->keeping)
        text_add(out, "    for operations, names in KEEPING:\n"
                      "        for module in map(base.get_submodule, names):\n"
                      "            module.forward = functools.partial(checkpoint, module.forward, "
                      "use_reentrant=False,\n"
                      "                                               context_fn=saving(operations))\n");
}
