/* What libraries around PyTorch hold, rule by rule: bitsandbytes, PEFT, transformers, torch.utils.checkpoint,
 * FSDP. Whole steps that need all of these together are in test_published.c. */
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include "estimate/small.h"
#include "io/published.h"
#include "models/families.h"

/* ---- played by hand ---- */

static uint64_t peak_of(const small *x, const tape_settings *s) {
    tape_result r;
    assert_int_equal(tape_play(&x->t, s, &r), STATUS_OK);
    return r.peak;
}

/* x (100) is read by a call that keeps it and makes little; another before that needs `backward` more. */
static uint64_t peak_with_attribute(bool clings, uint64_t backward) {
    small x;
    small_open(&x, (torch_settings){ 0 });
    tape_value w = small_source(&x, 10, 4, TAPE_WEIGHTS, true);
    tape_value big = torch_call(&x.r, (tape_call){ .in = { w }, .backward = backward }, 100, 4);
    torch_call(&x.r, (tape_call){ .in = { big }, .keeps_in = 1, .clings = clings }, 1, 4);
    uint64_t peak = peak_of(&x, &(tape_settings){ 0 });
    tape_close(&x.t);
    return peak;
}

/* What a graph's node has as an attribute is there when the calls before it are differentiated. */
static void attributes_stay_with_the_graph(void **state) {
    (void)state;
    assert_int_equal(peak_with_attribute(true, 10000) - peak_with_attribute(false, 10000), 400);
}

/* Blocks whose last call needs much on its way back, most of all the first's; what they read and make is not
 * kept for it. */
static uint64_t peak_of_blocks(int blocks, const tape_settings *s) {
    small x;
    small_open(&x, (torch_settings){ 0 });
    tape_value v = small_source(&x, 100, 4, TAPE_INPUTS, false);
    v = torch_linear(&x.r, v, small_source(&x, 100, 4, TAPE_WEIGHTS, true), 0, 10);
    for (int i = 0; i < blocks; i++) {
        x.r.site = i;
        v = torch_call(&x.r, (tape_call){ .in = { v } }, 1, 4);
        v = torch_call(&x.r, (tape_call){ .in = { v }, .backward = i ? 100000 : 150000 }, 20, 4);
    }
    x.r.site = -1;
    torch_call(&x.r, (tape_call){ .in = { v } }, 1, 4);
    uint64_t peak = peak_of(&x, s);
    tape_close(&x.t);
    return peak;
}

/* torch.utils.checkpoint with use_reentrant=True: its copies of inputs and results are variables of a
 * function. The only block reads 100 numbers and makes 20. */
static void reentrant_blocks_hold_what_they_read_and_make(void **state) {
    (void)state;
    tape_settings s = { .checkpointing = true }, held = { .checkpointing = true, .reentrant = true };
    assert_int_equal(peak_of_blocks(1, &held) - peak_of_blocks(1, &s), 400 + 80);
}

/* Weights of the block before are fetched while one is differentiated; there is none before the first. */
static void nothing_is_fetched_before_the_first_block(void **state) {
    (void)state;
    tape_settings s = { 0 }, fetching = { .fetched_bytes = 5000 }, much = { .fetched_bytes = 100000 };
    assert_int_equal(peak_of_blocks(1, &much), peak_of_blocks(1, &s));
    assert_int_equal(peak_of_blocks(2, &fetching), peak_of_blocks(2, &s));
    assert_true(peak_of_blocks(2, &much) > peak_of_blocks(2, &s));
}

/* Of FSDP a unit's whole gradients end with backward, a bucket of others stays for the update. */
static void gradients_on_their_way_end_or_stay(void **state) {
    (void)state;
    tape_settings s = { .update_bytes = 1 << 20 }, stays = s, ends = s;
    stays.sending_bytes = ends.sending_bytes = 5000, ends.sending_ends = true;
    assert_int_equal(peak_of_blocks(1, &ends), peak_of_blocks(1, &s));
    assert_int_equal(peak_of_blocks(1, &stays) - peak_of_blocks(1, &s), 5000);
}

/* FSDP joins the gradients of a unit that is trained in part, and zeros for the rest, when its block is done.
 */
static void gradients_of_a_unit_are_joined_when_it_is_done(void **state) {
    (void)state;
    tape_settings s = { .unit_bytes = 1 << 20 }, more = { .unit_bytes = 1 << 21 };
    assert_int_equal(peak_of_blocks(1, &more) - peak_of_blocks(1, &s), 1 << 20);
}

/* A handle of cuBLAS has its own for each thread: one goes forward, one back. */
static void workspaces_are_there_twice(void **state) {
    (void)state;
    tape_settings s = { 0 }, with = { .workspace = 8000 };
    assert_int_equal(peak_of_blocks(1, &with) - peak_of_blocks(1, &s), 16000);
}

/* Codes are parameters and shared out, their scales are not. */
static void scales_are_not_shared_out(void **state) {
    (void)state;
    small x;
    tape_result r;
    small_open(&x, (torch_settings){ 0 });
    tape_value in = small_source(&x, 1, 4, TAPE_ACTIVATIONS, true);
    tape_item w = { .elements = 4096, .width = 0.5625, .whole = 0.0625, .term = TAPE_WEIGHTS };
    torch_call(&x.r, (tape_call){ .in = { in, tape_add_source(&x.t, &w) } }, 1, 4);
    assert_int_equal(tape_play(&x.t, &(tape_settings){ .weight_share = 0.25 }, &r), STATUS_OK);
    assert_int_equal(r.at_peak[TAPE_WEIGHTS], 4096 / 2 / 4 + 4096 / 16);
    tape_close(&x.t);
}

/* Older PEFT took the type that the base is kept in: bytes are none, FSDP's codes are kept as numbers of 16
 * bits. */
static void older_adapters_have_the_type_of_the_base(void **state) {
    (void)state;
    torch_settings s = { .types = TORCH_HALF, .older = true, .base_bits = 16 };
    assert_true(torch_adapter_width(&s) == 2);
    s.base_bits = 4;
    assert_true(torch_adapter_width(&s) == 4);
    s.shard = TORCH_FSDP;
    assert_true(torch_adapter_width(&s) == 2);
    s.older = false;
    assert_true(torch_adapter_width(&s) == 4);
}

/* Those in f32 beside 4 bits are cast by autocast, once, and the copies stay to the end of forward. */
static void adapters_beside_4_bits_are_cast_by_autocast(void **state) {
    (void)state;
    small x;
    small_open(&x, (torch_settings){
                       .types = TORCH_HALF, .older = true, .base_bits = 4, .adapter_rank = 8, .cuda = true });
    tape_value in = small_source(&x, 100, 2, TAPE_ACTIVATIONS, true),
               y = small_source(&x, 100, 2, TAPE_ACTIVATIONS, true);
    torch_adapted(&x.r, &(torch_product){ .x = in, .inner = 10, .out = 10 }, y);
    int casts = 0;
    for (uint32_t i = 1; i < x.t.calls.count; i++) {
        const tape_call *c = (tape_call *)x.t.calls.data + i;
        if (strcmp(c->what, "to") != 0) continue;
        assert_true(tape_at(&x.t, c->in[0])->term == TAPE_WEIGHTS && tape_at(&x.t, c->out)->held);
        casts++;
    }
    assert_int_equal(casts, 2);
    tape_close(&x.t);
}

/* ---- who is asked for what, on which stream ---- */

typedef struct {
    uint64_t bytes[64];
    uint8_t stream[64];
    bool given[64];
    uint32_t count;
} asked;

static uint32_t note_take(void *context, uint64_t bytes, uint8_t stream) {
    asked *a = context;
    assert_true(a->count + 1 < 64);
    a->bytes[++a->count] = bytes, a->stream[a->count] = stream;
    return a->count;
}

static void note_give(void *context, uint32_t block) { ((asked *)context)->given[block] = true; }

/* How many requests of that size there were on that stream; `held`: those that are still there. */
static int requests(const asked *a, uint64_t bytes, uint8_t stream, bool held) {
    int count = 0;
    for (uint32_t i = 1; i <= a->count; i++)
        count += a->bytes[i] == bytes && a->stream[i] == stream && !(held && a->given[i]);
    return count;
}

/* A block of two weights (1,000 and 3,000 bytes), half of which this device keeps. */
static uint64_t play_asked(const tape_settings *s, asked *a) {
    small x;
    tape_settings with = *s;
    tape_listener listener = { note_take, note_give, a };
    small_open(&x, (torch_settings){ 0 });
    x.r.site = 0;
    tape_value in = small_source(&x, 1, 4, TAPE_INPUTS, false);
    for (int k = 0; k < 2; k++)
        in = torch_call(
            &x.r, (tape_call){ .in = { in, small_source(&x, k ? 750 : 250, 4, TAPE_WEIGHTS, true) } }, 1, 4);
    with.listener = &listener, with.weight_share = with.gradient_share = 0.5;
    uint64_t peak = peak_of(&x, &with);
    tape_close(&x.t);
    return peak;
}

/* Weights are gathered on one stream, shares of gradients made on another. */
static void fsdp_works_on_streams_of_its_own(void **state) {
    (void)state;
    asked a = { 0 };
    play_asked(&(tape_settings){ .gathered_bytes = 7000,
                                 .gather_stream = TAPE_GATHERS,
                                 .gradient_stream = TAPE_REDUCES },
               &a);
    assert_int_equal(requests(&a, 7000, TAPE_GATHERS, false), 2); /* two steps */
    assert_int_equal(requests(&a, 500, TAPE_REDUCES, false), 2);
    assert_int_equal(requests(&a, 1500, TAPE_REDUCES, false), 2);
    assert_int_equal(requests(&a, 500, TAPE_COMPUTES, false), 1); /* the weight's own share */
}

/* What was let go while a stream may still read it is nobody's: it is held, and no tensor. */
static void pending_blocks_are_held_and_not_live(void **state) {
    (void)state;
    asked a = { 0 }, b = { 0 };
    tape_settings s = { .gather_stream = TAPE_GATHERS }, pending = s;
    pending.gathered_pending = 8000, pending.sending_pending = 9000;
    assert_int_equal(play_asked(&s, &a), play_asked(&pending, &b));
    assert_int_equal(requests(&b, 8000, TAPE_GATHERS, true), 1);
    assert_int_equal(requests(&b, 9000, TAPE_COMPUTES, true), 1);
    assert_int_equal(a.count + 2, b.count);
}

/* A unit comes whole, is sent round, copied into one piece, and its share cut off that. */
static void units_are_made_whole_before_they_are_cut(void **state) {
    (void)state;
    asked a = { 0 };
    play_asked(&(tape_settings){ .cuts_units = true, .gradient_stream = TAPE_REDUCES }, &a);
    static const uint64_t sizes[] = { 1000, 3000, 4000, 4000, 2000 };
    for (uint32_t i = 0; i < 5; i++) {
        assert_int_equal(a.bytes[i + 1], sizes[i]);
        assert_int_equal(a.given[i + 1], i < 4);
    }
}

/* DistributedDataParallel sends all weights round, 250 MiB at a time or as one weight is larger, and keeps
 * none. */
static void replicas_are_sent_round_in_buffers(void **state) {
    (void)state;
    asked a = { 0 };
    play_asked(&(tape_settings){ .synchronises = true }, &a);
    assert_int_equal(requests(&a, 4004, TAPE_COMPUTES, false), 1);
    assert_int_equal(requests(&a, 4004, TAPE_COMPUTES, true), 0);
}

/* ---- read from models ---- */

typedef struct {
    tape t;
    graph g;
} whole;

static void read_model(whole *x, const char *model_name, torch_settings s) {
    model_config c;
    model m;
    const char *name;
    model_ports ports = { 0 };
    assert_true(published_find(model_name, &c, &name));
    families_model(&c, name, &m);
    s.batch = 1, s.context = 64, s.positions = m.context, s.gpus = 1, s.state_bits = 32;
    assert_int_equal(graph_open(&x->g), STATUS_OK);
    assert_int_equal(tape_open(&x->t), STATUS_OK);
    m.build(&m, &x->g, &(model_run){ .mode = MODEL_TRAIN, .batch = 1, .context = 64 }, &ports);
    assert_int_equal(torch_read(&x->g, &s, &x->t), STATUS_OK);
}

static void close_model(whole *x) {
    tape_close(&x->t);
    graph_close(&x->g);
}

/* The first call of that name; how many there are. */
static const tape_call *find(const whole *x, const char *what, int *count) {
    const tape_call *first = NULL;
    *count = 0;
    for (uint32_t i = 1; i < x->t.calls.count; i++) {
        const tape_call *c = (tape_call *)x->t.calls.data + i;
        if (!c->what || strcmp(c->what, what) != 0) continue;
        if (!first) first = c;
        ++*count;
    }
    assert_non_null(first);
    return first;
}

#define OLDER .transformers = true, .cuda = true, .older = true, .types = TORCH_HALF

/* Mistral's code repeated the 8 heads of keys to 32 before flash attention, Llama's let the kernel do it. */
static void keys_are_repeated_where_the_model_does_it(void **state) {
    (void)state;
    for (int repeats = 0; repeats < 2; repeats++) {
        whole x;
        int count;
        read_model(&x, "mistral-7b", (torch_settings){ OLDER, .repeats_heads = repeats });
        const tape_call *c = find(&x, "sdpa", &count);
        assert_int_equal(tape_at(&x.t, c->in[1])->elements, 64 * 128 * (repeats ? 32 : 8));
        assert_int_equal(tape_at(&x.t, c->in[2])->elements, 64 * 128 * (repeats ? 32 : 8));
        close_model(&x);
    }
}

/* enable_input_require_grads: only where use_reentrant=True needs it. */
static void embeddings_have_gradients_where_blocks_are_computed_again_by_a_function(void **state) {
    (void)state;
    for (int reentrant = 0; reentrant < 2; reentrant++) {
        whole x;
        int count;
        read_model(&x, "mistral-7b",
                   (torch_settings){ OLDER, .adapter_rank = 8, .base_bits = 16, .reentrant = reentrant });
        assert_int_equal(tape_at(&x.t, find(&x, "embedding", &count)->out)->wants, reentrant);
        close_model(&x);
    }
}

/* Cosines and sines of all positions lie in every block in the type the model was loaded in. */
static void older_angles_have_the_type_of_loading(void **state) {
    (void)state;
    for (int prepared = 0; prepared < 2; prepared++) {
        whole x;
        uint64_t bytes = 0;
        torch_settings s = { OLDER, .adapter_rank = prepared ? 8 : 0, .base_bits = prepared ? 4 : 32 };
        s.types = TORCH_AUTOCAST;
        read_model(&x, "mistral-7b", s);
        for (tape_value v = 1; v < x.t.items.count; v++)
            if (tape_at(&x.t, v)->term == TAPE_INPUTS && tape_bytes(&x.t, v) > bytes)
                bytes = tape_bytes(&x.t, v);
        assert_int_equal(bytes, 32ull * 2 * 32768 * 128 * (prepared ? 2 : 4));
        close_model(&x);
    }
}

/* Experts of transformers before 5: 8 modules of 3 matrices, whose results are added in place and kept. */
static void older_experts_are_called_one_after_the_other(void **state) {
    (void)state;
    whole x, grouped;
    int count, products;
    read_model(&x, "mixtral-8x7b", (torch_settings){ OLDER });
    const tape_call *add = find(&x, "index_add_", &count);
    assert_int_equal(count, 32 * 8);
    assert_true(add->view && (add->keeps_in & 2u));
    assert_int_equal(tape_at(&x.t, add->in[1])->elements, 64 * 2 / 8 * 4096);
    find(&x, "linear", &products);
    assert_int_equal(products, 32 * (4 + 1 + 8 * 3) + 1);
    read_model(&grouped, "mixtral-8x7b", (torch_settings){ .transformers = true, .types = TORCH_HALF });
    find(&grouped, "grouped_mm", &count);
    assert_int_equal(count, 32 * 2);
    double weights[2] = { 0, 0 };
    for (int k = 0; k < 2; k++) {
        const tape *t = k ? &grouped.t : &x.t;
        for (tape_value v = 1; v < t->items.count; v++)
            if (tape_at(t, v)->term == TAPE_WEIGHTS) weights[k] += (double)tape_bytes(t, v);
    }
    assert_true(weights[0] == weights[1]); /* however they are cut */
    close_model(&x);
    close_model(&grouped);
}

/* Of today's one tensor of a layer bitsandbytes makes no codes; modules of their own it codes. */
static void only_experts_of_their_own_are_coded(void **state) {
    (void)state;
    const double experts = 32.0 * 8 * 3 * 14336 * 4096; /* numbers; the rest are 4 % more */
    static const struct {
        bool older;
        torch_types types;
        double width;
    } cases[] = { { false, TORCH_AUTOCAST, 4 }, { false, TORCH_HALF, 2 }, { true, TORCH_HALF, 0.516 } };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        whole x;
        double bytes = 0;
        read_model(&x, "mixtral-8x7b",
                   (torch_settings){ .transformers = true,
                                     .cuda = true,
                                     .older = cases[i].older,
                                     .types = cases[i].types,
                                     .adapter_rank = 8,
                                     .base_bits = 4 });
        for (tape_value v = 1; v < x.t.items.count; v++)
            if (tape_at(&x.t, v)->term == TAPE_WEIGHTS) bytes += (double)tape_bytes(&x.t, v);
        assert_true(bytes > experts * cases[i].width && bytes < experts * cases[i].width * 1.08);
        close_model(&x);
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(only_experts_of_their_own_are_coded),
        cmocka_unit_test(attributes_stay_with_the_graph),
        cmocka_unit_test(reentrant_blocks_hold_what_they_read_and_make),
        cmocka_unit_test(nothing_is_fetched_before_the_first_block),
        cmocka_unit_test(gradients_on_their_way_end_or_stay),
        cmocka_unit_test(gradients_of_a_unit_are_joined_when_it_is_done),
        cmocka_unit_test(workspaces_are_there_twice),
        cmocka_unit_test(scales_are_not_shared_out),
        cmocka_unit_test(fsdp_works_on_streams_of_its_own),
        cmocka_unit_test(pending_blocks_are_held_and_not_live),
        cmocka_unit_test(units_are_made_whole_before_they_are_cut),
        cmocka_unit_test(replicas_are_sent_round_in_buffers),
        cmocka_unit_test(older_adapters_have_the_type_of_the_base),
        cmocka_unit_test(adapters_beside_4_bits_are_cast_by_autocast),
        cmocka_unit_test(keys_are_repeated_where_the_model_does_it),
        cmocka_unit_test(embeddings_have_gradients_where_blocks_are_computed_again_by_a_function),
        cmocka_unit_test(older_angles_have_the_type_of_loading),
        cmocka_unit_test(older_experts_are_called_one_after_the_other),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
