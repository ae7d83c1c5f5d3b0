/* What each technique does by its rules, on small graphs and against words that share no code with it: how
 * many settings it offers, of which class they are when they are pinned, whom it touches and whom it leaves
 * alone. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <stdio.h>
#include <string.h>

#include "autodiff/autodiff.h"
#include "base/memory.h"
#include "ops/attention/attention.h"
#include "ops/gelu/gelu.h"
#include "ops/matmul/matmul.h"
#include "ops/matmul_int8/matmul_int8.h"
#include "ops/sum/sum.h"
#include "passes/offload/offload.h"
#include "run/lab.h"

static const pass *pass_of(const char *name, int *index) {
    for (int i = 0; pass_table[i]; i++)
        if (strcmp(pass_table[i]->name, name) == 0) {
            if (index) *index = i;
            return pass_table[i];
        }
    fail_msg("no technique %s", name);
    return NULL;
}

static void plan_of(const lab *l, int64_t micro_batch, const char *settings, plan *p) {
    compose_choice c = lab_choose(l, micro_batch, settings);
    if (compose_plan(&l->run, &c, p) != STATUS_OK) fail_msg("%s: %s", settings, status_message());
}

/* So many rows that losses are worth cutting in two ways. */
static const lab_sizes rows_of_a_head = { .layers = 2,
                                          .heads = 2,
                                          .channels = 16,
                                          .context = 256,
                                          .vocabulary = 200,
                                          .batch = 16,
                                          .dropout = 0.1,
                                          .clip = 1 };

static void check_room(const lab *l, int i, int64_t micro_batch) {
    enum { ROOM = 40 };
    static pass_setting whole[ROOM + 1], list[ROOM + 1];
    compose_choice c = lab_choose(l, micro_batch, "");
    pass_context context = compose_context(&l->run, &c);
    pass_without without = PASS_OPTIONAL;
    graph g;
    assert_int_equal(compose_graph(&l->run, &c, pass_table[i]->stage, &g), STATUS_OK);
    uint32_t all = pass_table[i]->settings(&g, &context, whole, ROOM, &without);
    for (uint32_t room = 0; room < ROOM; room++) {
        memset(list, 0xee, sizeof list);
        uint32_t count = pass_table[i]->settings(&g, &context, list, room, &without);
        if (count != (all < room ? all : room))
            fail_msg("%s: %u of %u in room for %u", pass_table[i]->name, count, all, room);
        for (uint32_t k = 0; k < count; k++) assert_string_equal(list[k].text, whole[k].text);
        for (size_t b = count * sizeof *list; b < sizeof list; b++)
            if (((unsigned char *)list)[b] != 0xee)
                fail_msg("%s writes beyond %u", pass_table[i]->name, room);
    }
    graph_close(&g);
}

/* A list that is too short is filled, and nothing is written behind it. */
static void no_more_than_there_is_room(void **state) {
    (void)state;
    lab l;
    lab_open(&l, &rows_of_a_head);
    for (int i = 0; pass_table[i]; i++) {
        check_room(&l, i, 1);
        check_room(&l, i, rows_of_a_head.batch);
    }
}

/* The class of a setting is what it is offered with, on this graph, also where it is pinned. */
static void pinned_settings_have_their_class(void **state) {
    (void)state;
    lab l;
    int tried = 0;
    lab_open(&l, &(lab_sizes){
                     .layers = 1, .heads = 2, .channels = 16, .context = 256, .vocabulary = 61, .batch = 2 });
    for (int i = 0; pass_table[i]; i++) {
        pass_setting offered[64];
        uint32_t count;
        compose_choice c = lab_choose(&l, 1, "");
        assert_int_equal(search_offers(&l.run, &c, i, offered, 64, &count), STATUS_OK);
        for (uint32_t k = 0; k < count; k++) {
            search_request q = { .run = l.run, .micro_batch = 1, .allowed = PASS_EXACT };
            search_front front;
            if (offered[k].class != PASS_EXACT) continue;
            for (int other = 0; pass_table[other]; other++)
                if (strcmp(pass_table[other]->name, "accumulate") != 0) q.pins[other].kind = SEARCH_OFF;
            q.pins[i].kind = SEARCH_PINNED;
            assert_int_equal(pass_table[i]->parse(offered[k].text, &q.pins[i].setting), STATUS_OK);
            if (search_run(&q, NULL, &front) != STATUS_OK)
                fail_msg("%s=%s: %s", pass_table[i]->name, offered[k].text, status_message());
            search_close(&front);
            tried++;
        }
    }
    assert_true(tried > 5);
}

/* Where the batch is one micro-batch there is nothing to add up: pinned or not, the plan is the same. */
static void one_micro_batch_is_not_accumulated(void **state) {
    (void)state;
    lab l;
    plan without, with;
    lab_open(&l, &(lab_sizes){
                     .layers = 1, .heads = 2, .channels = 16, .context = 16, .vocabulary = 61, .batch = 2 });
    plan_of(&l, 2, "", &without);
    for (int i = 0; i < 2; i++) {
        plan_of(&l, 2, i ? "accumulate=add" : "accumulate=defer", &with);
        assert_int_equal(with.pools[POOL_MEMORY].arena_bytes, without.pools[POOL_MEMORY].arena_bytes);
        assert_int_equal(with.lower_bound_bytes, without.lower_bound_bytes);
        assert_memory_equal(with.by_category, without.by_category,
                            CATEGORY_RUNTIME * sizeof *with.by_category);
        plan_close(&with);
    }
    plan_close(&without);
}

/* Beside an adapter a weight is held as codes where a product of a block reads it and its rows can be packed:
 * those of 4 bits lie two in a byte, so its rows are even. */
static void other_weights_stay_as_they_are(void **state) {
    (void)state;
    static const struct {
        const char *settings;
        dtype type;
        int64_t even;
    } bases[] = { { "lora=rank=2,base=int8", DTYPE_I8, 1 }, { "lora=rank=2,base=nf4", DTYPE_U8, 2 } };
    for (size_t b = 0; b < sizeof bases / sizeof *bases; b++) {
        lab l;
        plan p;
        int held = 0, odd = 0;
        lab_open(&l,
                 &(lab_sizes){
                     .layers = 2, .heads = 3, .channels = 15, .context = 16, .vocabulary = 61, .batch = 2 });
        plan_of(&l, 2, bases[b].settings, &p);
        const graph *g = &p.programs[0].program.graph;
        for (tensor_id t = 1; t < g->tensors.count; t++) {
            const tensor *x = graph_tensor(g, t);
            if (x->producer || x->role != ROLE_PARAMETER) continue;
            const char *name = graph_name(g, t);
            bool product = strstr(name, ".h.") && x->shape.rank == 2 && !strstr(name, "lora_") &&
                           strcmp(name + strlen(name) - 7, ".weight") == 0;
            bool even = product && (strstr(name, "c_fc")     ? 60
                                    : strstr(name, "c_attn") ? 45
                                                             : 15) %
                                           bases[b].even ==
                                       0;
            if ((x->dtype == bases[b].type) != even)
                fail_msg("%s is held as %s", name, dtype_name((dtype)x->dtype));
            held += even, odd += product && !even;
        }
        assert_true(held > 0 && (odd > 0) == (bases[b].even == 2));
        plan_close(&p);
    }
}

/* ---- recomputing ---- */

/* Of each forward node, in their order: is one of its results read after forward? And what it takes to make
 * it again, operations and bytes for each byte that is freed. */
static uint32_t look_at_forward(const graph *g, bool *kept, double *takes) {
    uint32_t count = 0;
    uint32_t *place = memory_new(g->nodes.count, sizeof *place);
    assert_non_null(place);
    for (node_id id = 1; id < g->nodes.count; id++) {
        const node *n = graph_node(g, id);
        if (n->phase == PHASE_FORWARD) {
            op_cost cost = n->op->cost(g, n);
            takes[count] = (cost.flops + 24 * cost.draws + cost.bytes_read + cost.bytes_written) /
                           (cost.bytes_written > 0 ? cost.bytes_written : 1);
            kept[count] = false;
            place[id] = count++;
            continue;
        }
        for (uint32_t i = 0; i < n->in_count; i++) {
            tensor_id t = node_in(g, n, i);
            node_id maker = t ? graph_tensor(g, graph_storage(g, t, NULL))->producer : 0;
            if (maker && graph_node(g, maker)->phase == PHASE_FORWARD) kept[place[maker]] = true;
        }
    }
    memory_free(place);
    return count;
}

enum { NODES = 512 };

static void recompute(const lab *l, const graph *g, const char *text, bool *kept) {
    compose_choice c = lab_choose(l, 0, "");
    pass_context context = compose_context(&l->run, &c);
    const pass *p = pass_of("recompute", NULL);
    pass_setting s;
    double takes[NODES];
    graph out;
    assert_int_equal(p->parse(text, &s), STATUS_OK);
    assert_int_equal(graph_open(&out), STATUS_OK);
    assert_int_equal(p->run(g, &s, &context, &out), STATUS_OK);
    look_at_forward(&out, kept, takes);
    graph_close(&out);
}

static void check_order(const lab_sizes *sizes) {
    static const char *const levels[] = { "cheap", "2", "3", "4", "5", "6", "7", "8", "block" };
    enum { LEVELS = sizeof levels / sizeof *levels };
    static bool plain[NODES], kept[LEVELS][NODES];
    static double takes[NODES];
    lab l;
    graph g;
    int dropped = 0;
    lab_open(&l, sizes);
    compose_choice c = lab_choose(&l, 0, "");
    assert_int_equal(compose_graph(&l.run, &c, pass_of("recompute", NULL)->stage, &g), STATUS_OK);
    uint32_t count = look_at_forward(&g, plain, takes);
    assert_true(count > 10 && count < NODES);
    for (int k = 0; k < LEVELS; k++) recompute(&l, &g, levels[k], kept[k]);
    for (int k = 0; k < LEVELS; k++)
        for (uint32_t a = 0; a < count; a++) {
            if (!plain[a] || kept[k][a]) continue;
            dropped++;
            if (k == 0 && takes[a] > 64) fail_msg("what takes %g is called cheap", takes[a]);
            for (uint32_t b = 0; b < count; b++)
                if (plain[b] && kept[k][b] && !kept[LEVELS - 1][b] && takes[b] < takes[a])
                    fail_msg("%s drops what takes %g and keeps what takes %g", levels[k], takes[a], takes[b]);
        }
    assert_true(dropped > LEVELS);
    graph_close(&g);
}

/* Whatever is dropped at a level takes less, for each byte, than what is kept at it and dropped at another;
 * what is called cheap takes at most 64. In the second model products take a little more than that, half of
 * it for what they read. */
static void what_is_cheaper_is_dropped_first(void **state) {
    (void)state;
    check_order(&rows_of_a_head);
    check_order(&(lab_sizes){
        .layers = 2, .heads = 2, .channels = 124, .context = 16, .vocabulary = 61, .batch = 4, .clip = 1 });
}

/* ---- early updates ---- */

/* A gradient that is used at once is not kept, and what its update needs is made for it alone; so, where
 * nothing has to be known of all gradients first, the plan is no larger but for some single numbers. */
static void early_updates_take_no_more(void **state) {
    (void)state;
    static const char *const forms[] = { "", "precision=mixed-bf16", "precision=bf16", "precision=int8" };
    for (size_t f = 0; f < sizeof forms / sizeof *forms; f++)
        for (int kind = 0; kind < OPTIMIZER_COUNT; kind++) {
            lab l;
            char early[64];
            compose_choice late;
            plan p, q;
            lab_open(&l, &(lab_sizes){ .layers = 2,
                                       .heads = 2,
                                       .channels = 32,
                                       .context = 32,
                                       .vocabulary = 256,
                                       .batch = 6,
                                       .optimizer = (optimizer_kind)kind });
            late = lab_choose(&l, 0, forms[f]);
            if (compose_plan(&l.run, &late, &p) != STATUS_OK) continue; /* not for each optimizer */
            snprintf(early, sizeof early, "%s update_early=on", forms[f]);
            plan_of(&l, 0, early, &q);
            if (q.pools[POOL_MEMORY].arena_bytes > p.pools[POOL_MEMORY].arena_bytes + 1024)
                fail_msg("%s of %s: %llu and %llu", early, optimizer_name((optimizer_kind)kind),
                         (unsigned long long)q.pools[POOL_MEMORY].arena_bytes,
                         (unsigned long long)p.pools[POOL_MEMORY].arena_bytes);
            plan_close(&p);
            plan_close(&q);
        }
}

/* With two backwards the second waits for nothing but its own gradients: beside what one takes that has no
 * norm to wait for there are only the forward values, which wait for both. The gradient of the last weight, a
 * large one, is the first that is there, and would show. */
static void the_second_backward_keeps_no_gradient(void **state) {
    (void)state;
    uint64_t arena[2];
    for (int twice = 0; twice < 2; twice++) {
        lab l;
        plan p;
        lab_open(&l, &(lab_sizes){ .layers = 4,
                                   .heads = 2,
                                   .channels = 32,
                                   .context = 8,
                                   .vocabulary = 4096,
                                   .batch = 1,
                                   .untied = true,
                                   .clip = twice });
        plan_of(&l, 0, twice ? "update_early=twice" : "update_early=on", &p);
        arena[twice] = p.pools[POOL_MEMORY].arena_bytes;
        plan_close(&p);
    }
    assert_in_range(arena[1], 0, arena[0] + 4096 * 32 * sizeof(float) / 4);
}

/* ---- the first node of a graph ---- */

static tensor_id source(graph *g, const char *name, role r) {
    return graph_add_source(g, &(graph_source){ .name = name,
                                                .shape = SHAPE(32, 32),
                                                .dtype = DTYPE_F32,
                                                .role = r,
                                                .flags = r == ROLE_PARAMETER ? TENSOR_TRAINABLE : 0 });
}

static uint32_t count_nodes(const graph *g, const op_def *op) {
    uint32_t count = 0;
    for (node_id id = 1; id < g->nodes.count; id++) count += graph_node(g, id)->op == op;
    return count;
}

/* A block may begin with the model: then its first value is recomputed as the others are. */
static void the_first_value_is_recomputed(void **state) {
    (void)state;
    graph g, out;
    pass_setting s;
    const pass *p = pass_of("recompute", NULL);
    assert_int_equal(graph_open(&g), STATUS_OK);
    g.site = 0;
    tensor_id x = source(&g, "x", ROLE_INPUT), y = gelu_apply(&g, x, false), z = gelu_apply(&g, y, false);
    g.phase = PHASE_BACKWARD;
    const gelu_attributes exact = { 0 };
    tensor_id dy = graph_add(&g, &op_gelu_backward, (tensor_id[]){ y, z }, 2, &exact);
    graph_keep(&g, graph_add(&g, &op_gelu_backward, (tensor_id[]){ x, dy }, 2, &exact), "dx");
    assert_int_equal(graph_status(&g), STATUS_OK);
    assert_int_equal(p->parse("block", &s), STATUS_OK);
    assert_int_equal(graph_open(&out), STATUS_OK);
    assert_int_equal(p->run(&g, &s, &(pass_context){ .training = true }, &out), STATUS_OK);
    assert_int_equal(count_nodes(&g, &op_gelu), 2);
    assert_int_equal(count_nodes(&out, &op_gelu), 4);
    graph_close(&out);
    graph_close(&g);
}

/* The blocks of a setting are those before the border, which is not one of them. */
static void only_those_blocks_are_recomputed(void **state) {
    (void)state;
    enum { BLOCKS = 3 };
    const gelu_attributes exact = { 0 };
    const pass *p = pass_of("recompute", NULL);
    graph g;
    tensor_id at[2 * BLOCKS + 1];
    assert_int_equal(graph_open(&g), STATUS_OK);
    at[0] = source(&g, "x", ROLE_INPUT);
    for (int i = 0; i < 2 * BLOCKS; i++) {
        g.site = i / 2;
        at[i + 1] = gelu_apply(&g, at[i], false);
    }
    tensor_id d = at[2 * BLOCKS];
    g.phase = PHASE_BACKWARD;
    for (int i = 2 * BLOCKS; i-- > 0;) {
        g.site = i / 2;
        d = graph_add(&g, &op_gelu_backward, (tensor_id[]){ at[i], d }, 2, &exact);
    }
    graph_keep(&g, d, "dx");
    assert_int_equal(graph_status(&g), STATUS_OK);
    uint32_t made[BLOCKS + 1];
    for (int blocks = 1; blocks <= BLOCKS; blocks++) {
        char text[16];
        pass_setting s;
        graph out;
        snprintf(text, sizeof text, "block:%d", blocks);
        assert_int_equal(p->parse(text, &s), STATUS_OK);
        assert_int_equal(graph_open(&out), STATUS_OK);
        assert_int_equal(p->run(&g, &s, &(pass_context){ .training = true }, &out), STATUS_OK);
        made[blocks] = count_nodes(&out, &op_gelu) - 2 * BLOCKS;
        if (blocks == 1) assert_in_range(made[1], 1, 2);
        if (blocks > 1) assert_true(made[blocks] > made[blocks - 1]);
        graph_close(&out);
    }
    graph_close(&g);
}

/* A product's name may be one letter. */
static void one_letter_is_a_target(void **state) {
    (void)state;
    const pass *p = pass_of("lora", NULL);
    const char *const names[] = { "w.weight", "of.w.weight" };
    for (int i = 0; i < 2; i++) {
        graph g;
        pass_setting s;
        assert_int_equal(graph_open(&g), STATUS_OK);
        tensor_id x = source(&g, "x", ROLE_INPUT), w = source(&g, names[i], ROLE_PARAMETER);
        graph_keep(&g, matmul_apply(&g, &(matmul_inputs){ .a = x, .b = w, .type = DTYPE_F32 }), "y");
        assert_int_equal(graph_status(&g), STATUS_OK);
        assert_int_equal(p->parse("rank=2,target=w", &s), STATUS_OK);
        if (p->check(&g, &s, &(pass_context){ .training = true }) != STATUS_OK)
            fail_msg("%s: %s", names[i], status_message());
        graph_close(&g);
    }
}

/* Attention may be all that a model does. */
static void the_first_attention_is_looked_at(void **state) {
    (void)state;
    const pass *p = pass_of("attention", NULL);
    const char *const names[] = { "q", "k", "v" };
    tensor_id x[3];
    graph g;
    pass_setting offered[2];
    pass_without without = PASS_OPTIONAL;
    assert_int_equal(graph_open(&g), STATUS_OK);
    for (int i = 0; i < 3; i++)
        x[i] = graph_add_source(
            &g, &(graph_source){
                    .name = names[i], .shape = SHAPE(1, 4, 8), .dtype = DTYPE_F32, .role = ROLE_INPUT });
    tensor_id y = attention_apply(&g, &(attention_inputs){ .q = x[0], .k = x[1], .v = x[2] },
                                  &(attention_attributes){ .heads = 2 });
    graph_keep(&g, y, "y");
    assert_int_equal(graph_status(&g), STATUS_OK);
    assert_int_equal(p->settings(&g, &(pass_context){ .threads = 1 }, offered, 2, &without), 1);
    assert_string_equal(offered[0].text, "flash");
    graph_close(&g);
}

/* The gradient of a weight that is read as often as a chain may have links is summed over micro-batches; that
 * of one more is refused. */
static void the_longest_chain_is_summed(void **state) {
    (void)state;
    enum { LONGEST = 4096 };
    const pass *p = pass_of("accumulate", NULL);
    for (int uses = LONGEST; uses <= LONGEST + 1; uses++) {
        graph g, out;
        pass_setting s;
        assert_int_equal(graph_open(&g), STATUS_OK);
        tensor_id x = source(&g, "x", ROLE_INPUT), w = source(&g, "w", ROLE_PARAMETER);
        for (int i = 0; i < uses; i++)
            x = matmul_apply(&g, &(matmul_inputs){ .a = x, .b = w, .type = DTYPE_F32 });
        tensor_id result = graph_add_source(
            &g,
            &(graph_source){ .name = "loss", .shape = SHAPE(1), .dtype = DTYPE_F32, .role = ROLE_RESULT });
        tensor_id loss = sum_apply(&g, x, result);
        uint32_t tensors = g.tensors.count;
        tensor_id *gradient = memory_new(tensors, sizeof *gradient);
        const optimizer_options sgd = { .kind = OPTIMIZER_SGD, .momentum = 0.9 };
        assert_int_equal(autodiff_run(&g, &(autodiff_seed){ .of = loss }, 1, NULL, gradient), STATUS_OK);
        assert_int_equal(optimizer_append(&g, &sgd, 0, gradient, tensors), STATUS_OK);
        memory_free(gradient);
        assert_int_equal(p->parse("defer", &s), STATUS_OK);
        assert_int_equal(graph_open(&out), STATUS_OK);
        status done = p->run(
            &g, &s, &(pass_context){ .training = true, .batch = 2, .unit = 2, .micro_batch = 1 }, &out);
        if ((done == STATUS_OK) != (uses == LONGEST)) fail_msg("%d uses: %s", uses, status_message());
        graph_close(&out);
        graph_close(&g);
    }
}

/* A model of nothing but one product is no less refused. */
static void the_first_product_is_looked_at(void **state) {
    (void)state;
    const pass *p = pass_of("qat", NULL), *precision = pass_of("precision", NULL),
               *quantize = pass_of("quantize", NULL);
    for (int codes = 0; codes < 2; codes++) {
        graph g, out;
        pass_setting s, offered[8];
        pass_without without = PASS_OPTIONAL;
        assert_int_equal(graph_open(&g), STATUS_OK);
        tensor_id x = source(&g, "x", ROLE_INPUT), w = source(&g, "w", ROLE_PARAMETER);
        tensor_id y = codes
                          ? matmul_int8_apply(&g, &(matmul_int8_inputs){ .a = x, .b = w, .type = DTYPE_F32 })
                          : matmul_apply(&g, &(matmul_inputs){ .a = x, .b = w, .type = DTYPE_F32 });
        graph_keep(&g, y, "y");
        assert_int_equal(graph_status(&g), STATUS_OK);
        assert_int_equal(p->parse("int8", &s), STATUS_OK);
        assert_int_equal(graph_open(&out), STATUS_OK);
        assert_int_equal(p->run(&g, &s, &(pass_context){ .training = true }, &out),
                         codes ? STATUS_INVALID : STATUS_OK);
        assert_true(precision->settings(&g, &(pass_context){ .training = true }, offered, 8, &without) > 0);
        assert_int_equal(quantize->parse("int8", &s), STATUS_OK);
        graph coded;
        assert_int_equal(graph_open(&coded), STATUS_OK);
        assert_int_equal(quantize->run(&g, &s, &(pass_context){ 0 }, &coded),
                         codes ? STATUS_INVALID : STATUS_OK);
        graph_close(&coded);
        graph_close(&out);
        graph_close(&g);
    }
}

/* ---- what can't be made ---- */

/* Beside a choice that can't be made nothing is offered, which is no failure. */
static void nothing_is_offered_beside_what_cannot_be(void **state) {
    (void)state;
    lab l;
    lab_open(&l, &rows_of_a_head);
    compose_choice c = lab_choose(&l, 0, "precision=int8 qat=int8");
    graph g;
    assert_int_equal(compose_graph(&l.run, &c, PASS_STEP, &g), STATUS_INVALID);
    graph_close(&g);
    for (int i = 0; pass_table[i]; i++) {
        pass_setting offered[64];
        uint32_t count = 99;
        if (pass_table[i]->stage != PASS_STEP) continue;
        assert_int_equal(search_offers(&l.run, &c, i, offered, 64, &count), STATUS_OK);
        assert_int_equal(count, 0);
    }
}

/* ---- pieces ---- */

/* Of what is outside memory, the search knows the largest piece of any program, as the plan does. */
static void the_largest_piece_is_known(void **state) {
    (void)state;
    lab l;
    plan p;
    lab_open(&l, &(lab_sizes){
                     .layers = 2, .heads = 2, .channels = 64, .context = 16, .vocabulary = 61, .batch = 2 });
    l.run.folder = "/tmp";
    plan_of(&l, 0, "offload=optimizer", &p);
    assert_true(p.slot_bytes > 0);
    assert_int_equal(p.pieces.slot_bytes, p.slot_bytes);
    assert_true(p.pieces.count >= p.slots);
    plan_close(&p);
}

/* As many slots as there are pieces, up to a most, and a page so that the first can begin at one. */
static void slots_are_for_pieces(void **state) {
    (void)state;
    for (uint64_t pieces = 1; pieces < PIECES_SLOTS + 3; pieces++) {
        uint64_t slots = pieces < PIECES_SLOTS ? pieces : PIECES_SLOTS;
        assert_int_equal(plan_slots_bytes(pieces, 8192), slots * 8192 + PIECES_PAGE);
    }
}

static uint32_t large_states(const plan *p) {
    uint32_t large = 0;
    for (uint32_t i = 0; i < p->persistent_count; i++) {
        const plan_persistent *x = &p->persistent[i];
        if (x->category != CATEGORY_OPTIMIZER) continue;
        bool is_large = shape_elements(&x->shape) >= OFFLOAD_SMALL;
        if ((x->pool == plan_away_pool(p)) != is_large) fail_msg("%s is in pool %d", x->name, (int)x->pool);
        large += is_large;
    }
    return large;
}

/* State of few numbers stays, just below the border too; and there may be just one piece to pass through. */
static void small_state_stays(void **state) {
    (void)state;
    for (int64_t vocabulary = 64; vocabulary <= 66; vocabulary++) {
        enum { CHANNELS = 63 }; /* times 65 they are one less than OFFLOAD_SMALL */
        lab l;
        plan p;
        lab_open(&l, &(lab_sizes){ .layers = 1,
                                   .heads = 3,
                                   .channels = CHANNELS,
                                   .context = 16,
                                   .vocabulary = vocabulary,
                                   .batch = 2 });
        l.run.folder = "/tmp";
        plan_of(&l, 0, "offload=optimizer", &p);
        assert_true(large_states(&p) > 0);
        plan_close(&p);
    }
    lab l;
    plan p;
    lab_open(&l, &(lab_sizes){
                     .layers = 1, .heads = 2, .channels = 16, .context = 16, .vocabulary = 256, .batch = 2 });
    l.run.folder = "/tmp";
    plan_of(&l, 0, "offload=optimizer", &p);
    assert_int_equal(large_states(&p), 2);
    assert_int_equal(p.pieces.count, 1);
    assert_int_equal(p.slots, 1);
    plan_close(&p);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(no_more_than_there_is_room),
        cmocka_unit_test(pinned_settings_have_their_class),
        cmocka_unit_test(one_micro_batch_is_not_accumulated),
        cmocka_unit_test(other_weights_stay_as_they_are),
        cmocka_unit_test(what_is_cheaper_is_dropped_first),
        cmocka_unit_test(early_updates_take_no_more),
        cmocka_unit_test(the_second_backward_keeps_no_gradient),
        cmocka_unit_test(the_first_value_is_recomputed),
        cmocka_unit_test(only_those_blocks_are_recomputed),
        cmocka_unit_test(one_letter_is_a_target),
        cmocka_unit_test(the_first_attention_is_looked_at),
        cmocka_unit_test(the_longest_chain_is_summed),
        cmocka_unit_test(the_first_product_is_looked_at),
        cmocka_unit_test(nothing_is_offered_beside_what_cannot_be),
        cmocka_unit_test(the_largest_piece_is_known),
        cmocka_unit_test(slots_are_for_pieces),
        cmocka_unit_test(small_state_stays),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
