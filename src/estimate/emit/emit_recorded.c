#include "estimate/emit/emit_recorded.h"

#include <stdlib.h>
#include <string.h>

#include "base/memory.h"
#include "estimate/recorded/recorded_rewrite.h"
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

static uint32_t split_all(const recording *r, const uint8_t *marks, uint8_t mark, bool first, numbered *names,
                          uint32_t *count) {
    uint32_t runs = 0;
    *count = 0;
    for (uint32_t m = 0; m < r->modules.count; m++)
        if (marks[m] == mark) names[(*count)++] = split(r->modules.of[m], first);
    qsort(names, *count, sizeof *names, by_pattern);
    for (uint32_t i = 0; i < *count; i = run_from(names, *count, i)) runs++;
    return runs;
}

/* Calls `add` with each run of names that differ in one number, which rises by one: by their last numbers, or
 * by their first ones where that makes fewer. */
static status each_run(const recording *r, const uint8_t *marks, uint8_t mark,
                       void (*add)(text *out, const numbered *first, const numbered *last), text *out) {
    uint32_t count;
    numbered *names = memory_new((size_t)r->modules.count + 1, sizeof *names);
    if (!names) return status_set(STATUS_FAILED, "no memory to write what was planned");
    uint32_t by_first = split_all(r, marks, mark, true, names, &count);
    if (split_all(r, marks, mark, false, names, &count) > by_first)
        split_all(r, marks, mark, true, names, &count);
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
    if (first == last)
        json_add_quoted(out, first->name);
    else
        text_add(out, "*(f\"%.*s{i}%s\" for i in range(%lu, %lu))", first->before, first->name, first->after,
                 first->number, last->number + 1);
    text_add(out, ",\n");
}

static void add_listed(text *out, const numbered *first, const numbered *last) {
    text_add(out, "    ");
    add_for_python(out, first, last);
}

static void add_listed_within(text *out, const numbered *first, const numbered *last) {
    text_add(out, "        ");
    add_for_python(out, first, last);
}

status emit_recorded_names(const recording *r, const uint8_t *marks, uint8_t mark, text *out) {
    text all = { 0 };
    status result = each_run(r, marks, mark, add_for_people, &all);
    if (result == STATUS_OK && all.length) text_add(out, "%s", all.data);
    text_close(&all);
    return result;
}

/* ---- the file ---- */

status emit_recorded_names_of(const recording *r, const emit_recorded_list *list, text *out) {
    text_add(out, "%s = [  # %s\n", list->name, list->says);
    TRY(each_run(r, list->marks, list->mark, add_listed, out));
    text_add(out, "]\n");
    return STATUS_OK;
}

status emit_recorded_modules(const recording *r, const uint8_t *marks, uint8_t mark, text *out) {
    return each_run(r, marks, mark, add_listed_within, out);
}

static bool is_gathered(const torch_settings *s) { return torch_is_shared(s) && s->shard == TORCH_FSDP; }

static const char away_of_python[] =
    "\n\n"
    "def to_host(t):\n"
    "    return torch.empty_like(t, device=\"cpu\", pin_memory=t.is_cuda).copy_(t)\n\n\n"
    "def to_device(host, device):\n"
    "    return host.to(device, non_blocking=True)\n\n\n"
    "def places(module):\n"
    "    return {t.untyped_storage().data_ptr() for t in (*module.parameters(), *module.buffers())}\n\n\n"
    "def kept_away(module, forward, stays, copies):\n"
    "    def run(*args, **kwargs):\n"
    "        stay = places(module) if stays is None else stays\n"
    "        known = {}  # a tensor is copied once, and held until then: its place must not become "
    "another's\n\n"
    "        def pack(t):\n"
    "            storage = t.untyped_storage()\n"
    "            if storage.nbytes() < LEAST or storage.nbytes() in copies or storage.data_ptr() in stay:\n"
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

static void add_away(const torch_settings *s, text *out) {
    text_add(out, is_gathered(s) ? "    stays = None  # weights are where FSDP gathers them\n"
                                 : "    stays = places(base)\n");
    text_add(out, s->types == TORCH_AUTOCAST
                      ? "    copies = {p.untyped_storage().nbytes() // 2 for p in base.parameters()}  "
                        "# autocast's of weights\n"
                      : "    copies = set()\n");
    text_add(out, "    for name in AWAY:\n"
                  "        module = base.get_submodule(name)\n"
                  "        module.forward = kept_away(module, module.forward, stays, copies)\n");
}

static void add_prepare(const emit_recorded_of *q, text *out) {
    text_add(out, "\n\ndef prepare(model):  # once, when it is on its device, before its optimizer is made\n"
                  "    base = model\n");
    emit_recorded_before(q, out);
    emit_recorded_loss_prepare(q->settings, out);
    emit_recorded_again_prepare(q->way, out);
    if (q->way->away) add_away(q->settings, out);
    emit_recorded_behind(q, out);
    text_add(out, "    return model\n");
}

/* The type of autocast that was recorded, else the one that rules give. */
static const char *autocast_of(const recording *r) {
    return *r->autocast && is_plain(r->autocast) ? r->autocast : "bfloat16";
}

/* DDP's gradients go out with the last micro-batch. */
static void add_step(const emit_recorded_of *q, text *out) {
    bool parts = q->way->accumulate > 1, waits = parts && q->settings->shard == TORCH_DDP;
    text_add(out, "\n\ndef step(model, optimizer, batches, loss_of):  # ACCUMULATE batches of MICRO_BATCH "
                  "samples each\n"
                  "    losses = []\n");
    text_add(out, waits ? "    for i, batch in enumerate(batches, 1):\n"
                          "        model.require_backward_grad_sync = i == ACCUMULATE\n"
                        : "    for batch in batches:\n");
    if (q->settings->types == TORCH_AUTOCAST)
        text_add(out,
                 "        with torch.autocast(next(model.parameters()).device.type, dtype=torch.%s):\n"
                 "            loss = loss_of(model, batch)\n",
                 autocast_of(q->recording));
    else
        text_add(out, "        loss = loss_of(model, batch)\n");
    text_add(out, parts ? "        loss.backward(torch.full_like(loss, 1 / ACCUMULATE))\n"
                        : "        loss.backward()\n");
    text_add(out, "        losses.append(loss.detach())\n"
                  "        del loss, batch\n"
                  "    optimizer.step()\n"
                  "    optimizer.zero_grad()\n"
                  "    return losses\n");
}

static void add_imports(const emit_recorded_of *q, text *out) {
    if (q->way->again) text_add(out, "import functools\n\n");
    text_add(out, "import torch\n");
    emit_recorded_imports(q->settings, out);
    emit_recorded_again_imports(q->way, q->settings->loss_chunks > 0, out);
    if (q->settings->loss_chunks) text_add(out, "from torch.utils._pytree import tree_map\n");
}

static status add_lists(const emit_recorded_of *q, text *out) {
    const plan_way *w = q->way;
    if (w->again) TRY(emit_recorded_again_lists(q, out));
    if (w->away)
        TRY(emit_recorded_names_of(q->recording,
                                   &(emit_recorded_list){ "AWAY",
                                                          "what they save for backward is kept with the host",
                                                          w->action, PLAN_AWAY },
                                   out));
    return emit_recorded_lists(q, out);
}

status emit_recorded(const emit_recorded_of *q, text *out) {
    const plan_way *w = q->way;
    torch_settings played = recorded_prepared(q->settings);
    emit_recorded_of p = *q;
    recorded_head head;
    p.settings = &played;
    TRY(emit_recorded_check(&played));
    text_add(out, "# snug estimate: ");
    json_add_quoted(out, q->recording->model);
    text_add(out, " %s\n", q->promised);
    text_add(out,
             "# model = prepare(model), then for each step of the optimizer step(model, optimizer, batches, "
             "loss_of)\n");
    add_imports(&p, out);
    text_add(out, "\nMICRO_BATCH = %lld  # samples at once%s\n", (long long)w->batch,
             torch_is_shared(&played) ? ", of each device" : "");
    text_add(out, "ACCUMULATE = %lld  # micro-batches of a step, of whose losses the mean is learned from\n",
             (long long)w->accumulate);
    TRY(add_lists(&p, out));
    TRY(emit_recorded_loss_lists(&p, &head, out));
    if (w->away) {
        text_add(out, "LEAST = %llu  # bytes: smaller tensors stay on the device\n",
                 (unsigned long long)w->least);
        text_add(out, "%s", away_of_python);
    }
    emit_recorded_again_functions(w, out);
    emit_recorded_loss_functions(&p, &head, out);
    add_prepare(&p, out);
    add_step(&p, out);
    return STATUS_OK;
}
