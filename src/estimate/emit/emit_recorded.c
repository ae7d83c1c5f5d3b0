#include "estimate/emit/emit_recorded.h"

#include <stdlib.h>
#include <string.h>

#include "base/memory.h"
#include "io/json.h"

/* ---- names of modules that differ in one number ---- */

/* "transformer.h.3.mlp": a number of it, what stands before it and what behind. */
typedef struct {
    const char *name;
    int before;        /* bytes of the name before the number; -1: it has none, or is no plain name */
    const char *after; /* behind the number */
    unsigned long number;
} numbered;

static bool is_plain(const char *name) {
    return name[strspn(name, "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_.")] == 0;
}

/* A part of digits alone, without a leading zero, of a size that comes back the same. */
static bool is_number(const char *part, size_t length) {
    if (!length || length > 9 || (length > 1 && *part == '0')) return false;
    return strspn(part, "0123456789") >= length;
}

/* By its first number, or its last one. */
static numbered split(const char *name, bool first) {
    numbered n = { .name = name, .before = -1, .after = "" };
    if (!is_plain(name)) return n;
    for (const char *part = name; *part;) {
        size_t length = strcspn(part, ".");
        if (is_number(part, length) && !(first && n.before >= 0)) {
            n.before = (int)(part - name), n.after = part + length;
            n.number = strtoul(part, NULL, 10);
        }
        part += length + (part[length] == '.');
    }
    return n;
}

static int by_pattern(const void *a, const void *b) {
    const numbered *x = a, *y = b;
    if (x->before != y->before) return x->before < y->before ? -1 : 1;
    int order = x->before < 0 ? strcmp(x->name, y->name) : strncmp(x->name, y->name, (size_t)x->before);
    if (!order) order = strcmp(x->after, y->after);
    if (order) return order;
    return x->number < y->number ? -1 : x->number > y->number;
}

static bool follows(const numbered *x, const numbered *y) {
    return x->before >= 0 && x->before == y->before && strncmp(x->name, y->name, (size_t)x->before) == 0 &&
           strcmp(x->after, y->after) == 0 && y->number == x->number + 1;
}

static uint32_t run_from(const numbered *names, uint32_t count, uint32_t i) {
    for (i++; i < count && follows(&names[i - 1], &names[i]);) i++;
    return i;
}

static uint32_t split_all(const recording *r, const plan_way *w, plan_action action, bool first,
                          numbered *names, uint32_t *count) {
    uint32_t runs = 0, most = *count;
    *count = 0;
    for (uint32_t m = 0; m < r->modules.count && *count < most; m++)
        if (w->action[m] == action) names[(*count)++] = split(r->modules.of[m], first);
    qsort(names, *count, sizeof *names, by_pattern);
    for (uint32_t i = 0; i < *count; i = run_from(names, *count, i)) runs++;
    return runs;
}

/* Calls `add` with each run of names that differ in one number, which rises by one: by their last numbers, or
 * by their first ones where that makes fewer. */
static status each_run(const recording *r, const plan_way *w, plan_action action,
                       void (*add)(text *out, const numbered *first, const numbered *last), text *out) {
    uint32_t count = action == PLAN_AGAIN ? w->again : w->away;
    numbered *names = memory_new((size_t)count + 1, sizeof *names);
    if (!names) return status_set(STATUS_FAILED, "no memory to write what was planned");
    uint32_t by_first = split_all(r, w, action, true, names, &count);
    if (split_all(r, w, action, false, names, &count) > by_first)
        split_all(r, w, action, true, names, &count);
    for (uint32_t i = 0, next; i < count; i = next) {
        next = run_from(names, count, i);
        add(out, &names[i], &names[next - 1]);
    }
    memory_free(names);
    return STATUS_OK;
}

static void add_for_people(text *out, const numbered *first, const numbered *last) {
    if (out->length) text_add(out, ", ");
    if (first == last)
        text_add(out, "%s", first->name);
    else
        text_add(out, "%.*s{%lu-%lu}%s", first->before, first->name, first->number, last->number,
                 first->after);
}

static void add_for_python(text *out, const numbered *first, const numbered *last) {
    text_add(out, "    ");
    if (first == last)
        json_add_quoted(out, first->name);
    else
        text_add(out, "*(f\"%.*s{i}%s\" for i in range(%lu, %lu))", first->before, first->name, first->after,
                 first->number, last->number + 1);
    text_add(out, ",\n");
}

status emit_recorded_names(const recording *r, const plan_way *w, plan_action action, text *out) {
    text all = { 0 };
    status result = each_run(r, w, action, add_for_people, &all);
    if (result == STATUS_OK && all.length) text_add(out, "%s", all.data);
    text_close(&all);
    return result;
}

/* ---- the file ---- */

static status add_list(const recording *r, const plan_way *w, plan_action action, text *out) {
    text_add(out, action == PLAN_AGAIN ? "AGAIN = [  # run again in backward, and keep their inputs alone\n"
                                       : "AWAY = [  # what they save for backward is kept with the host\n");
    TRY(each_run(r, w, action, add_for_python, out));
    text_add(out, "]\n");
    return STATUS_OK;
}

static const char away_of_python[] =
    "\n\n"
    "def to_host(t):\n"
    "    return torch.empty_like(t, device=\"cpu\", pin_memory=t.is_cuda).copy_(t)\n\n\n"
    "def to_device(host, device):\n"
    "    return host.to(device, non_blocking=True)\n\n\n"
    "def kept_away(forward, stays, copies):\n"
    "    def run(*args, **kwargs):\n"
    "        known = {}  # a tensor is copied once, and held until then: its place must not become "
    "another's\n\n"
    "        def pack(t):\n"
    "            storage = t.untyped_storage()\n"
    "            if storage.nbytes() < LEAST or storage.nbytes() in copies or storage.data_ptr() in stays:\n"
    "                return None, t\n"
    "            place = t.data_ptr(), t.dtype, t.shape, t.stride(), t._version\n"
    "            if place not in known:\n"
    "                known[place] = t, to_host(t)\n"
    "            return t.device, known[place][1]\n\n"
    "        def unpack(packed):\n"
    "            return packed[1] if packed[0] is None else to_device(packed[1], packed[0])\n\n"
    "        with torch.autograd.graph.saved_tensors_hooks(pack, unpack):\n"
    "            result = forward(*args, **kwargs)\n"
    "        known.clear()\n"
    "        return result\n\n"
    "    return run\n";

static void add_prepare(const recording *r, const plan_way *w, text *out) {
    text_add(out, "\n\ndef prepare(model):  # once, when it is on its device\n");
    if (w->again)
        text_add(out, "    for name in AGAIN:\n"
                      "        module = model.get_submodule(name)\n"
                      "        module.forward = functools.partial(checkpoint, module.forward, "
                      "use_reentrant=False)\n");
    if (w->away) {
        text_add(out, "    stays = {t.untyped_storage().data_ptr() for t in (*model.parameters(), "
                      "*model.buffers())}\n");
        text_add(out, *r->autocast ? "    copies = {p.untyped_storage().nbytes() // 2 for p in "
                                     "model.parameters()}  # autocast's of weights\n"
                                   : "    copies = set()\n");
        text_add(out, "    for name in AWAY:\n"
                      "        module = model.get_submodule(name)\n"
                      "        module.forward = kept_away(module.forward, stays, copies)\n");
    }
    text_add(out, "    return model\n");
}

static void add_step(const recording *r, const plan_way *w, text *out) {
    bool half = *r->autocast && is_plain(r->autocast);
    text_add(out, "\n\ndef step(model, optimizer, batches, loss_of):  # ACCUMULATE batches of MICRO_BATCH "
                  "samples each\n"
                  "    losses = []\n"
                  "    for batch in batches:\n");
    if (half)
        text_add(out,
                 "        with torch.autocast(next(model.parameters()).device.type, dtype=torch.%s):\n"
                 "            loss = loss_of(model, batch)\n",
                 r->autocast);
    else
        text_add(out, "        loss = loss_of(model, batch)\n");
    text_add(out, w->accumulate > 1 ? "        loss.backward(torch.full_like(loss, 1 / ACCUMULATE))\n"
                                    : "        loss.backward()\n");
    text_add(out, "        losses.append(loss.detach())\n"
                  "        del loss, batch\n"
                  "    optimizer.step()\n"
                  "    optimizer.zero_grad()\n"
                  "    return losses\n");
}

status emit_recorded(const recording *r, const plan_way *w, const char *promised, text *out) {
    text_add(out, "# snug estimate: ");
    json_add_quoted(out, r->model);
    text_add(out, " %s\n", promised);
    text_add(out, "# prepare(model), then for each step of the optimizer step(model, optimizer, batches, "
                  "loss_of)\n");
    if (w->again) text_add(out, "import functools\n\n");
    text_add(out, "import torch\n");
    if (w->again) text_add(out, "from torch.utils.checkpoint import checkpoint\n");
    text_add(out, "\nMICRO_BATCH = %lld  # samples at once\n", (long long)w->batch);
    text_add(out, "ACCUMULATE = %lld  # micro-batches of a step, of whose losses the mean is learned from\n",
             (long long)w->accumulate);
    if (w->again) TRY(add_list(r, w, PLAN_AGAIN, out));
    if (w->away) TRY(add_list(r, w, PLAN_AWAY, out));
    if (w->away) {
        text_add(out, "LEAST = %llu  # bytes: smaller tensors stay on the device\n",
                 (unsigned long long)w->least);
        text_add(out, "%s", away_of_python);
    }
    add_prepare(r, w, out);
    add_step(r, w, out);
    return STATUS_OK;
}
