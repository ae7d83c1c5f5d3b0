/* Plans as they were when they were last looked at, in recorded_plans.txt: what the search chose for 36 drawn
 * models, and what plans of 160 drawn combinations hold, to the step and the byte. A change that is meant to
 * leave plans alone leaves this file alone; one that is not shows in its difference what it did. To write it
 * anew: SNUG_RECORD=1 ctest -R test_recorded_plans.
 *
 * Reference kernels and rates of its own make a plan the same on every machine. What the process itself takes
 * is left out: it follows sizes of our tables. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "base/digest.h"
#include "base/threads.h"
#include "ops/matmul/matmul_kernel.h"
#include "run/lab.h"

#define RECORD SNUG_ROOT "/tests/run/recorded_plans.txt"

enum { SEARCHES = 36, COMBINATIONS = 160, LINE = 640, THREADS = 2 };

static const device_rates rates = {
    .flops = { 50e9, 25e9, 95e9, 80e9, 120e9, 70e9, 60e9, 40e9, 20e9 },
    .draws = 0.5e9,
    .moved = 30e9,
    .cached = 50e9,
    .bandwidth = 20e9,
    .fetched = 7e9,
    .cache_bytes = 2e6,
    .call_seconds = 2e-6,
    .file_read = 0.5e9,
    .file_written = 0.4e9,
    .copied = 20e9,
    .scale = 1,
};

static void must(status result) {
    if (result != STATUS_OK) fail_msg("%s", status_message());
}

/* ---- what is drawn ---- */

static void draw_model(lab *l, uint32_t *random) {
    static const char *const decoders[] = { NULL, NULL, "llama", "qwen2", "gemma" };
    lab_sizes s = { .layers = 1 + lab_random(random, 3),
                    .heads = 1 + lab_random(random, 3),
                    .context = lab_random(random, 3) ? 64 : 16 + lab_random(random, 200),
                    .vocabulary = 5 + lab_random(random, 300),
                    .batch = lab_random(random, 2) ? 4 : 1 + lab_random(random, 9),
                    .clip = lab_random(random, 2) ? 1 : 0,
                    .decoder = decoders[lab_random(random, 5)],
                    .untied = lab_random(random, 3) == 0,
                    .dropout = lab_random(random, 3) ? 0 : 0.1,
                    .optimizer = (optimizer_kind)lab_random(random, OPTIMIZER_COUNT) };
    s.channels = s.heads * 8 * (1 + lab_random(random, 6));
    if (lab_random(random, 3) == 0) /* large enough to be worth a file */
        s.channels = s.heads * 64, s.context = 256, s.vocabulary = 2000;
    if (s.decoder) s.dropout = 0;
    lab_open(l, &s);
    l->run.eval_samples = lab_random(random, 3) ? 0 : 1 + lab_random(random, 5);
    l->run.lower = (lower_options){ .threads = THREADS, .rates = rates, .reference = true };
}

/* ---- what a plan holds ---- */

static void add_number(digest *d, uint64_t number) { digest_add(d, &number, sizeof number); }

static void add_program(digest *d, const plan_program *p) {
    const graph *g = &p->program.graph;
    for (uint32_t i = 0; i < p->program.count; i++) {
        const lower_step *s = &p->program.steps[i];
        digest_text(d, graph_node(g, s->node)->op->name);
        digest_text(d, s->kernel->name);
        add_number(d, s->scratch_bytes);
        add_number(d, p->scratch[i]);
    }
    for (tensor_id t = 1; t < g->tensors.count; t++) {
        const tensor *x = graph_tensor(g, t);
        add_number(d, (uint64_t)x->dtype << 32 | (uint64_t)x->role << 8 | x->away);
        add_number(d, graph_tensor_bytes(g, t));
        add_number(d, p->offset[t]);
    }
    for (uint32_t i = 0; i < p->live.count; i++) {
        const live_storage *s = &p->live.storages[i];
        add_number(d, (uint64_t)s->first << 32 | s->last);
        add_number(d, s->bytes);
        add_number(d, s->category);
    }
}

static uint64_t digest_of(const plan *p) {
    digest d = digest_begin();
    for (uint32_t i = 0; i < p->persistent_count; i++) {
        const plan_persistent *x = &p->persistent[i];
        digest_text(&d, x->name);
        add_number(&d, x->bytes);
        add_number(&d, x->offset);
        add_number(&d, (uint64_t)x->pool << 8 | (uint64_t)x->category);
    }
    for (uint32_t k = 0; k < p->program_count; k++) add_program(&d, &p->programs[k]);
    return digest_value(&d);
}

/* Bytes of tensors that stay and of the arena, of what is away; steps; seconds; and a digest of all of it. */
static void describe(const lab *l, const compose_choice *c, char out[LINE]) {
    char text[256], digits[DIGEST_TEXT_BYTES];
    plan p;
    lab_choice_text(c, text);
    if (compose_plan(&l->run, c, &p) != STATUS_OK) {
        snprintf(out, LINE, "%s: no plan", text);
        return;
    }
    uint32_t steps = 0;
    for (uint32_t k = 0; k < p.program_count; k++) steps += p.programs[k].program.count;
    snprintf(out, LINE, "%s: %llu + %llu bytes, %llu away, %u steps, %.5g s, %s", text,
             (unsigned long long)p.pools[POOL_MEMORY].persistent_bytes,
             (unsigned long long)p.pools[POOL_MEMORY].arena_bytes, (unsigned long long)plan_away_bytes(&p),
             steps, compose_seconds(&l->run, &p), digest_text_of(digest_of(&p), digits));
    plan_close(&p);
}

/* ---- the record ---- */

typedef struct {
    FILE *file, *anew; /* anew: NULL, it is only compared */
    int differ;
} record;

static record record_open(void) {
    record r = { .file = fopen(RECORD, "r") };
    if (getenv("SNUG_RECORD")) {
        if (r.file) fclose(r.file);
        r.file = NULL, r.anew = fopen(RECORD, "w");
        assert_non_null(r.anew);
    } else if (!r.file) {
        fail_msg("%s can't be read", RECORD);
    }
    return r;
}

static void record_line(record *r, const char *line) {
    char before[LINE + 64] = "";
    if (r->anew) {
        fprintf(r->anew, "%s\n", line);
        return;
    }
    if (!fgets(before, sizeof before, r->file)) before[0] = 0;
    before[strcspn(before, "\n")] = 0;
    if (strcmp(before, line) == 0) return;
    if (r->differ++ < 5) print_message("recorded %s\nnow      %s\n", before, line);
}

static void record_close(record *r) {
    if (r->anew) assert_int_equal(fclose(r->anew), 0);
    if (!r->file) return;
    assert_int_equal(fgetc(r->file), EOF);
    fclose(r->file);
    if (r->differ) fail_msg("%d plans are not those of %s", r->differ, RECORD);
}

static void describe_search(record *r, int index) {
    uint32_t random = 7001u * (uint32_t)(index + 1);
    lab l;
    search_front front;
    char what[LINE], line[LINE + 64];
    draw_model(&l, &random);
    search_request q = { .run = l.run, .allowed = index % 4 ? PASS_REASSOCIATING : PASS_EXACT };
    for (int i = 0; pass_table[i] && index % 3 == 0; i++) q.lossy[i].given = !pass_table[i]->asked_for;
    if (index % 2) q.run.folder = NULL;
    must(search_run(&q, NULL, &front));
    for (uint32_t i = 0; i < front.count; i += 1 + (front.count - 1) / 3) { /* the leanest, and up to three */
        describe(&l, &front.points[i].choice, what);
        snprintf(line, sizeof line, "search %d, point %u of %u: %s", index, i + 1, front.count, what);
        record_line(r, line);
    }
    const search_point *middle = &front.points[front.count / 2];
    search_wish wish = { .budget = middle->peak_bytes + 4096, .seconds = 1.1 * middle->seconds };
    search_front wished;
    must(search_run(&q, &wish, &wished));
    for (uint32_t i = 0; i < wished.count; i++) {
        describe(&l, &wished.points[i].choice, what);
        snprintf(line, sizeof line, "search %d, wish %u of %u: %s", index, i + 1, wished.count, what);
        record_line(r, line);
    }
    search_close(&wished);
    search_close(&front);
}

static void describe_combination(record *r, int index) {
    uint32_t random = 9001u * (uint32_t)(index + 1);
    lab l;
    char what[LINE], line[LINE + 64];
    draw_model(&l, &random);
    compose_choice c = lab_choose_randomly(&l, &random, (pass_class)(index % (PASS_LOSSY + 1)));
    describe(&l, &c, what);
    snprintf(line, sizeof line, "combination %d: %s", index, what);
    record_line(r, line);
}

static void plans_are_those_recorded(void **state) {
    (void)state;
    threads_set(THREADS);
    matmul_kernel_choose(&matmul_kernel_portable); /* what is predicted goes by its tiles */
    record r = record_open();
    for (int i = 0; i < SEARCHES; i++) describe_search(&r, i);
    for (int i = 0; i < COMBINATIONS; i++) describe_combination(&r, i);
    record_close(&r);
}

int main(void) {
    const struct CMUnitTest tests[] = { cmocka_unit_test(plans_are_those_recorded) };
    return cmocka_run_group_tests_name("recorded plans", tests, NULL, NULL);
}
