#include "lower/predict.h"

#include "base/memory.h"
#include "lower/launched.h"
#include "lower/movements.h"
#include "lower/pieces.h"

static double library_rate_of(work_kind kind, const device_rates *rates) {
    if (kind == WORK_ATTENTION_HALF) return rates->by_library_attention;
    if (kind == WORK_PRODUCTS_HALF) return rates->by_library_half;
    return work_is_products(kind) ? rates->by_library : 0;
}

static double rate_of(const op_cost *cost, const device_rates *rates) {
    double library = cost->by_library ? library_rate_of(cost->kind, rates) : 0;
    return library > 0 ? library : rates->flops[cost->kind];
}

static double beside_products(const op_cost *cost, const device_rates *rates) {
    double functions = cost->functions > 0 ? cost->functions / rates->flops[WORK_FUNCTIONS] : 0;
    return functions + cost->draws / rates->draws;
}

double predict_work(const op_cost *cost, const device_rates *rates) {
    double flops = cost->work > cost->flops ? cost->work : cost->flops;
    return flops / rate_of(cost, rates) + beside_products(cost, rates) + cost->bytes_moved / rates->moved;
}

double predict_arithmetic(const op_cost *cost, const device_rates *rates) {
    return cost->flops / rates->flops[work_is_products(cost->kind) ? cost->kind : WORK_PRODUCTS];
}

/* The part that is no longer held after so much other traffic: none within the cache's size, all beyond
 * twice of it. */
static double missed_after(const device_rates *rates, double distance) {
    double missed = distance / rates->cache_bytes - 1;
    return missed < 0 ? 0 : missed > 1 ? 1 : missed;
}

/* What such a call was measured to take, with its traffic and without its start; 0: it was not. What is no
 * arithmetic of products is added by who asks. */
static double measured_of(const op_cost *cost, const device_rates *rates) {
    bool attends = cost->kind == WORK_ATTENTION || cost->kind == WORK_ATTENTION_HALF;
    bool multiplies = cost->kind == WORK_PRODUCTS || cost->kind == WORK_PRODUCTS_HALF;
    if (!rates->shapes.count || cost->tiles <= 0 || !(attends || multiplies)) return 0;
    device_work work = multiplies       ? DEVICE_PRODUCT
                       : cost->backward ? DEVICE_ATTENTION_BACKWARD
                                        : DEVICE_ATTENTION;
    bool on_tensor_cores = cost->kind == WORK_PRODUCTS_HALF || cost->kind == WORK_ATTENTION_HALF;
    return device_shapes_seconds(&rates->shapes, &(device_shape){ .work = work,
                                                                  .half = cost->half,
                                                                  .tensor = on_tensor_cores,
                                                                  .by_library = cost->by_library,
                                                                  .tiles = cost->tiles,
                                                                  .flops = cost->flops });
}

/* Seconds of `held` bytes that a cache has and `missed` ones that it has not. A part of a GPU takes no more
 * from either than that part of what all of it takes from its cache. */
static double traffic_of(double held, double missed, bool fetches, double stretch,
                         const device_rates *rates) {
    double cached = rates->cached / stretch, memory = fetches ? rates->fetched : rates->bandwidth;
    if (stretch > 1 && memory > cached) memory = cached;
    return (fetches ? 0 : held / cached) + missed / memory;
}

/* What is started with others is counted there. */
static double starts_of(const op_cost *cost, const device_rates *rates) {
    double starts = cost->starts ? cost->starts : 1;
    return cost->joined ? 0 : starts * rates->call_seconds;
}

/* A further pass begins with what was read longest ago. */
double predict_call(const op_cost *cost, double missed_read, double missed_written,
                    const device_rates *rates) {
    double again = cost->bytes_again > 0 ? cost->bytes_again * missed_after(rates, cost->bytes_read) : 0;
    double missed = cost->bytes_read * missed_read + cost->bytes_written * missed_written + again;
    double held = cost->bytes_read + cost->bytes_written + cost->bytes_again - missed;
    bool fetches = work_is_products(cost->kind) && !cost->reads;
    double stretch = cost->stretch > 1 ? cost->stretch : 1;
    double measured = measured_of(cost, rates);
    if (measured > 0)
        return rates->scale * (starts_of(cost, rates) + measured + beside_products(cost, rates));
    double traffic = traffic_of(held, missed, fetches, stretch, rates);
    return rates->scale * (starts_of(cost, rates) + stretch * predict_work(cost, rates) + traffic);
}

/* ---- what is still in a cache ---- */

typedef struct {
    double bytes;
    double touched; /* of a storage's owner: the traffic up to its last touch; below 0: never */
    tensor_id storage;
} operand;

typedef struct {
    const device_rates *rates;
    operand *operands;  /* by tensor */
    double so_far, all; /* traffic */
} walk;

/* What was not touched in this program was so in the one before, at best as long ago as a program takes. */
static double distance_of(const walk *w, tensor_id storage) {
    double touched = w->operands[storage].touched, since = w->so_far - touched;
    return touched < 0 ? w->all : since < w->all ? since : w->all;
}

static double missed_of(const walk *w, const tensor_id *tensors, uint32_t count) {
    double bytes = 0, missed = 0;
    for (uint32_t i = 0; i < count; i++) {
        if (!tensors[i]) continue;
        const operand *x = &w->operands[tensors[i]];
        bytes += x->bytes;
        missed += x->bytes * missed_after(w->rates, distance_of(w, x->storage));
    }
    return bytes > 0 ? missed / bytes : 0;
}

static void touch(walk *w, const tensor_id *tensors, uint32_t count) {
    for (uint32_t i = 0; i < count; i++)
        if (tensors[i]) w->operands[w->operands[tensors[i]].storage].touched = w->so_far;
}

/* Calls go over their operands from end to end: what one touched first has waited longest when the next one
 * comes to it, and what it touched last waits for the next one's end. Both do so for half of either call in
 * the mean. So a tensor that no cache holds misses, however lately it was touched. */
static double predict_step(walk *w, const graph *g, const node *n, const op_cost *cost) {
    const tensor_id *in = graph_edges(g) + n->in, *out = graph_edges(g) + n->out;
    double half = (cost->bytes_read + cost->bytes_written) / 2;
    w->so_far += half;
    double read = missed_of(w, in, n->in_count), written = missed_of(w, out, n->out_count);
    touch(w, in, n->in_count);
    touch(w, out, n->out_count);
    w->so_far += half;
    return predict_call(cost, read, written, w->rates);
}

/* Steps whose pieces come more slowly than they are computed on wait; `waits` has room for a number a step.
 */
static status wait_for_pieces(program *p, bool apart, const device_rates *rates, double *waits) {
    piece first = { 0 };
    if (!pieces_next(p, &first)) return STATUS_OK;
    TRY(pieces_seconds(p, apart, rates, waits, &p->seconds));
    for (uint32_t s = 0; s < p->count; s++) p->steps[s].seconds += waits[s];
    return STATUS_OK;
}

/* Whatever else is waited for, ranks' movements go on beside it. */
static status wait_for_ranks(program *p, const op_cost *costs, const device_rates *rates, double *waits) {
    double all;
    if (!movements_any(costs, p->count)) return STATUS_OK;
    TRY(movements_wait(p, costs, rates, waits, &all));
    for (uint32_t s = 0; s < p->count; s++) p->steps[s].seconds += waits[s];
    p->waiting = all;
    p->seconds += all;
    return STATUS_OK;
}

static void predict_steps(program *p, walk *w, const op_cost *costs) {
    const graph *g = &p->graph;
    for (tensor_id t = 0; t < g->tensors.count; t++)
        w->operands[t] = (operand){ (double)graph_tensor_bytes(g, t), -1, graph_storage(g, t, NULL) };
    for (uint32_t s = 0; s < p->count; s++) w->all += costs[s].bytes_read + costs[s].bytes_written;
    p->seconds = 0;
    for (uint32_t s = 0; s < p->count; s++) {
        p->steps[s].seconds = predict_step(w, g, graph_node(g, p->steps[s].node), &costs[s]);
        p->seconds += p->steps[s].seconds;
    }
    p->computing = p->seconds;
    p->waiting = 0;
}

/* A program that is started as one takes less for each of its kernels. */
static device_rates rates_of_starting(const program *p, const device_rates *rates) {
    device_rates r = *rates;
    if (r.captured_seconds > 0 && lower_capturable(p)) r.call_seconds = r.captured_seconds;
    return r;
}

double predict_start(const program *p, const device_rates *rates) {
    return rates->scale * rates_of_starting(p, rates).call_seconds;
}

static status predict_alone(program *p, const op_cost *costs, const device_rates *rates) {
    const device_rates own = rates_of_starting(p, rates);
    walk w = { .rates = &own, .operands = memory_room(p->graph.tensors.count, sizeof(operand)) };
    if (!w.operands) return status_set(STATUS_FAILED, "no memory to predict times");
    predict_steps(p, &w, costs);
    memory_free(w.operands);
    return STATUS_OK;
}

status predict_unwaited(program *p, const op_cost *costs, bool apart, const device_rates *rates) {
    TRY(predict_alone(p, costs, rates));
    if (p->has_away) p->seconds += pieces_waiting(p, apart, rates);
    return STATUS_OK;
}

status predict_program(program *p, const op_cost *costs, bool apart, const device_rates *rates) {
    TRY(predict_alone(p, costs, rates));
    double *waits = memory_new(p->count, sizeof *waits);
    if (!waits) return status_set(STATUS_FAILED, "no memory to predict times");
    status result = wait_for_pieces(p, apart, rates, waits);
    if (result == STATUS_OK) result = wait_for_ranks(p, costs, rates, waits);
    memory_free(waits);
    return result;
}

status predict_filed(program *p, const device *d, const device_rates *rates) {
    const double before = p->seconds, computing = p->computing;
    op_cost *costs = memory_room(p->count, sizeof *costs);
    if (!costs) return status_set(STATUS_FAILED, "no memory to predict times");
    status result = STATUS_OK;
    for (uint32_t s = 0; s < p->count && result == STATUS_OK; s++) {
        costs[s] = lower_cost(&p->graph, &p->steps[s]);
        result = launched_cost(&p->graph, &p->steps[s], d, false, &costs[s]);
    }
    if (result == STATUS_OK) result = predict_program(p, costs, true, rates);
    memory_free(costs);
    p->computing = computing;
    if (p->seconds < before) p->seconds = before; /* in the order of the schedule caches may hold more */
    return result;
}
