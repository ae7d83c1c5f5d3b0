/* A search takes time in proportion to the layers of a model, and advice for the largest some seconds. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <time.h>

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
    if (layers) s.config.decoder.layers = layers;
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

int main(void) {
    const struct CMUnitTest tests[] = { cmocka_unit_test(time_grows_with_the_layers),
                                        cmocka_unit_test(advice_for_400_billion_parameters) };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
