#include "estimate/recorded/plan_tree.h"

#include <stdlib.h>
#include <string.h>

#include "base/memory.h"

enum { NOBODY = UINT32_MAX };

/* ---- the tree of modules ---- */

static bool is_inside(const char *outer, const char *module) {
    size_t n = strlen(outer);
    return !n || (strncmp(outer, module, n) == 0 && module[n] == '.');
}

/* Modules stand behind the one that has them. */
static void find_parents(plan_tree *t) {
    const recording_texts *names = &t->recording->modules;
    for (uint32_t i = 1; i < names->count; i++) {
        uint32_t up = i - 1;
        while (up && !is_inside(names->of[up], names->of[i])) up = t->parent[up];
        t->parent[i] = up, t->depth[i] = t->depth[up] + 1;
    }
}

bool plan_tree_has(const plan_tree *t, uint32_t outer, uint32_t module) {
    while (t->depth[module] > t->depth[outer]) module = t->parent[module];
    return module == outer;
}

static uint32_t common(const plan_tree *t, uint32_t a, uint32_t b) {
    if (a == NOBODY) return b;
    while (a != b)
        if (t->depth[a] >= t->depth[b])
            a = t->parent[a];
        else
            b = t->parent[b];
    return a;
}

/* ---- storages ---- */

static bool is_forward(const plan_tree *t, uint32_t call) {
    return t->program->phase.of[call - 1] == RECORDING_FORWARD;
}

static void note_births(plan_tree *t) {
    const recording_program *p = t->program;
    uint32_t call = 0;
    for (uint32_t s = 1; s <= recording_storages(p); s++) {
        t->storages[s].home = t->storages[s].saver = NOBODY;
        t->storages[s].stays = true;
    }
    for (uint32_t i = 0; i < p->events.count; i++) {
        int64_t e = p->events.of[i];
        if (!e) call++;
        if (e > 0 && is_forward(t, call)) {
            t->storages[e].born = call;
            t->storages[e].home = (uint32_t)p->module.of[call - 1];
        }
        if (e < 0 && is_forward(t, call)) t->storages[-e].stays = false;
    }
}

static void note_reads(plan_tree *t) {
    const recording_program *p = t->program;
    uint32_t at = 0;
    for (uint32_t call = 1; call <= p->call_name.count; call++) {
        uint32_t module = (uint32_t)p->module.of[call - 1];
        for (int64_t k = 0; is_forward(t, call) && k < p->reads.of[call - 1]; k++) {
            plan_storage *s = &t->storages[p->operands.of[at + k]];
            s->read = call;
            if (s->born) s->home = common(t, s->home, module);
        }
        at += (uint32_t)(p->reads.of[call - 1] + p->makes.of[call - 1]);
    }
    for (uint32_t i = 0; i < p->saved.count; i += 2) {
        plan_storage *s = &t->storages[p->saved.of[i + 1]];
        s->saver = common(t, s->saver, (uint32_t)p->saved.of[i]);
    }
}

/* ---- seconds ---- */

static double seconds_of(const plan_rates *rates, double operations, double bytes) {
    double products = rates->products > 0 ? operations / rates->products : 0,
           moves = rates->bandwidth > 0 ? bytes / rates->bandwidth : 0;
    double most = products > moves ? products : moves;
    return most > rates->begin ? most : rates->begin;
}

/* Weight, gradient and two states are read, weight and states written (torch_time.c). */
enum { UPDATE = 7 };

static double seconds_of_update(const plan_tree *t, const plan_rates *rates) {
    double bytes = 0;
    for (uint32_t s = 1; s <= recording_storages(t->program); s++)
        if (t->program->role.of[s - 1] == RECORDING_GRADIENT) bytes += (double)t->sizes->bytes[s];
    return rates->bandwidth > 0 ? UPDATE * bytes / rates->bandwidth : 0;
}

static void note_seconds(plan_tree *t, const torch_settings *s, const plan_rates *rates) {
    const recording_program *p = t->program;
    uint32_t at = 0;
    recorded_sizes_operations(t->sizes, s->batch, s->context, t->call_seconds + 1);
    for (uint32_t call = 1; call <= p->call_name.count; call++) {
        int64_t operands = p->reads.of[call - 1] + p->makes.of[call - 1];
        double bytes = 0;
        for (int64_t k = 0; k < operands; k++) bytes += (double)t->sizes->bytes[p->operands.of[at + k]];
        at += (uint32_t)operands;
        t->call_seconds[call] = seconds_of(rates, t->call_seconds[call], bytes);
        bool updates = p->phase.of[call - 1] == RECORDING_UPDATE;
        *(updates ? &t->update : &t->once) += t->call_seconds[call];
    }
    if (s->update_by_rule) t->update = seconds_of_update(t, rates);
}

/* ---- computing again ---- */

/* Such a module changes something that is not its own: run again it would change it twice. */
static void forbid(plan_tree *t, uint32_t module, const plan_storage *s) {
    uint32_t top = s->born ? common(t, module, (uint32_t)t->program->module.of[s->born - 1]) : 0;
    for (uint32_t m = module; m != top; m = t->parent[m]) t->again[m].may = false;
}

/* Results that are changed in place, and those of what changes them, don't stay: PyTorch refuses to find
 * them. */
static void forbid_results(plan_tree *t, uint32_t call) {
    for (uint32_t m = call ? (uint32_t)t->program->module.of[call - 1] : 0; call; m = t->parent[m]) {
        t->keeps[m] &= ~recorded_kind_bit(t->kind_of[call]);
        if (!m) break;
    }
}

static void note_changes(plan_tree *t) {
    const recording_program *p = t->program;
    uint32_t at = 0;
    for (uint32_t call = 1; call <= p->call_name.count; call++) {
        uint32_t module = (uint32_t)p->module.of[call - 1];
        int64_t reads = p->reads.of[call - 1], makes = p->makes.of[call - 1];
        bool norm = is_forward(t, call) && strstr(p->strings.of[p->call_name.of[call - 1]], "batch_norm");
        t->mixes_samples |= norm;
        for (int64_t k = 0; is_forward(t, call) && k < reads + makes; k++) {
            const plan_storage *s = &t->storages[p->operands.of[at + k]];
            bool changed = k >= reads && s->born != call,
                 running = norm && p->role.of[p->operands.of[at + k] - 1] == RECORDING_BUFFER;
            if (changed || running) forbid(t, module, s);
            if (changed) forbid_results(t, call), forbid_results(t, s->born);
        }
        at += (uint32_t)(reads + makes);
    }
}

/* What a module reads of others and forward lets go stays for it, once. `stamp`: the storage that a module
 * was last charged for. Storages with several readers come in order of calls, so a module may be charged
 * twice for one where others lie between; that only makes it look a little worse. */
static void charge_inputs(plan_tree *t, uint32_t *stamp) {
    const recording_program *p = t->program;
    uint32_t at = 0;
    for (uint32_t call = 1; call <= p->call_name.count; call++) {
        for (int64_t k = 0; is_forward(t, call) && k < p->reads.of[call - 1]; k++) {
            uint32_t s = (uint32_t)p->operands.of[at + k];
            const plan_storage *x = &t->storages[s];
            if (!x->born || x->stays) continue;
            uint32_t reader = (uint32_t)p->module.of[call - 1],
                     top = common(t, reader, (uint32_t)p->module.of[x->born - 1]);
            for (uint32_t m = reader; m != top; m = t->parent[m]) {
                if (stamp[m] != s) t->again[m].bytes -= (double)t->sizes->bytes[s];
                stamp[m] = s;
            }
        }
        at += (uint32_t)(p->reads.of[call - 1] + p->makes.of[call - 1]);
    }
}

/* Forward runs again up to the last storage that backward wants. */
static void charge_seconds(plan_tree *t, const uint32_t *last) {
    for (uint32_t call = 1; call <= t->program->call_name.count; call++) {
        if (!is_forward(t, call)) continue;
        for (uint32_t m = (uint32_t)t->program->module.of[call - 1];; m = t->parent[m]) {
            if (call <= last[m]) t->again[m].seconds += t->call_seconds[call];
            if (call > t->last_call[m]) t->last_call[m] = call;
            if (!m) break;
        }
    }
}

/* ---- results that stay where a module is computed again ---- */

/* Autocast's copy of a weight that was made outside is made anew where the module runs again, and PyTorch
 * then counts more calls than there were in forward. */
static void forbid_borrowed_copies(plan_tree *t, const torch_settings *s) {
    const recording_program *p = t->program;
    uint32_t at = 0;
    bool *copy = memory_new((size_t)recording_storages(p) + 1, sizeof *copy);
    for (uint32_t call = 1; copy && s->types == TORCH_AUTOCAST && call <= p->call_name.count; call++) {
        const int64_t *operand = p->operands.of + at;
        int64_t reads = p->reads.of[call - 1], makes = p->makes.of[call - 1];
        uint32_t module = (uint32_t)p->module.of[call - 1];
        at += (uint32_t)(reads + makes);
        if (!is_forward(t, call)) continue;
        bool casts = reads == 1 && makes == 1 && p->role.of[operand[0] - 1] == RECORDING_PARAMETER &&
                     strncmp(p->strings.of[p->call_name.of[call - 1]], "_to_copy", 8) == 0;
        if (casts) copy[operand[1]] = true;
        for (int64_t k = 0; k < reads; k++) {
            if (!copy[operand[k]]) continue;
            uint32_t born = t->storages[operand[k]].born,
                     top = common(t, module, (uint32_t)p->module.of[born - 1]);
            for (uint32_t m = module; m != top; m = t->parent[m]) t->keeps[m] = 0;
        }
    }
    if (!copy) memset(t->keeps, 0, t->recording->modules.count * sizeof *t->keeps);
    memory_free(copy);
}

/* A result that backward finds there all the same, since others have it, takes nothing more. */
static void charge_result(plan_tree *t, uint32_t call, uint32_t storage) {
    const plan_storage *x = &t->storages[storage];
    uint32_t kind = t->kind_of[call];
    for (uint32_t m = (uint32_t)t->program->module.of[call - 1];; m = t->parent[m]) {
        if (!x->stays || plan_tree_has(t, m, x->home))
            t->results[(size_t)m * t->kinds.count + kind - 1].bytes += (double)t->sizes->bytes[storage];
        if (!m) break;
    }
}

static void note_results(plan_tree *t, const torch_settings *s, const uint32_t *last) {
    const recording_program *p = t->program;
    uint32_t at = 0;
    forbid_borrowed_copies(t, s);
    for (uint32_t call = 1; call <= p->call_name.count; call++) {
        int64_t reads = p->reads.of[call - 1], makes = p->makes.of[call - 1];
        uint32_t kind = t->kind_of[call];
        bool draws = is_forward(t, call) && recorded_draws(p, call, s->cuda);
        for (uint32_t m = (uint32_t)p->module.of[call - 1]; is_forward(t, call); m = t->parent[m]) {
            t->draws[m] |= draws ? recorded_kind_bit(kind) : 0;
            if (draws && !kind) t->keeps[m] = 0;
            if (kind && call <= last[m])
                t->results[(size_t)m * t->kinds.count + kind - 1].seconds += t->call_seconds[call];
            if (!m) break;
        }
        for (int64_t k = reads; kind && k < reads + makes; k++) {
            uint32_t made = (uint32_t)p->operands.of[at + k];
            if (t->storages[made].born == call) charge_result(t, call, made);
        }
        at += (uint32_t)(reads + makes);
    }
}

plan_cost plan_tree_again(const plan_tree *t, uint32_t module, uint64_t kinds) {
    plan_cost cost = t->again[module];
    for (uint32_t k = 0; kinds && k < t->kinds.count; k++) {
        const plan_result *x = &t->results[(size_t)module * t->kinds.count + k];
        if (kinds & recorded_kind_bit(k + 1)) cost.bytes -= x->bytes, cost.seconds -= x->seconds;
    }
    if (cost.seconds < 0) cost.seconds = 0; /* but for rounding it is none */
    return cost;
}

static void add_up(plan_tree *t, uint32_t *last) {
    for (uint32_t m = t->recording->modules.count - 1; m > 0; m--) {
        uint32_t up = t->parent[m];
        t->again[up].bytes += t->again[m].bytes, t->away[up].bytes += t->away[m].bytes;
        t->away[up].seconds += t->away[m].seconds;
        if (last[m] > last[up]) last[up] = last[m];
    }
}

static bool runs_once(const plan_tree *t, uint32_t module) {
    const recording_column *entered = &t->recording->entered;
    return module && module < entered->count && entered->of[module] == 1;
}

/* A module that has several units would gather their weights once more where it runs again. `block_of`: room
 * for all modules, which is zero before and after. */
static void forbid_around_units(plan_tree *t, const torch_settings *s, uint32_t *block_of) {
    uint32_t modules = t->recording->modules.count;
    bool gathers = s->shard == TORCH_FSDP || s->shard == TORCH_ZERO3;
    if (!gathers || !torch_is_shared(s)) return;
    recorded_blocks(t->recording, block_of);
    for (uint32_t m = 1; m < modules; m++)
        for (uint32_t up = t->parent[m]; block_of[m] && up && !block_of[up]; up = t->parent[up])
            t->again[up].may = t->away[up].may = false;
    memset(block_of, 0, modules * sizeof *block_of);
}

static void note_costs(plan_tree *t, const torch_settings *settings, const plan_rates *rates, uint32_t *last,
                       uint32_t *stamp) {
    const recording_program *p = t->program;
    for (uint32_t m = 0; m < t->recording->modules.count; m++)
        t->again[m].may = runs_once(t, m), t->away[m].may = t->again[m].may && rates->link > 0,
        t->keeps[m] = UINT64_MAX;
    forbid_around_units(t, settings, stamp);
    for (uint32_t m = t->sizes->head; m; m = t->parent[m]) /* its forward is the loss's */
        t->again[m].may = t->away[m].may = false;
    note_changes(t);
    for (uint32_t s = 1; s <= recording_storages(p); s++) {
        const plan_storage *x = &t->storages[s];
        double bytes = (double)t->sizes->bytes[s];
        if (!x->born || !x->stays) continue;
        t->kept += bytes;
        t->again[x->home].bytes += bytes;
        if (x->born > last[x->home]) last[x->home] = x->born;
        if (x->saver == NOBODY || !plan_tree_moves(t, s) || rates->link <= 0) continue;
        t->away[x->saver].bytes += bytes;
        t->away[x->saver].seconds += 2 * (bytes / rates->link + rates->begin);
    }
    add_up(t, last);
    charge_inputs(t, stamp);
    charge_seconds(t, last);
    note_results(t, settings, last);
}

/* Copies that autocast makes of weights stay until forward is over. The policy tells them by their size
 * alone, half of some weight's, and so does this. */
static int by_size(const void *a, const void *b) {
    uint64_t x = *(const uint64_t *)a, y = *(const uint64_t *)b;
    return x < y ? -1 : x > y;
}

static void note_copies(plan_tree *t, const torch_settings *s) {
    if (s->types != TORCH_AUTOCAST) return;
    for (uint32_t i = 1; i <= recording_storages(t->program); i++)
        if (t->program->role.of[i - 1] == RECORDING_PARAMETER)
            t->copies[t->copy_count++] = t->sizes->bytes[i] / 2;
    qsort(t->copies, t->copy_count, sizeof *t->copies, by_size);
}

static bool is_copy_of_weight(const plan_tree *t, uint64_t bytes) {
    return t->copy_count && bsearch(&bytes, t->copies, t->copy_count, sizeof *t->copies, by_size);
}

bool plan_tree_moves(const plan_tree *t, uint32_t storage) {
    int64_t as = t->program->role.of[storage - 1];
    if (as == RECORDING_PARAMETER || as == RECORDING_BUFFER) return false;
    uint64_t bytes = t->sizes->bytes[storage];
    return bytes >= t->least && !is_copy_of_weight(t, bytes);
}

/* ---- the whole ---- */

static uint64_t least_of(const plan_tree *t) {
    uint64_t least = 256, kept = 0;
    for (uint32_t s = 1; s <= recording_storages(t->program); s++)
        if (t->storages[s].born && t->storages[s].stays) kept += t->sizes->bytes[s];
    while (least < (1 << 20) && least << 16 < kept) least *= 2;
    return least;
}

static const size_t most_results = 4 << 20;

status plan_tree_find(const recording *r, const recorded_sizes *sizes, const torch_settings *s,
                      const plan_rates *rates, plan_tree *t) {
    const recording_program *p = sizes->program;
    size_t modules = (size_t)r->modules.count + 1, storages = (size_t)recording_storages(p) + 1;
    *t = (plan_tree){ .recording = r, .program = p, .sizes = sizes };
    recorded_kinds_find(r, &t->kinds);
    if (modules * t->kinds.count > most_results) t->kinds.count = 0; /* no model has so many modules */
    t->kind_of = recorded_kinds_of(&t->kinds, p);
    t->results = memory_new(modules * (t->kinds.count + 1), sizeof *t->results);
    t->keeps = memory_new(modules, sizeof *t->keeps), t->draws = memory_new(modules, sizeof *t->draws);
    t->parent = memory_new(modules, sizeof *t->parent), t->depth = memory_new(modules, sizeof *t->depth);
    t->last_call = memory_new(modules, sizeof *t->last_call);
    t->again = memory_new(modules, sizeof *t->again), t->away = memory_new(modules, sizeof *t->away);
    t->storages = memory_new(storages, sizeof *t->storages);
    t->call_seconds = memory_new((size_t)p->call_name.count + 1, sizeof *t->call_seconds);
    t->copies = memory_new(storages, sizeof *t->copies);
    uint32_t *last = memory_new(modules, sizeof *last), *stamp = memory_new(modules, sizeof *stamp);
    bool made = t->parent && t->depth && t->last_call && t->again && t->away && t->storages &&
                t->call_seconds && t->copies && t->kind_of && t->results && t->keeps && t->draws && last &&
                stamp;
    if (made) {
        find_parents(t);
        note_births(t);
        note_reads(t);
        t->least = least_of(t);
        note_copies(t, s);
        note_seconds(t, s, rates);
        note_costs(t, s, rates, last, stamp);
    }
    memory_free(last);
    memory_free(stamp);
    return made ? STATUS_OK : status_set(STATUS_FAILED, "no memory to plan");
}

void plan_tree_close(plan_tree *t) {
    void *const all[] = { t->parent,       t->depth,  t->last_call, t->again,   t->away,  t->storages,
                          t->call_seconds, t->copies, t->kind_of,   t->results, t->keeps, t->draws };
    for (size_t i = 0; i < sizeof all / sizeof *all; i++) memory_free(all[i]);
    *t = (plan_tree){ 0 };
}
