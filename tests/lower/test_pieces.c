/* Pieces of what is in a file: they cover each tensor once, lie in their slots without overlap, know which
 * step made them readable; and the time of a program is that of the slower of moving and computing. */
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "base/units.h"
#include "lower/pieces.h"
#include "ops/gelu/gelu.h"
#include "ops/sgd/sgd.h"

static void must(status result) {
    if (result != STATUS_OK) fail_msg("%s", status_message());
}

static tensor_id source(graph *g, const char *name, int64_t count, role of) {
    return graph_add_source(
        g, &(graph_source){ .name = name, .shape = SHAPE(count), .dtype = DTYPE_F32, .role = of });
}

static device_rates rates; /* that programs are lowered with */

/* gelu, then `updates` updates of one weight, whose momentum is in a file. Without `first` no gelu. */
static void make_any(program *p, int64_t elements, bool first, int updates, bool away) {
    graph g;
    must(graph_open(&g));
    tensor_id gradient = source(&g, "x", elements, ROLE_INPUT);
    if (first) gradient = gelu_apply(&g, gradient, true);
    sgd_inputs in = { .w = source(&g, "w", elements, ROLE_PARAMETER), .g = gradient };
    in.buffer = source(&g, "m", elements, ROLE_STATE);
    graph_tensor(&g, in.buffer)->away = away;
    in.lr = source(&g, "lr", 1, ROLE_INPUT);
    for (int i = 0; i < updates; i++) {
        in.w = sgd_apply(&g, in, &(sgd_attributes){ .momentum = 0.9f });
        in.buffer = in.w + 1;
    }
    lower_options o = { .threads = 1, .rates = rates };
    must(lower_program(&g, &o, p));
    assert_int_equal(p->count, first + updates);
}

static void make_program(program *p, int64_t elements, int updates, bool away) {
    rates = device_rates_default(1);
    make_any(p, elements, true, updates, away);
}

static void pieces_cover_everything_once(void **state) {
    (void)state;
    const int64_t sizes[] = { 1, PIECES_ELEMENTS - 1, PIECES_ELEMENTS, PIECES_ELEMENTS + 1,
                              3 * PIECES_ELEMENTS + 5000 };
    for (size_t i = 0; i < sizeof sizes / sizeof *sizes; i++) {
        program p;
        make_program(&p, sizes[i], 2, true);
        int64_t expected = (sizes[i] + PIECES_ELEMENTS - 1) / PIECES_ELEMENTS, next = 0, most = 0;
        uint64_t count = 0;
        for (piece x = { 0 }; pieces_next(&p, &x); count++) {
            piece_part parts[PIECES_PARTS];
            assert_int_equal(x.step, count < (uint64_t)expected ? 1 : 2);
            if (count == (uint64_t)expected) next = 0;
            assert_int_equal(x.first, next);
            assert_true(x.count > 0 && x.count <= PIECES_ELEMENTS);
            next += x.count;
            if (x.count > most) most = x.count;
            assert_int_equal(pieces_parts(&p, &x, parts), 1);
            assert_true(parts[0].read && parts[0].written && parts[0].at == 0);
            assert_int_equal(parts[0].from, x.first * 4);
            assert_int_equal(parts[0].bytes, units_align((uint64_t)x.count * 4, PIECES_PAGE));
        }
        assert_int_equal(next, sizes[i]);
        assert_int_equal(count, 2 * expected);
        pieces_size size = pieces_measure(&p);
        assert_int_equal(size.count, count);
        assert_int_equal(size.slot_bytes, units_align((uint64_t)most * 4, PIECES_PAGE));
        assert_false(pieces_step(&p, 0));
        assert_true(pieces_step(&p, 1) && pieces_step(&p, 2));
        assert_int_equal(pieces_readable(&p, 1), 0);
        assert_int_equal(pieces_readable(&p, 2), 2); /* when two steps are done */
        lower_close(&p);
    }
}

static double predicted(const program *p, const device_rates *r, double *waits) {
    double seconds;
    assert_int_equal(pieces_seconds(p, false, r, waits, &seconds), STATUS_OK);
    return seconds;
}

static void what_is_in_memory_has_no_pieces(void **state) {
    (void)state;
    program p;
    piece x = { 0 };
    make_program(&p, 1000, 1, false);
    assert_false(pieces_next(&p, &x) || pieces_step(&p, 1));
    assert_int_equal(pieces_measure(&p).count, 0);
    double waits[2];
    assert_true(predicted(&p, &(device_rates){ .file_read = 1, .file_written = 1 }, waits) ==
                p.steps[0].seconds + p.steps[1].seconds);
    assert_true(waits[0] == 0 && waits[1] == 0);
    lower_close(&p);
}

static void near(double found, double wanted) {
    if (fabs(found - wanted) > 1e-9 * wanted + 1e-12) fail_msg("%.12g where %.12g is right", found, wanted);
}

/* The orders of a transfer, one after the other and none left out: a slot's next piece is read when its last
 * one has been written, and that when it was computed on. `lead` is computed before the first piece; the lane
 * of copies has `left` still to do. Returns the end of computing; `*left`: what is left to do then. */
typedef struct {
    double lead, reading, writing, computing[2]; /* of a piece of the first `each` ones, and of the others */
    int each, count;
} series;

static double simulate(const series *x, double *left) {
    double read[PIECES_SLOTS], now = x->lead, copied = *left;
    int ordered = 0;
    for (int i = -1; i < x->count; i++) { /* -1: the program begins */
        double asked = i < 0 ? 0 : now;
        for (; ordered < x->count && ordered < (i < 0 ? 0 : i) + PIECES_SLOTS; ordered++) {
            if (ordered >= x->each && i < x->each) break; /* the first ones write it */
            read[ordered % PIECES_SLOTS] = copied = fmax(copied, asked) + x->reading;
        }
        if (i < 0) continue;
        now = fmax(now, read[i % PIECES_SLOTS]) + x->computing[i >= x->each];
        copied = fmax(copied, now) + x->writing;
    }
    *left = fmax(copied - now, 0);
    return now;
}

static double simulated(const series *x) {
    double left = 0, first = simulate(x, &left);
    return left > 0 ? simulate(x, &left) : first;
}

/* Few pieces, and so many that most of them are summed up at once. */
static void the_slower_of_two_counts(void **state) {
    (void)state;
    const int counts[] = { 1, 5, 40, 200 };
    for (size_t i = 0; i < sizeof counts / sizeof *counts; i++) {
        program p;
        int n = counts[i];
        double waits[2], bytes = 4.0 * PIECES_ELEMENTS;
        make_program(&p, (int64_t)n * PIECES_ELEMENTS, 1, true);
        p.steps[0].seconds = 7;
        p.steps[1].seconds = 2.0 * n; /* two for a piece */
        device_rates slow = { .file_read = bytes / 3, .file_written = bytes / 5 };
        double wanted = simulated(&(series){ 7, 3, 5, { 2, 2 }, n, n });
        near(predicted(&p, &slow, waits), wanted);
        near(waits[1], wanted - 7 - 2.0 * n);
        assert_true(waits[0] == 0);
        /* what one run leaves is written beside the next: the lane of copies is never idle */
        if (n > PIECES_SLOTS) assert_true(fabs(wanted - 8.0 * n) <= 2 + 7);
        device_rates fast = { .file_read = bytes / 0.25, .file_written = bytes / 0.75 };
        near(predicted(&p, &fast, NULL), 7 + 2.0 * n);
        p.steps[0].seconds = 0;
        near(predicted(&p, &fast, waits),
             simulated(&(series){ 0, 0.25, 0.75, { 2, 2 }, n, n })); /* the first piece is waited for */
        assert_true(waits[1] >= 0.25 && waits[1] <= 1);
        lower_close(&p);
    }
}

/* A step that computes slowly lets the next one's pieces be read ahead, as far as there are slots. */
static void steps_overlap(void **state) {
    (void)state;
    static const double computing[][2] = { { 5, 0.5 }, { 0.5, 5 }, { 2, 4 }, { 0.25, 0.5 } };
    static const int counts[] = { 2, 30, 70, 300 };
    for (size_t k = 0; k < sizeof computing / sizeof *computing; k++)
        for (size_t i = 0; i < sizeof counts / sizeof *counts; i++) {
            program p;
            int n = counts[i];
            double bytes = 4.0 * PIECES_ELEMENTS;
            rates = device_rates_default(1);
            make_any(&p, (int64_t)n * PIECES_ELEMENTS, false, 2, true);
            assert_int_equal(pieces_readable(&p, 0), 0);
            assert_int_equal(pieces_readable(&p, 1), 1);
            for (int s = 0; s < 2; s++) p.steps[s].seconds = n * computing[k][s];
            device_rates file = { .file_read = bytes / 0.75, .file_written = bytes / 0.25 };
            near(predicted(&p, &file, NULL),
                 simulated(&(series){ 0, 0.75, 0.25, { computing[k][0], computing[k][1] }, n, 2 * n }));
            lower_close(&p);
        }
}

/* What is predicted of a program has the waiting in it, step by step. */
static void waiting_is_predicted(void **state) {
    (void)state;
    program slow, fast;
    rates = device_rates_default(1);
    rates.file_read = rates.file_written = 1e6;
    make_any(&slow, PIECES_ELEMENTS, true, 1, true);
    rates.file_read = rates.file_written = 1e15;
    make_any(&fast, PIECES_ELEMENTS, true, 1, true);
    double moving = 2 * 4.0 * PIECES_ELEMENTS / 1e6;
    near(slow.steps[0].seconds, fast.steps[0].seconds);
    near(slow.seconds, moving + fast.steps[1].seconds);
    near(slow.steps[0].seconds + slow.steps[1].seconds, slow.seconds);
    lower_close(&slow);
    lower_close(&fast);
}

int main(void) {
    const struct CMUnitTest tests[] = { cmocka_unit_test(pieces_cover_everything_once),
                                        cmocka_unit_test(what_is_in_memory_has_no_pieces),
                                        cmocka_unit_test(the_slower_of_two_counts),
                                        cmocka_unit_test(steps_overlap),
                                        cmocka_unit_test(waiting_is_predicted) };
    return cmocka_run_group_tests_name("pieces", tests, NULL, NULL);
}
