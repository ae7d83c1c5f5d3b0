/* A run whose samples come from a slow place: each takes `delay` milliseconds to come, as from a network,
 * after which a text is read as always. Answers with seconds a step of the whole run, then of a profiled one:
 * kernels, waiting for data, all else; and the last loss, which no number of workers may change.
 *
 *     bench-workers MODEL TEXT BATCH STEPS WORKERS DELAY */
#include <stdio.h>
#include <stdlib.h>
#include <time.h>

#include "bench.h"
#include "train/profile.h"

typedef struct {
    data_source text;
    long nanoseconds;
} slow_place;

static status slow_read(const data_source *s, uint64_t sample, void *scratch, void *const fields[]) {
    const slow_place *p = s->state;
    struct timespec left = { p->nanoseconds / 1000000000, p->nanoseconds % 1000000000 };
    nanosleep(&left, NULL);
    return p->text.read(&p->text, sample, scratch, fields);
}

static void must(status result) {
    if (result == STATUS_OK) return;
    fprintf(stderr, "%s\n", status_message());
    exit(1);
}

static void whole_run(const setup *s, double *seconds, double *loss) {
    decision d;
    train_result r;
    resume from = { 0 };
    train_observer nobody = { 0 };
    must(decision_make(s, &d));
    double began = bench_seconds();
    must(train_run(s, &d, &from, &nobody, &r));
    *seconds = (bench_seconds() - began) / (double)s->options.steps;
    *loss = r.losses[s->options.steps - 1];
    train_result_close(&r);
    decision_close(&d);
}

static void profiled(const setup *s, double *kernels, double *waiting, double *rest) {
    decision d;
    profile_result r;
    bool observes;
    must(decision_make(s, &d));
    must(profile_reserve(s, &d, s->options.steps, &observes));
    must(profile_run(s, &d, s->options.steps, observes, NULL, &r));
    *kernels = *waiting = *rest = 0;
    for (int64_t i = 0; i < r.steps; i++) {
        *kernels += r.step[i].kernels / (double)r.steps;
        *waiting += r.step[i].data / (double)r.steps;
        *rest += (r.step[i].hand_in + r.step[i].rest) / (double)r.steps;
    }
    profile_close(&r);
    decision_close(&d);
}

int main(int argc, char **argv) {
    if (argc != 7) return 2;
    slow_place place = { .nanoseconds = (long)(atof(argv[6]) * 1e6) };
    text_source_options t = { .path = argv[2], .context = 256, .vocabulary = 256 };
    must(text_source_open(&t, &place.text));
    data_source slow = place.text;
    slow.read = slow_read, slow.check = NULL, slow.close = NULL, slow.state = &place;
    setup_options o = setup_defaults();
    o.model = argv[1], o.source = &slow, o.eval_source = &place.text, o.eval_samples = 1;
    o.batch = atoi(argv[3]), o.steps = atoi(argv[4]), o.workers = atoi(argv[5]);
    setup s;
    double whole, loss, kernels, waiting, rest;
    must(setup_open(&o, NULL, &s));
    whole_run(&s, &whole, &loss);
    profiled(&s, &kernels, &waiting, &rest);
    printf("%.6f %.6f %.6f %.6f %.9g\n", whole, kernels, waiting, rest, loss);
    setup_close(&s);
    data_source_close(&place.text);
    return 0;
}
