/* A search takes time in proportion to the layers of a model, and advice for the largest some seconds. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <string.h>
#include <time.h>

#include "device/device_gpu.h"
#include "run/setup.h"
#include "search/advise.h"

static void must(status result) {
    if (result != STATUS_OK) fail_msg("%s", status_message());
}

/* Seconds of processor that a search for a model of so many layers takes. */
static double seconds_of(int64_t layers, uint64_t budget) {
    setup s;
    setup_options o = setup_defaults();
    o.model = "llama-3.1-405b", o.batch = 1, o.context = 4096, o.threads = 2;
    must(setup_open(&o, NULL, &s));
    if (layers) s.config.decoder.layers = s.model.layers = layers;
    search_front front;
    char advice[ADVISE_BYTES];
    clock_t begin = clock();
    must(search_run(&s.request, NULL, &front));
    if (budget) advise_run(&s.request, budget, advice);
    double seconds = (double)(clock() - begin) / CLOCKS_PER_SEC;
    search_close(&front);
    setup_close(&s);
    return seconds;
}

/* Four times the layers: what were quadratic would take sixteen times as long. */
static void time_grows_with_the_layers(void **state) {
    (void)state;
    double some = seconds_of(24, 0), many = seconds_of(96, 0);
    print_message("24 layers: %.2f s, 96 layers: %.2f s\n", some, many);
    assert_true(many < 8 * some);
}

/* Some 2 s where it was written, of 150 plans and the advice. */
static void advice_for_400_billion_parameters(void **state) {
    (void)state;
    double seconds = seconds_of(0, UINT64_C(80) << 30);
    print_message("405 billion parameters that don't fit: %.2f s\n", seconds);
#ifndef __SANITIZE_ADDRESS__
    assert_true(seconds < 10);
#endif
}

/* Of a GPU, whose host takes what is away, there are six times as many combinations as of the processor. A
 * second of processor where it was written: 1,352 outlines and four plans of 9,120. */
static void a_gpu_takes_hardly_longer(void **state) {
    (void)state;
    setup s;
    device_elsewhere at;
    device_gpu h200 = { .name = "h200",
                        .title = "H200",
                        .capability = 90,
                        .multiprocessors = 132,
                        .threads = 2048,
                        .memory = UINT64_C(139) << 30,
                        .context = { 480 << 20, 527 << 20, 600 << 20 },
                        .f32 = 6.7e13,
                        .bandwidth = 4.8e12,
                        .link = 6.4e10 };
    must(device_elsewhere_plan(&h200, &at));
    setup_options o = setup_defaults();
    o.model = "gpt2", o.batch = 64, o.context = 1024, o.threads = 2, o.on = &at.device,
    o.memory = h200.memory;
    for (int i = 0; pass_table[i]; i++)
        if (strcmp(pass_table[i]->name, "precision") == 0) o.passes[i] = "bf16";
    must(setup_open(&o, NULL, &s));
    search_front front;
    clock_t begin = clock();
    must(search_run(&s.request, &(search_wish){ .budget = o.memory, .plain = true }, &front));
    double seconds = (double)(clock() - begin) / CLOCKS_PER_SEC;
    print_message("gpt2 on a GPU: %.2f s, %u outlines and %u plans of %llu\n", seconds, front.outlined,
                  front.planned, (unsigned long long)front.candidates);
    assert_true(front.outlined < 1550 && front.planned < 8);
#ifndef __SANITIZE_ADDRESS__
    assert_true(seconds < 4);
#endif
    search_close(&front);
    setup_close(&s);
}

int main(void) {
    const struct CMUnitTest tests[] = { cmocka_unit_test(time_grows_with_the_layers),
                                        cmocka_unit_test(a_gpu_takes_hardly_longer),
                                        cmocka_unit_test(advice_for_400_billion_parameters) };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
