/* Without memory nothing is made that is only half of it: of a function every call for memory fails once, and
 * then it says so. The whole program is tried so by tests/cli/test_failures.c, but for the ways that are
 * alike there: what passes have in common is called by each of them. Calls for memory are taken over here
 * (test_no_memory.wrap). */
#define _GNU_SOURCE
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <errno.h>
#include <string.h>
#include <sys/mman.h>

#include "base/memory.h"
#include "base/threads.h"
#include "compare/compare.h"
#include "io/adapter_files.h"
#include "io/scratch.h"
#include "io/trained_context.h"
#include "io/yaml.h"
#include "passes/adapting.h"
#include "plan/pack.h"
#include "quantize/quantize.h"
#include "run/identity.h"
#include "run/lab.h"
#include "run/weights.h"
#include "search/space.h"

/* ---- what is taken over ---- */

static struct {
    long calls, failing; /* so far; the one that fails, -1: none */
    bool refused;        /* a call for address space was */
    long blocks;         /* that were given and are not given back */
} memory = { .failing = -1 };

void *__real_calloc(size_t count, size_t size);
void *__real_realloc(void *block, size_t bytes);
void *__real_mmap(void *at, size_t bytes, int how, int kind, int file, off_t from);
char *__real_strdup(const char *copied);
void *__wrap_calloc(size_t count, size_t size);
void *__wrap_realloc(void *block, size_t bytes);
void *__wrap_mmap(void *at, size_t bytes, int how, int kind, int file, off_t from);

char *__wrap_strdup(const char *copied);
void __real_free(void *block);
void __wrap_free(void *block);

static bool fails(void) {
    errno = ENOMEM;
    return memory.calls++ == memory.failing;
}

static void *counted(void *block) {
    memory.blocks += block != NULL;
    return block;
}

/* What the compiler makes of realloc of nothing. */
void *__real_malloc(size_t bytes);
void *__wrap_malloc(size_t bytes);
void *__wrap_malloc(size_t bytes) { return fails() ? NULL : counted(__real_malloc(bytes)); }

void *__wrap_calloc(size_t count, size_t size) {
    return fails() ? NULL : counted(__real_calloc(count, size));
}
void *__wrap_realloc(void *block, size_t bytes) {
    if (fails()) return NULL;
    void *larger = __real_realloc(block, bytes);
    return block ? larger : counted(larger);
}
char *__wrap_strdup(const char *copied) { return fails() ? NULL : counted(__real_strdup(copied)); }
void __wrap_free(void *block) {
    memory.blocks -= block != NULL;
    __real_free(block);
}

/* Where there is no address space less is asked for, so all of those calls fail from then on. */
void *__wrap_mmap(void *at, size_t bytes, int how, int kind, int file, off_t from) {
    memory.refused |= fails();
    return memory.refused ? MAP_FAILED : __real_mmap(at, bytes, how, kind, file, from);
}

/* Every call for memory of `body` fails once; returns how many there were. No block is left of a
 * call that failed, and none of one that did not. */
static long try_all(status (*body)(void *context), void *context, const char *what) {
    memory_trim(); /* what is kept for later would be memory that is there */
    memory.calls = 0, memory.failing = -1;
    if (body(context) != STATUS_OK) fail_msg("%s: %s", what, status_message());
    long all = memory.calls, held = memory.blocks;
    if (body(context) != STATUS_OK || memory.blocks > held) fail_msg("%s: a block is left", what);
    for (long at = 0; at < all; at++) {
        memory_trim();
        memory.calls = 0, memory.failing = at, memory.refused = false;
        long before = memory.blocks;
        status result = body(context);
        memory.failing = -1, memory.refused = false;
        if (memory.blocks > before) fail_msg("%s: call %ld of %ld fails, and a block is left", what, at, all);
        if (memory.calls > at && result != STATUS_FAILED)
            fail_msg("%s: call %ld of %ld fails, and that is %d", what, at, all, result);
    }
    return all;
}

static void must(status result) {
    if (result != STATUS_OK) fail_msg("%s", status_message());
}

/* ---- passes ---- */

typedef struct {
    const pass *pass;
    const pass_setting *setting;
    const pass_context *context;
    const graph *in;
} application;

static status apply(void *context) {
    const application *a = context;
    graph out;
    TRY(graph_open(&out));
    status result = a->pass->run(a->in, a->setting, a->context, &out);
    graph_close(&out);
    return result;
}

/* What is only pinned, by pass. */
static uint32_t pinned(const pass *p, pass_setting *out) {
    static const char *const texts[][2] = { { "lora", "rank=2" }, { "qat", "int8" }, { "quantize", "int8" } };
    for (size_t i = 0; i < sizeof texts / sizeof *texts; i++)
        if (strcmp(p->name, texts[i][0]) == 0) {
            must(p->parse(texts[i][1], out));
            return 1;
        }
    return 0;
}

static void apply_all(const lab *l, int64_t micro_batch) {
    compose_choice choice = lab_choose(l, micro_batch, "");
    pass_context c = compose_context(&l->run, &choice);
    c.away = true;
    for (int i = 0; pass_table[i]; i++) {
        const pass *p = pass_table[i];
        graph in;
        pass_setting offered[64];
        pass_without without = PASS_OPTIONAL;
        must(compose_graph(&l->run, &choice, p->stage, &in));
        uint32_t count = p->settings(&in, &c, offered, 64, &without);
        if (!count) count = pinned(p, offered);
        if (count > 3) count = 3;
        for (uint32_t k = 0; k < count; k++) {
            application a = { p, &offered[k], &c, &in };
            assert_true(try_all(apply, &a, p->name) > 4);
        }
        graph_close(&in);
    }
}

static void no_pass_makes_half_a_graph(void **state) {
    (void)state;
    lab l;
    lab_open(&l, &(lab_sizes){ .layers = 2,
                               .heads = 2,
                               .channels = 64,
                               .context = 16,
                               .vocabulary = 200,
                               .batch = 2,
                               .dropout = 0.1,
                               .clip = 1 });
    apply_all(&l, 0);
    apply_all(&l, 1);
}

/* ---- packing ---- */

static status pack(void *context) {
    pack_interval *list = context;
    uint64_t arena;
    return pack_intervals(list, 60, &arena);
}

static void nothing_is_packed_in_half_a_table(void **state) {
    (void)state;
    pack_interval list[60];
    uint64_t random = 7;
    for (int i = 0; i < 60; i++) {
        uint32_t first = scratch_random(&random) % 100, length = scratch_random(&random) % 30;
        list[i] = (pack_interval){ PACK_ALIGNMENT * (1 + (uint64_t)scratch_random(&random) % 50), first,
                                   first + length, 0 };
    }
    assert_true(try_all(pack, list, "packing") > 9);
}

/* ---- lifetimes ---- */

static status list_lives(void *context) {
    live_set set;
    status result = live_of_program(context, &set);
    if (result != STATUS_OK) assert_true(!set.storages && !set.of_tensor && !set.count);
    live_close(&set);
    return result;
}

static void no_half_of_a_list_is_left(void **state) {
    (void)state;
    lab l;
    plan p;
    lab_open(&l, &(lab_sizes){
                     .layers = 1, .heads = 2, .channels = 16, .context = 16, .vocabulary = 61, .batch = 2 });
    compose_choice c = lab_choose(&l, 0, "");
    must(compose_plan(&l.run, &c, &p));
    assert_true(try_all(list_lives, &p.programs[0].program, "lives") > 2);
    plan_close(&p);
}

/* ---- configurations of lines ---- */

static status read_lines(void *context) {
    yaml_file f;
    TRY(yaml_read("c.yaml", context, strlen(context), &f));
    yaml_close(&f);
    return STATUS_OK;
}

/* So many that the list of them grows more than once. */
static void no_line_is_left(void **state) {
    (void)state;
    char lines[1024];
    int length = 0;
    for (int i = 0; i < 40; i++)
        length += snprintf(lines + length, sizeof lines - (size_t)length, "key%d: value\n", i);
    assert_true(try_all(read_lines, lines, "lines") > 80);
}

/* ---- who a run is ---- */

static status identify(void *context) {
    identity who;
    return identity_of(context, &who);
}

static void nobody_is_half_known(void **state) {
    (void)state;
    static const char config[] = "{\"model_type\": \"gpt2\", \"n_layer\": 1, \"n_head\": 1, \"n_embd\": 4, "
                                 "\"n_positions\": 8, \"vocab_size\": 8}\n";
    setup s;
    identity who;
    setup_options o = setup_defaults();
    scratch_write("config.json", config, sizeof config - 1);
    o.model = "config.json", o.batch = 1, o.threads = 1;
    must(setup_open(&o, NULL, &s));
    assert_true(try_all(identify, &s, "identity") > 3);
    s.weights = "nowhere"; /* they were there when the run was set up */
    assert_int_equal(identity_of(&s, &who), STATUS_INVALID);
    assert_non_null(strstr(status_message(), "nowhere"));
    setup_close(&s);
}

static status ask_context(void *folder) {
    int64_t context;
    TRY(trained_context(folder, &context));
    assert_int_equal(context, 4);
    return STATUS_OK;
}

static void what_was_trained_is_known_or_not(void **state) {
    (void)state;
    static const char history[] = "{\"began\": \"2026-11-21T08:30:00Z\", \"context\": 4}\n",
                      kept[] = "{\"step\": 2, \"options\": {\"context\": 4}}\n";
    assert_int_equal(mkdir("run", 0700) | mkdir("checkpoint", 0700), 0);
    scratch_write("run/metrics.jsonl", history, sizeof history - 1);
    scratch_write("checkpoint/trainer_state.json", kept, sizeof kept - 1);
    assert_true(try_all(ask_context, "run", "history") > 0);
    assert_true(try_all(ask_context, "checkpoint", "checkpoint") > 0);
}

/* ---- adapters ---- */

static status save(void *context) { return adapter_files_save("adapter", context, NULL, 0); }

static void no_half_of_an_adapter_is_kept(void **state) {
    (void)state;
    pass_setting s;
    const pass *p = NULL;
    for (int i = 0; pass_table[i] && !p; i++)
        if (pass_table[i]->adapting) p = pass_table[i];
    assert_non_null(p);
    must(p->parse("rank=4,target=c_attn+c_proj", &s));
    adapter_files_about about = { .pass = p, .setting = &s, .base = "model", .base_digest = 7 };
    assert_int_equal(mkdir("adapter", 0700), 0);
    assert_true(try_all(save, &about, "adapter") > 3);
}

/* ---- weights ---- */

static status load(void *context) { return weights_load(context, "whole"); }

typedef struct {
    exec *e;
    const model_config *config;
} described;

static status describe(void *context) {
    const described *d = context;
    return weights_save_config(d->e, d->config, "whole", DTYPE_NONE);
}

static void no_model_is_loaded_by_half(void **state) {
    (void)state;
    lab l;
    plan p;
    exec *e;
    lab_open(&l, &(lab_sizes){
                     .layers = 1, .heads = 2, .channels = 16, .context = 16, .vocabulary = 61, .batch = 2 });
    compose_choice c = lab_choose(&l, 0, "");
    must(compose_plan(&l.run, &c, &p));
    must(exec_open(&p, 0, &e));
    must(weights_initialise(e, &l.model, 7));
    const model_config config = { .family = FAMILY_GPT2, .gpt2 = l.config };
    assert_int_equal(mkdir("whole", 0700), 0);
    must(weights_save(e, &config, "whole"));
    assert_true(try_all(load, e, "weights") > 4);
    assert_true(try_all(describe, &(described){ e, &config }, "config.json") > 1);
    exec_close(e);
    plan_close(&p);
}

/* ---- quantizing ---- */

static status quantize(void *context) {
    quantize_result r;
    status result = quantize_run(context, &r);
    /* as far as one comes without weights */
    return result == STATUS_INVALID && strstr(status_message(), "model.safetensors") ? STATUS_OK : result;
}

static void nothing_is_quantized_by_half_of_what_is_known(void **state) {
    (void)state;
    static const char config[] = "{\"model_type\": \"gpt2\", \"n_layer\": 1, \"n_head\": 1, \"n_embd\": 4, "
                                 "\"n_positions\": 8, \"vocab_size\": 8}\n",
                      history[] = "{\"began\": \"2026-11-21T08:30:00Z\", \"context\": 4}\n";
    quantize_options o = { .directory = "trained", .out = "codes", .run = setup_defaults() };
    o.run.threads = 1;
    assert_int_equal(mkdir("trained", 0700), 0);
    scratch_write("trained/config.json", config, sizeof config - 1);
    scratch_write("trained/metrics.jsonl", history, sizeof history - 1);
    assert_true(try_all(quantize, &o, "quantizing") > 4);
    assert_int_not_equal(access("codes", F_OK), 0);
}

/* ---- searching ---- */

/* Every forward setting of every stem, as texts. */
static void space_text(const space *s, text *out) {
    for (uint32_t k = 0; k < s->stem_count; k++) {
        text_add(out, "\n");
        for (int i = 0; pass_table[i]; i++) {
            uint8_t at = s->stems[k].forward[i];
            if (at >= s->known[i].count) fail_msg("%s has no setting %d", pass_table[i]->name, (int)at);
            text_add(out, "%s;", s->known[i].settings[at].text);
        }
    }
}

/* Where it was tried again it may be whole all the same, but nothing else. */
static void list_stems(const search_request *q, long least) {
    space s;
    text whole = { 0 };
    long refused = 0;
    memory_trim();
    memory.calls = 0;
    must(space_open(q, &s));
    long all = memory.calls;
    space_text(&s, &whole);
    space_close(&s);
    for (long at = 0; at < all; at++) {
        text found = { 0 };
        memory_trim();
        memory.calls = 0, memory.failing = at, memory.refused = false;
        status result = space_open(q, &s);
        memory.failing = -1, memory.refused = false;
        if (result == STATUS_OK) {
            space_text(&s, &found);
            assert_string_equal(found.data, whole.data);
        } else {
            assert_int_equal(result, STATUS_FAILED);
        }
        refused += result == STATUS_FAILED;
        space_close(&s);
        text_close(&found);
    }
    assert_true(all > least && refused > all / 4);
    text_close(&whole);
}

/* Among many stems, where the next one may bring what one lacks, and of one alone. */
static void no_setting_is_left_out(void **state) {
    (void)state;
    lab l;
    lab_open(&l, &(lab_sizes){
                     .layers = 1, .heads = 2, .channels = 16, .context = 16, .vocabulary = 61, .batch = 4 });
    search_request q = { .run = l.run, .allowed = PASS_REASSOCIATING };
    list_stems(&q, 50);
    q.micro_batch = 4;
    for (int i = 0; pass_table[i]; i++) {
        if (strcmp(pass_table[i]->name, "attention") != 0) continue;
        q.pins[i].kind = SEARCH_PINNED;
        must(pass_table[i]->parse("flash", &q.pins[i].setting));
    }
    list_stems(&q, 20);
}

/* ---- comparing ---- */

typedef struct {
    setup s;
    compare_table t;
} comparison;

static status compare(void *context) {
    comparison *c = context;
    return compare_plan(&c->s, &c->t);
}

static bool same_rows(const compare_table *a, const compare_table *b) {
    bool same = a->count == b->count;
    for (uint32_t i = 0; i < a->count && same; i++)
        same = strcmp(a->rows[i].name, b->rows[i].name) == 0 &&
               a->rows[i].point.peak_bytes == b->rows[i].point.peak_bytes;
    return same;
}

/* Some of the calls, among them some for the rows of what is allowed, which come last but one. Where a part
 * of the search is looked at a second time the table may become whole all the same. */
static void no_row_is_left_out(void **state) {
    (void)state;
    enum { TRIED = 24 };
    comparison *c = memory_new(1, sizeof *c);
    compare_table *whole = memory_new(1, sizeof *whole);
    setup_options o = setup_defaults();
    int refused = 0;
    o.model = "config.json", o.batch = 1, o.threads = 1, o.allow = "all";
    for (int i = 0; pass_table[i]; i++)
        if (pass_table[i]->class != PASS_LOSSY) o.passes[i] = "off";
    must(setup_open(&o, NULL, &c->s));
    memory_trim();
    memory.calls = 0;
    must(compare(c));
    long all = memory.calls;
    *whole = c->t;
    assert_true(whole->any_allowed);
    for (long k = 0; k < TRIED; k++) {
        memory_trim();
        memory.calls = 0, memory.failing = all * k / TRIED;
        status result = compare(c);
        memory.failing = -1, memory.refused = false;
        refused += result == STATUS_FAILED;
        if (result != STATUS_FAILED && !(result == STATUS_OK && same_rows(&c->t, whole)))
            fail_msg("call %ld of %ld fails, and that is %d", all * k / TRIED, all, result);
    }
    assert_true(refused > TRIED / 2);
    setup_close(&c->s);
    memory_free(whole);
    memory_free(c);
}

int main(void) {
    const struct CMUnitTest tests[] = { cmocka_unit_test(no_pass_makes_half_a_graph),
                                        cmocka_unit_test(nothing_is_packed_in_half_a_table),
                                        cmocka_unit_test(no_half_of_a_list_is_left),
                                        cmocka_unit_test(no_line_is_left),
                                        cmocka_unit_test(nobody_is_half_known),
                                        cmocka_unit_test(what_was_trained_is_known_or_not),
                                        cmocka_unit_test(no_half_of_an_adapter_is_kept),
                                        cmocka_unit_test(no_model_is_loaded_by_half),
                                        cmocka_unit_test(nothing_is_quantized_by_half_of_what_is_known),
                                        cmocka_unit_test(no_setting_is_left_out),
                                        cmocka_unit_test(no_row_is_left_out) };
    threads_set(1);
    return cmocka_run_group_tests(tests, scratch_open, scratch_close);
}
