/* Training by the library as `snug train` does it, one step at a time:
 *
 *     bench-step MODEL BATCH CONTEXT MEMORY CLIP THREADS DATA [device=NAME] [TECHNIQUE=SETTING ...]
 *
 * DATA -: random numbers. MEMORY in bytes, 0: unlimited. CLIP 0: off. Dropout is off. Prints "ready" with the
 * predicted seconds of a step and the predicted peak, and then makes one step for each line, answered by its
 * seconds and loss. A technique has its option's name: precision=bf16. */
#include <math.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "bench.h"
#include "passes/pass.h"
#include "run/made_up.h"
#include "train/train.h"

static volatile sig_atomic_t stop;

static void wait_for_line(void) {
    char line[64];
    fflush(stdout);
    if (!fgets(line, sizeof line, stdin)) stop = 1;
}

static void started(void *context, const setup *s, const decision *d) {
    (void)context;
    (void)s;
    printf("ready %.9f %llu %s\n", d->point.seconds, (unsigned long long)d->plan.peak_bytes,
           s->request.run.lower.rates.source);
    wait_for_line();
}

static void stepped(void *context, const train_progress *p) {
    (void)context;
    printf("%.9f %.6f\n", p->seconds, p->loss);
    wait_for_line();
}

static status train(const setup_options *o) {
    setup s;
    decision d = { 0 };
    resume from = { 0 };
    train_result r = { 0 };
    train_observer observer = { .started = started, .stepped = stepped, .stop = &stop };
    TRY(setup_open(o, NULL, &s));
    status result = o->data ? STATUS_OK : made_up_train(&s);
    if (result == STATUS_OK) result = decision_make(&s, &d);
    if (result == STATUS_OK) result = train_run(&s, &d, &from, &observer, &r);
    train_result_close(&r);
    decision_close(&d);
    setup_close(&s);
    return result;
}

/* "precision=bf16" into the pass of that name, "device=cuda" into the device. */
static bool choose(setup_options *o, char *word) {
    char *setting = strchr(word, '=');
    if (!setting) return false;
    *setting++ = 0;
    if (strcmp(word, "device") == 0) return o->device = setting, true;
    char option[PASS_OPTION_BYTES];
    for (int i = 0; pass_table[i]; i++)
        if (strcmp(pass_option(pass_table[i], option), word) == 0) return o->passes[i] = setting, true;
    return false;
}

int main(int count, char **arguments) {
    if (count < 8) {
        fputs("usage: bench-step MODEL BATCH CONTEXT MEMORY CLIP THREADS DATA [device=NAME] "
              "[TECHNIQUE=SETTING ...]\n",
              stderr);
        return 2;
    }
    setup_options o = setup_defaults();
    o.model = arguments[1];
    o.batch = atoll(arguments[2]), o.context = atoll(arguments[3]);
    o.memory = strtoull(arguments[4], NULL, 10);
    o.optimizer.clip = atof(arguments[5]);
    o.threads = atoll(arguments[6]);
    o.data = strcmp(arguments[7], "-") ? arguments[7] : NULL;
    o.steps = 1000, o.dropout = 0, o.eval_samples = o.data ? 4 : 0;
    for (int i = 8; i < count; i++)
        if (!choose(&o, arguments[i])) {
            fprintf(stderr, "%s is no technique with its setting\n", arguments[i]);
            return 2;
        }
    status result = train(&o);
    if (result == STATUS_OK || result == STATUS_INTERRUPTED) return 0;
    fprintf(stderr, "%s\n", status_message());
    return (int)result;
}
