/* Predicted times of lanes against measured ones. Kernels and disk sleep here, each for as long as its work
 * is large, and do nothing else. So their seconds are known, whatever else the machine does, and what is
 * compared is the model of the lanes with the threads, orders and slots that there are. */
#define _GNU_SOURCE
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <math.h>
#include <stdlib.h>
#include <time.h>
#include <unistd.h>

#include "io/scratch.h"
#include "oracle/reach.h"
#include "run/lab.h"

/* What a sleep takes too long is taken off the thread's next ones. */
static void sleep_for(double seconds) {
    static _Thread_local double late;
    double began = exec_now(), left = seconds - late;
    struct timespec pause = { .tv_sec = (time_t)left, .tv_nsec = (long)(1e9 * (left - floor(left))) };
    if (left > 0) nanosleep(&pause, NULL);
    late += exec_now() - began - seconds;
}

/* ---- a disk that takes its time ---- */

static double seconds_a_byte;

ssize_t __wrap_pread(int file, void *data, size_t bytes, off_t at);
ssize_t __wrap_pwrite(int file, const void *data, size_t bytes, off_t at);

ssize_t __wrap_pread(int file, void *data, size_t bytes, off_t at) {
    (void)file, (void)data, (void)at;
    sleep_for((double)bytes * seconds_a_byte);
    return (ssize_t)bytes;
}

ssize_t __wrap_pwrite(int file, const void *data, size_t bytes, off_t at) {
    (void)file, (void)data, (void)at;
    sleep_for((double)bytes * seconds_a_byte);
    return (ssize_t)bytes;
}

/* ---- kernels that take theirs ---- */

static double seconds_an_element; /* of their first input; of a piece that is a part */

static void rest(const op_call *c) {
    sleep_for(seconds_an_element * (double)shape_elements(&c->in[0].shape));
}
static const op_kernel resting = { .name = "resting", .run = rest };

/* All kernels of a program rest, `seconds` in all. */
static void replace_kernels(program *p, double seconds) {
    double elements = 0;
    for (int round = 0; round < 2; round++)
        for (uint32_t s = 0; s < p->count; s++) {
            const node *n = graph_node(&p->graph, p->steps[s].node);
            tensor_id first = node_in(&p->graph, n, 0);
            double of = first ? (double)shape_elements(graph_shape(&p->graph, first)) : 0;
            if (!round) elements += of;
            p->steps[s].kernel = &resting;
            p->steps[s].seconds = of * seconds / elements;
        }
    seconds_an_element = seconds / elements;
}

static double bytes_moved(const program *p) {
    double bytes = 0;
    for (piece x = { 0 }; pieces_next(p, &x);) {
        piece_part parts[PIECES_PARTS];
        uint32_t count = pieces_parts(p, &x, parts);
        for (uint32_t i = 0; i < count; i++)
            bytes += (double)parts[i].bytes * (parts[i].read + parts[i].written);
    }
    return bytes;
}

/* ---- steps ---- */

static const lab_sizes sizes = {
    .layers = 3, .heads = 4, .channels = 384, .context = 64, .vocabulary = 2000, .batch = 4
};

/* Seconds of one step among others: what is still to be written at its end is written beside the next. */
static double measure(exec *e) {
    enum { MOST_MOMENTS = 4096 };
    static double moments[MOST_MOMENTS];
    double ended[3];
    for (int i = 0; i < 3; i++) {
        assert_int_equal(exec_time(e, moments, MOST_MOMENTS), STATUS_OK);
        reach_run(e, "step");
        assert_true(exec_timed(e) > 1);
        ended[i] = moments[exec_timed(e) - 1];
    }
    return fmin(ended[1] - ended[0], ended[2] - ended[1]); /* others can only make it longer */
}

static void lanes_take_what_is_predicted(void **state) {
    (void)state;
    static const char *const settings[] = { "offload=optimizer", "offload=optimizer update_early=on",
                                            "offload=optimizer+activations", "offload=optimizer+gradients" };
    static const double parts[] = { 0.5, 1, 2, 4 }; /* of the kernels' seconds: what the disk needs */
    const double seconds = 0.2;
    for (size_t k = 0; k < sizeof settings / sizeof *settings; k++) {
        lab l;
        plan p;
        exec *e;
        lab_open(&l, &sizes);
        compose_choice c = lab_choose(&l, 0, settings[k]);
        if (compose_plan(&l.run, &c, &p) != STATUS_OK) fail_msg("%s", status_message());
        program *step = &p.programs[reach_program(&p, "step")].program;
        replace_kernels(step, seconds);
        if (exec_open(&p, 0, &e) != STATUS_OK) fail_msg("%s", status_message());
        for (size_t i = 0; i < sizeof parts / sizeof *parts; i++) {
            seconds_a_byte = parts[i] * seconds / bytes_moved(step);
            device_rates rates = { .file_read = 1 / seconds_a_byte, .file_written = 1 / seconds_a_byte };
            double predicted, measured = measure(e);
            assert_int_equal(pieces_seconds(step, false, &rates, NULL, &predicted), STATUS_OK);
            print_message("%-34s disk %.1f x: predicted %.0f ms, measured %.0f (%+.1f %%)\n", settings[k],
                          parts[i], 1e3 * predicted, 1e3 * measured, 100 * (predicted / measured - 1));
            assert_true(fabs(predicted / measured - 1) < 0.15);
        }
        exec_close(e);
        plan_close(&p);
    }
}

int main(void) {
    const struct CMUnitTest tests[] = { cmocka_unit_test(lanes_take_what_is_predicted) };
    return cmocka_run_group_tests_name("lanes, measured", tests, scratch_open, scratch_close);
}
