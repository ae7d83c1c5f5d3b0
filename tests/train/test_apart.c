/* A run on a device whose memory the host can't touch (oracle/apart.h): through the same plan, executor and
 * files as on the CPU, and with its bits. */
#define _GNU_SOURCE
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <errno.h>
#include <math.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/memory.h"
#include "base/units.h"
#include "exec/runner.h"
#include "io/file.h"
#include "io/scratch.h"
#include "oracle/apart.h"
#include "run/weights.h"
#include "sanitized.h"
#include "train/evaluate.h"
#include "train/on_device.h"
#include "train/room.h"
#include "train/train.h"

static void write_files(void) {
    char words[9000];
    for (size_t i = 0; i < sizeof words; i++) words[i] = (char)('a' + (i * i + i / 7) % 26);
    scratch_write("text", words, sizeof words);
    static const char config[] =
        "{\"model_type\": \"gpt2\", \"n_layer\": 1, \"n_head\": 1, \"n_embd\": 32, \"n_positions\": 16, "
        "\"vocab_size\": 256, \"resid_pdrop\": 0, \"embd_pdrop\": 0, \"attn_pdrop\": 0}\n";
    scratch_write("config.json", config, sizeof config - 1);
    static const char deep[] =
        "{\"model_type\": \"gpt2\", \"n_layer\": 64, \"n_head\": 1, \"n_embd\": 8, \"n_positions\": 16, "
        "\"vocab_size\": 256}\n";
    scratch_write("deep.json", deep, sizeof deep - 1);
}

/* Micro-batches, validation with a rest, clipping: every kind of program and of value. */
static setup_options usual(const char *out) {
    setup_options o = setup_defaults();
    o.model = "char-small", o.data = "text", o.out = out;
    o.batch = 6, o.micro_batch = 4, o.context = 16, o.threads = 1, o.steps = 4;
    o.eval_samples = 5, o.eval_batch = 3, o.eval_every = 2, o.save_every = 2;
    o.rates = RATES_BUILT_IN, o.schedule = SCHEDULE_CONSTANT;
    return o;
}

/* `--device` finds the stand-in as well, so that it is asked whatever a device is asked for. */
status __real_device_find(const char *name, const device **found);
status __wrap_device_find(const char *name, const device **found);
status __wrap_device_find(const char *name, const device **found) {
    if (strcmp(name, apart_device.name) != 0) return __real_device_find(name, found);
    *found = &apart_device;
    return STATUS_OK;
}

/* The same but for a few numbers, which have places of their own there (plan/scalars.h). */
static void assert_arenas(const outcome *here, const outcome *there) {
    enum { FEW = 8 };
    uint64_t a = here->pools[POOL_MEMORY].arena_bytes, b = there->pools[POOL_MEMORY].arena_bytes;
    assert_true(b >= a && b <= a + (uint64_t)FEW * LIVE_ALIGN);
}

/* Every pool is as large as planned, and what the host holds is what it holds on the CPU, beside staging. */
static void trains_with_the_bits_of_the_cpu(void **state) {
    (void)state;
    outcome here = { 0 }, there = { 0 };
    setup_options o = usual("here"), p = usual("there");
    on_device_run(&o, NULL, &here);
    apart_seen = (apart_counts){ 0 };
    on_device_run(&p, &apart_device, &there);
    on_device_same(&here, &there, o.steps);
    on_device_same_file("here/model.safetensors", "there/model.safetensors");
    const plan_pool *memory = &there.pools[POOL_MEMORY], *host = &there.pools[POOL_HOST];
    assert_int_equal(apart_seen.most_bytes, memory->persistent_bytes + memory->arena_bytes);
    assert_int_equal(memory->runtime_bytes, APART_RESERVE);
    assert_arenas(&here, &there);
    assert_int_equal(memory->persistent_bytes + host->persistent_bytes,
                     here.pools[POOL_MEMORY].persistent_bytes + there.staging_bytes);
    assert_true(host->runtime_bytes > 0 && there.staging_bytes > 0);
    assert_int_equal(here.pools[POOL_HOST].persistent_bytes + here.pools[POOL_HOST].runtime_bytes, 0);
    /* one wait a step, of two calls; after steps 2 and 4 five samples in two calls */
    assert_int_equal(apart_seen.runs, 4 + 2 * 2);
    assert_true(apart_seen.put_bytes > 0 && apart_seen.got_bytes > 0);
}

/* A checkpoint that one device has saved goes on on the other. */
static void checkpoints_know_no_device(void **state) {
    (void)state;
    for (int first = 0; first < 2; first++) {
        outcome a = { 0 }, b = { 0 };
        setup_options o = usual(first ? "from-apart" : "from-cpu");
        o.steps = 2;
        on_device_run(&o, first ? &apart_device : NULL, &a);
        o.steps = 4;
        o.resume = true;
        on_device_run(&o, first ? NULL : &apart_device, &b);
        char path[64];
        snprintf(path, sizeof path, "%s/model.safetensors", o.out);
        on_device_same_file("here/model.safetensors", path);
    }
}

static void evaluates(void **state) {
    (void)state;
    double losses[2];
    for (int k = 0; k < 2; k++) {
        setup s;
        decision d = { 0 };
        evaluate_result r;
        setup_options o = usual(NULL);
        o.model = "here", o.eval_only = true;
        on_device_setup(k ? &apart_device : NULL, &o, &s);
        assert_int_equal(decision_make(&s, &d), STATUS_OK);
        if (evaluate_run(&s, &d, NULL, &r) != STATUS_OK) fail_msg("%s", status_message());
        losses[k] = r.loss;
        decision_close(&d);
        setup_close(&s);
    }
    assert_memory_equal(&losses[0], &losses[1], sizeof *losses);
}

/* A budget is the device's: plans are made in the host's memory, and what the process takes is no part of it.
 * So least budgets are far below those of a CPU, where the program itself takes 12 MiB; and the same plan is
 * run. */
static void budgets_are_of_the_device(void **state) {
    (void)state;
    uint64_t least[2];
    for (int k = 0; k < 2; k++) {
        setup s;
        decision d = { 0 };
        setup_options o = usual(NULL);
        o.model = "config.json", o.micro_batch = 0; /* small: making its plan takes more than running it */
        on_device_setup(k ? &apart_device : NULL, &o, &s);
        assert_int_equal(decision_make(&s, &d), STATUS_OK);
        least[k] = search_least(&d.front);
        search_front all; /* of which nothing was given up on the way */
        assert_int_equal(search_run(&s.request, NULL, &all), STATUS_OK);
        assert_int_equal(search_least(&all), least[k]);
        search_close(&all);
        decision_close(&d);
        s.budget = least[k];
        s.request.run.memory = k ? 0 : least[k];
        assert_int_equal(decision_make(&s, &d), STATUS_OK);
        assert_true(d.plan.peak_bytes <= least[k]);
        assert_int_equal(plan_taken(&d.plan, POOL_MEMORY), d.plan.peak_bytes);
        decision_close(&d);
        s.budget = least[k] - 64;
        if (k) assert_int_equal(decision_make(&s, &d), STATUS_NO_FIT);
        decision_close(&d);
        setup_close(&s);
    }
    assert_true(least[1] + (12u << 20) <= least[0] + APART_RESERVE);
}

/* Graphs of many blocks are larger than the values of a small batch: a plan is made in the host's memory, and
 * a budget of the device's limits it no more when it is the least one. */
static void making_a_plan_takes_nothing_of_the_budget(void **state) {
    (void)state;
    setup s;
    decision d = { 0 };
    setup_options o = usual(NULL);
    o.model = "deep.json", o.batch = 1, o.micro_batch = 0, o.allow = "all";
    on_device_setup(&apart_device, &o, &s);
    assert_int_equal(decision_make(&s, &d), STATUS_OK);
    uint64_t least = search_least(&d.front);
    decision_close(&d);
    s.budget = least;
    assert_int_equal(decision_make(&s, &d), STATUS_OK);
    assert_int_equal(d.plan.peak_bytes, least);
    decision_close(&d);
    setup_close(&s);
}

/* A weight that is not finite spoils the loss: both devices name the same kernel. */
static void faults_are_found(void **state) {
    (void)state;
    char said[2][1024];
    for (int k = 0; k < 2; k++) {
        setup_options o = usual(NULL);
        o.learning_rate = 1e30, o.optimizer.clip = 0;
        on_device_fail(&o, k ? &apart_device : NULL, said[k]);
    }
    assert_string_equal(said[0], said[1]);
    assert_non_null(strstr(said[0], "made it first"));
}

/* The loss of a rehearsal, after inputs that hold these tokens. */
static double rehearse(runner *r, int32_t token) {
    double loss;
    int32_t tokens[256];
    for (int i = 0; i < 256; i++) tokens[i] = token;
    for (uint32_t k = 0; k < r->plan->program_count; k++) {
        const exec_value *field = &r->programs[k].field[0];
        assert_true(field->bytes <= sizeof tokens);
        if (r->plan->programs[k].program.shape.task == TASK_EVALUATE)
            assert_int_equal(exec_write(r->exec, field, 0, tokens, field->bytes), STATUS_OK);
    }
    assert_int_equal(exec_write_number(r->exec, &r->total, 0), STATUS_OK);
    assert_int_equal(runner_rehearse_validation(r), STATUS_OK);
    assert_int_equal(exec_read_number(r->exec, &r->total, &loss), STATUS_OK);
    return loss;
}

/* Whatever was in its inputs, a rehearsal of validation is on zeros: there may be numbers that are no tokens.
 */
static void rehearsals_are_on_zeros(void **state) {
    (void)state;
    double losses[2][2];
    for (int k = 0; k < 2; k++) {
        setup s;
        decision d;
        exec *e;
        runner r;
        setup_options o = usual(NULL);
        on_device_setup(k ? &apart_device : NULL, &o, &s);
        assert_int_equal(decision_make(&s, &d), STATUS_OK);
        assert_int_equal(exec_open(&d.plan, 0, &e), STATUS_OK);
        assert_int_equal(weights_initialise(e, &s.model, 7), STATUS_OK);
        assert_int_equal(runner_open(&r, e, &d.plan, &s.model, s.request.run.context, 7), STATUS_OK);
        for (int i = 0; i < 2; i++) losses[k][i] = rehearse(&r, 3 + 2 * i);
        assert_true(losses[k][0] > 0 && losses[k][0] == losses[k][1]);
        runner_close(&r);
        exec_close(e);
        decision_close(&d);
        setup_close(&s);
    }
    assert_true(losses[0][0] == losses[1][0]);
}

/* Of the same choice on both: each pool is as large as planned, and they add up to the same bytes. */
static void assert_pools(const outcome *here, const outcome *there) {
    const plan_pool *memory = &there->pools[POOL_MEMORY], *host = &there->pools[POOL_HOST];
    assert_int_equal(apart_seen.most_bytes, memory->persistent_bytes + memory->arena_bytes);
    assert_arenas(here, there);
    assert_int_equal(memory->persistent_bytes + host->persistent_bytes,
                     here->pools[POOL_MEMORY].persistent_bytes + here->pools[POOL_FILE].persistent_bytes +
                         there->staging_bytes);
    assert_int_equal(here->measured[POOL_FILE], here->pools[POOL_FILE].persistent_bytes);
    assert_int_equal(there->measured[POOL_HOST], units_align(host->persistent_bytes, 4096));
    assert_int_equal(there->pools[POOL_FILE].persistent_bytes + there->measured[POOL_FILE], 0);
}

/* What waits away is in a file beside a CPU, and in the host's memory beside a device apart, and the bits are
 * the same. Copies pass through slots whatever the lanes' pace is, and each pool is as large as planned. */
static void what_is_away_is_in_the_hosts_memory(void **state) {
    (void)state;
    static const char *const kinds[] = { "optimizer", "gradients", "activations",
                                         "optimizer+master+gradients+activations" };
    for (int k = 0; k < 4; k++) {
        outcome here = { 0 }, there = { 0 };
        setup_options o = usual("filed");
        o.overwrite = true, o.exact = k != 3, o.folder = ".", o.micro_batch = 6, o.steps = 2,
        o.save_every = 0;
        o.passes[on_device_pass("offload")] = kinds[k];
        if (k == 3) o.passes[on_device_pass("precision")] = "mixed-bf16";
        on_device_run(&o, NULL, &here);
        assert_true(here.pools[POOL_FILE].persistent_bytes > 0);
        assert_int_equal(here.measured[POOL_FILE], here.pools[POOL_FILE].persistent_bytes);
        for (int pace = APART_EAGER; pace <= APART_RANDOM; pace++) {
            apart_seen = (apart_counts){ 0 };
            apart_pace_now = (apart_pace)pace;
            o.out = "hosted", o.folder = NULL;
            on_device_pin(&here.choice, &o);
            on_device_run(&o, &apart_device, &there);
            on_device_same(&here, &there, o.steps);
            on_device_same_file("filed/model.safetensors", "hosted/model.safetensors");
            assert_pools(&here, &there);
            assert_true(apart_seen.copied_bytes > 0);
            if (pace != APART_RANDOM) assert_int_equal(apart_seen.waited, pace ? apart_seen.copies : 0);
        }
    }
    apart_pace_now = APART_EAGER;
}

/* ---- files behind the host's memory ---- */

static uint64_t host_taken(const outcome *x) {
    const plan_pool *host = &x->pools[POOL_HOST];
    return host->persistent_bytes + host->runtime_bytes;
}

/* The options of a run of which so many eighths of what waits in the host's memory have no room there.
 * `hosted`: the same run with all of it there. */
static setup_options with_files(const setup_options *o, const outcome *hosted, const outcome *here,
                                int eighths) {
    setup_options with = *o;
    uint64_t away = here->pools[POOL_FILE].persistent_bytes;
    with.folder = ".", with.out = "behind";
    with.away_limit = host_taken(hosted) - away * (uint64_t)eighths / 8;
    return with;
}

/* Bytes of each kind are as planned: what is filed has left the host's memory, but for slots. */
static void assert_filed(const outcome *here, const outcome *hosted, const outcome *filed, uint64_t limit) {
    const plan_pool *file = &filed->pools[POOL_FILE], *host = &filed->pools[POOL_HOST];
    assert_true(file->persistent_bytes > 0);
    assert_int_equal(filed->measured[POOL_FILE], file->persistent_bytes);
    assert_int_equal(filed->measured[POOL_HOST], units_align(host->persistent_bytes, 4096));
    assert_true(host_taken(filed) <= limit && host_taken(filed) < host_taken(hosted));
    assert_int_equal(filed->pools[POOL_MEMORY].persistent_bytes, hosted->pools[POOL_MEMORY].persistent_bytes);
    assert_int_equal(filed->pools[POOL_MEMORY].arena_bytes, hosted->pools[POOL_MEMORY].arena_bytes);
    assert_true(file->persistent_bytes <= here->pools[POOL_FILE].persistent_bytes);
    assert_true(file->persistent_bytes + host->persistent_bytes > hosted->pools[POOL_HOST].persistent_bytes);
}

/* What the host's memory has no room for is in a file, and passes from one to the other beside computing: at
 * every pace of the lanes, and for a part of what is away and for nearly all of it, the bits are the CPU's.
 */
static void a_file_is_behind_the_hosts_memory(void **state) {
    (void)state;
    static const struct {
        const char *kinds;
        int64_t micro_batch;
    } runs[] = { { "optimizer", 6 },
                 { "optimizer+gradients", 4 },
                 { "optimizer+master+gradients+activations", 6 } };
    for (size_t k = SANITIZED ? 2 : 0; k < sizeof runs / sizeof *runs; k++) {
        outcome here = { 0 }, hosted = { 0 }, filed = { 0 };
        setup_options o = usual("filed");
        o.overwrite = true, o.exact = k == 0, o.folder = ".", o.steps = 3;
        o.micro_batch = runs[k].micro_batch;
        o.passes[on_device_pass("offload")] = runs[k].kinds;
        if (k == 2) o.passes[on_device_pass("precision")] = "mixed-bf16";
        on_device_run(&o, NULL, &here);
        on_device_pin(&here.choice, &o);
        o.folder = NULL, o.out = "hosted";
        on_device_run(&o, &apart_device, &hosted);
        for (int pace = APART_EAGER; pace <= APART_RANDOM; pace++)
            for (int eighths = 1; eighths <= 5; eighths += 2) {
                setup_options with = with_files(&o, &hosted, &here, eighths);
                apart_pace_now = (apart_pace)pace;
                on_device_run(&with, &apart_device, &filed);
                on_device_same(&here, &filed, o.steps);
                on_device_same_file("filed/model.safetensors", "behind/model.safetensors");
                on_device_same_file("filed/checkpoint-2/optimizer.safetensors",
                                    "behind/checkpoint-2/optimizer.safetensors");
                assert_filed(&here, &hosted, &filed, with.away_limit);
            }
    }
    apart_pace_now = APART_EAGER;
}

/* Of two limits the larger one never files more, never has less in the host's memory, and is never slower. */
static void more_room_never_files_more(void **state) {
    (void)state;
    setup s;
    decision d = { 0 };
    setup_options o = usual(NULL);
    o.passes[on_device_pass("offload")] = "optimizer+gradients+activations", o.micro_batch = 2;
    o.passes[on_device_pass("recompute")] = "off";
    on_device_setup(&apart_device, &o, &s);
    assert_int_equal(decision_make(&s, &d), STATUS_OK);
    uint64_t most = plan_taken(&d.plan, POOL_HOST), before = UINT64_MAX, refused = 0, filed = 0;
    double seconds = HUGE_VAL, hosted = d.point.seconds;
    decision_close(&d);
    s.request.run.folder = ".";
    for (int k = 0; k <= 40; k++) {
        s.request.run.away_limit = most - (most >> 8) * (uint64_t)(40 - k);
        plan p;
        compose_choice c = d.point.choice;
        if (compose_plan(&s.request.run, &c, &p) != STATUS_OK) {
            assert_true(before == UINT64_MAX); /* the others have more room */
            refused++;
            continue;
        }
        assert_true(plan_taken(&p, POOL_HOST) <= s.request.run.away_limit);
        assert_true(plan_file_bytes(&p) <= before && compose_seconds(&s.request.run, &p) <= seconds);
        assert_int_equal(p.ring > 0, plan_file_bytes(&p) > 0);
        filed += p.ring > 0;
        before = plan_file_bytes(&p), seconds = compose_seconds(&s.request.run, &p);
        plan_close(&p);
    }
    assert_true(before == 0 && seconds == hosted);
    /* With the sanitizers' part of the host's memory the steps are too large for that. */
    assert_true(SANITIZED || (refused < 30 && filed > 5));
    setup_close(&s);
}

/* A limit with a folder behind it leaves no choice out: every point of the front without a limit is there,
 * and none is faster. */
static void a_folder_takes_what_a_limit_leaves_out(void **state) {
    (void)state;
    setup s;
    search_front all, limited, some;
    setup_options o = usual(NULL);
    o.batch = o.micro_batch = 32, o.context = 128;
    on_device_setup(&apart_device, &o, &s);
    assert_int_equal(search_run(&s.request, NULL, &all), STATUS_OK);
    uint64_t most = 0, least = UINT64_MAX;
    for (uint32_t i = 0; i < all.count; i++) {
        if (all.points[i].away_bytes > most) most = all.points[i].away_bytes;
        if (all.points[i].away_bytes < least) least = all.points[i].away_bytes;
    }
    s.request.run.away_limit = least + (most - least) / 2;
    assert_int_equal(search_run(&s.request, NULL, &limited), STATUS_OK);
    s.request.run.folder = ".";
    assert_int_equal(search_run(&s.request, NULL, &some), STATUS_OK);
    assert_true(search_least(&some) < search_least(&limited));
    assert_int_equal(search_least(&some), search_least(&all));
    for (uint32_t i = 0; i < some.count; i++) {
        const search_point *x = search_pick(&all, some.points[i].peak_bytes),
                           *y = search_pick(&limited, some.points[i].peak_bytes);
        assert_true(some.points[i].away_bytes <= s.request.run.away_limit);
        assert_true(x && some.points[i].seconds >= x->seconds);
        assert_true(!y || some.points[i].seconds <= y->seconds);
    }
    search_close(&all);
    search_close(&limited);
    search_close(&some);
    setup_close(&s);
}

/* ---- a disk that fails ---- */

static atomic_long file_calls, file_fails_at = -1;
static int no_room;

ssize_t __real_pread(int file, void *data, size_t bytes, off_t at);
ssize_t __wrap_pread(int file, void *data, size_t bytes, off_t at);
ssize_t __real_pwrite(int file, const void *data, size_t bytes, off_t at);
ssize_t __wrap_pwrite(int file, const void *data, size_t bytes, off_t at);
int __real_posix_fallocate(int file, off_t at, off_t bytes);
int __wrap_posix_fallocate(int file, off_t at, off_t bytes);

/* Only files without a name count: those that something is moved to. */
static bool fails(int file) {
    struct stat is;
    if (fstat(file, &is) != 0 || is.st_nlink || file_calls++ != file_fails_at) return false;
    errno = EIO;
    return true;
}

ssize_t __wrap_pread(int file, void *data, size_t bytes, off_t at) {
    return fails(file) ? -1 : __real_pread(file, data, bytes, at);
}

ssize_t __wrap_pwrite(int file, const void *data, size_t bytes, off_t at) {
    return fails(file) ? -1 : __real_pwrite(file, data, bytes, at);
}

int __wrap_posix_fallocate(int file, off_t at, off_t bytes) {
    return no_room ? ENOSPC : __real_posix_fallocate(file, at, bytes);
}

/* The file can't be read or written at some call: the run ends with a sentence, never hangs, leaves whole
 * checkpoints, and goes on from the last one. A disk without room is refused before anything is computed. */
static void a_disk_that_fails_behind_it(void **state) {
    (void)state;
    outcome here = { 0 }, hosted = { 0 }, filed = { 0 };
    setup_options o = usual("filed");
    char said[1024];
    o.overwrite = true, o.folder = ".", o.micro_batch = 6;
    o.passes[on_device_pass("offload")] = "optimizer+gradients";
    on_device_run(&o, NULL, &here);
    on_device_pin(&here.choice, &o);
    o.folder = NULL, o.out = "hosted";
    on_device_run(&o, &apart_device, &hosted);
    setup_options with = with_files(&o, &hosted, &here, 4);
    file_calls = 0;
    on_device_run(&with, &apart_device, &filed);
    long calls = file_calls;
    assert_true(calls > 20);
    apart_pace_now = APART_RANDOM;
    for (int k = 0; k < (SANITIZED ? 2 : 6); k++) {
        setup_options again = with;
        file_calls = 0;
        file_fails_at = k * calls / 6 + k;
        on_device_fail(&again, &apart_device, said);
        if (!strstr(said, "moved out of memory")) fail_msg("%s", said);
        file_fails_at = -1;
        again.resume = true, again.overwrite = false;
        struct stat is;
        if (stat("behind/checkpoint-2", &is) != 0) continue;
        on_device_run(&again, &apart_device, &filed);
        on_device_same_file("filed/model.safetensors", "behind/model.safetensors");
    }
    apart_pace_now = APART_EAGER;
    no_room = 1;
    on_device_refused(&with, &apart_device, said);
    assert_non_null(strstr(said, "free some space"));
    no_room = 0;
}

/* Points of the front of a device apart run on both. */
static void points_of_the_front_run_on_both(void **state) {
    (void)state;
    enum { MOST = SANITIZED ? 4 : 16 };
    setup s;
    search_front front;
    setup_options o = usual("point-here"), there_options;
    o.batch = 8, o.micro_batch = 0, o.context = 64, o.steps = 1, o.save_every = 0, o.eval_every = 0;
    o.overwrite = true, o.allow = "all";
    on_device_setup(&apart_device, &o, &s);
    assert_int_equal(search_run(&s.request, NULL, &front), STATUS_OK);
    uint32_t away = 0, every = front.count / MOST + 1;
    for (uint32_t i = 0; i < front.count; i += every) {
        outcome here = { 0 }, there = { 0 };
        on_device_pin(&front.points[i].choice, &o);
        o.folder = ".", o.out = "point-here";
        there_options = o;
        there_options.folder = NULL, there_options.out = "point-there";
        on_device_run(&o, NULL, &here);
        apart_seen = (apart_counts){ 0 };
        apart_pace_now = (apart_pace)(i % 3);
        on_device_run(&there_options, &apart_device, &there);
        on_device_same(&here, &there, o.steps);
        on_device_same_file("point-here/model.safetensors", "point-there/model.safetensors");
        assert_pools(&here, &there);
        away += here.pools[POOL_FILE].persistent_bytes > 0;
    }
    assert_true(away >= 1); /* the leanest at least; of the others this machine's rates decide */
    apart_pace_now = APART_EAGER;
    search_close(&front);
    setup_close(&s);
}

/* Of candidates that are within a budget only those count which leave no more away than may be. */
static void what_may_be_away_is_limited(void **state) {
    (void)state;
    for (int k = 0; k < 2; k++) {
        setup s;
        search_front all, some;
        setup_options o = usual(NULL);
        o.folder = k ? NULL : ".", o.batch = o.micro_batch = 32, o.context = 128;
        on_device_setup(k ? &apart_device : NULL, &o, &s);
        assert_int_equal(search_run(&s.request, NULL, &all), STATUS_OK);
        uint64_t most = 0, least = UINT64_MAX;
        for (uint32_t i = 0; i < all.count; i++) {
            if (all.points[i].away_bytes > most) most = all.points[i].away_bytes;
            if (all.points[i].away_bytes < least) least = all.points[i].away_bytes;
        }
        assert_true(most > least);
        assert_int_equal(all.points[0].away_bytes, most); /* the leanest point has most away */
        s.request.run.away_limit = most;
        assert_int_equal(search_run(&s.request, NULL, &some), STATUS_OK);
        assert_int_equal(search_least(&some), search_least(&all));
        search_close(&some);
        s.request.run.away_limit = least + (most - least) / 2;
        assert_int_equal(search_run(&s.request, NULL, &some), STATUS_OK);
        assert_true(search_least(&some) > search_least(&all));
        for (uint32_t i = 0; i < some.count; i++) {
            plan p;
            assert_true(some.points[i].away_bytes <= s.request.run.away_limit);
            assert_int_equal(compose_plan(&s.request.run, &some.points[i].choice, &p), STATUS_OK);
            assert_int_equal(plan_away_bytes(&p), some.points[i].away_bytes);
            plan_close(&p);
        }
        search_close(&some);
        plan p;
        assert_int_equal(compose_plan(&s.request.run, &all.points[0].choice, &p), STATUS_INVALID);
        assert_non_null(strstr(status_message(), "--offload-limit"));
        search_close(&all);
        setup_close(&s);
    }
}

/* ---- what the device says of itself ---- */

/* Its rates predict: a plan's seconds are those of its table, whatever the processor's are. */
static void its_own_rates_predict(void **state) {
    (void)state;
    setup here, there;
    decision near = { 0 }, far = { 0 };
    setup_options o = usual(NULL);
    o.rates = RATES_AUTO; /* nothing is measured of it */
    on_device_setup(&apart_device, &o, &there);
    o.rates = RATES_BUILT_IN;
    on_device_setup(NULL, &o, &here);
    assert_string_equal(there.request.run.lower.rates.source, "table of a stand-in");
    assert_int_equal(decision_make(&here, &near), STATUS_OK);
    assert_int_equal(decision_make(&there, &far), STATUS_OK);
    assert_true(far.point.seconds > 1.3 * near.point.seconds);
    decision_close(&near);
    decision_close(&far);
    setup_close(&here);
    setup_close(&there);
}

static status start_on_it(const setup_options *o) {
    setup s;
    decision d = { 0 };
    resume from;
    train_result r = { 0 };
    train_observer silent = { 0 };
    on_device_setup(&apart_device, o, &s);
    status result = resume_find(&s, &from);
    if (result == STATUS_OK) result = resume_decide(&s, &from, &d);
    if (result == STATUS_OK) result = room_check(&s, &d, &from);
    if (result == STATUS_OK) result = train_run(&s, &d, &from, &silent, &r);
    train_result_close(&r);
    resume_close(&from);
    decision_close(&d);
    setup_close(&s);
    return result;
}

/* What the process takes of it beside pools is in every plan, and compared before the first step; what is
 * free there, and not in the host's memory, decides whether a run may start, and what `--memory auto` is. */
static void its_memory_is_its_own(void **state) {
    (void)state;
    setup_options o = usual(NULL);
    uint64_t free = apart_free, usually = apart_beside;
    apart_beside = APART_RESERVE + 1;
    assert_int_equal(start_on_it(&o), STATUS_NO_FIT);
    assert_non_null(strstr(status_message(), "of a stand-in's memory before it begins"));
    apart_beside = APART_RESERVE;
    assert_int_equal(start_on_it(&o), STATUS_OK);

    setup s;
    decision d = { 0 };
    apart_free = 200u << 20;
    o.memory_auto = true;
    on_device_setup(&apart_device, &o, &s);
    assert_int_equal(s.margin, 128u << 20);
    assert_int_equal(s.budget,
                     (200u << 20) + apart_beside - s.margin); /* a plan counts what it has already */
    assert_int_equal(decision_make(&s, &d), STATUS_OK);
    uint64_t needed = d.plan.peak_bytes - apart_beside; /* which it has already */
    decision_close(&d);
    setup_close(&s);
    o.memory_auto = false;
    apart_free = needed;
    assert_int_equal(start_on_it(&o), STATUS_OK);
    apart_free = needed - 1;
    assert_int_equal(start_on_it(&o), STATUS_NO_FIT);
    assert_non_null(strstr(status_message(), "a stand-in has "));
    apart_free = free, apart_beside = usually;
}

/* What is away from it waits in the host's memory: it needs no folder, and the limit is of that memory. A
 * folder is for the rest. */
static void options_of_what_is_away(void **state) {
    (void)state;
    setup s;
    setup_options o = usual(NULL);
    o.away_limit = 1u << 20;
    assert_int_equal(setup_open(&o, NULL, &s), STATUS_INVALID);
    setup_close(&s);
    on_device_setup(&apart_device, &o, &s);
    assert_int_equal(s.request.run.away_limit, 1u << 20);
    setup_close(&s);
    o.folder = "host";
    on_device_setup(&apart_device, &o, &s);
    assert_null(s.request.run.folder);
    setup_close(&s);
    o.folder = ".", o.away_limit = 0; /* then as much as there is */
    on_device_setup(&apart_device, &o, &s);
    assert_string_equal(s.request.run.folder, ".");
    assert_true(s.request.run.away_limit > 0 && s.request.run.away_limit < device_memory());
    setup_close(&s);
    o.folder = "nowhere", o.device = apart_device.name;
    assert_int_equal(setup_open(&o, NULL, &s), STATUS_INVALID);
    assert_non_null(strstr(status_message(), "name a folder on a disk"));
    setup_close(&s);
}

static int open_all(void **state) {
    int result = scratch_open(state);
    write_files();
    return result;
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(trains_with_the_bits_of_the_cpu),
        cmocka_unit_test(checkpoints_know_no_device),
        cmocka_unit_test(evaluates),
        cmocka_unit_test(budgets_are_of_the_device),
        cmocka_unit_test(making_a_plan_takes_nothing_of_the_budget),
        cmocka_unit_test(faults_are_found),
        cmocka_unit_test(rehearsals_are_on_zeros),
        cmocka_unit_test(what_is_away_is_in_the_hosts_memory),
        cmocka_unit_test(a_file_is_behind_the_hosts_memory),
        cmocka_unit_test(more_room_never_files_more),
        cmocka_unit_test(a_folder_takes_what_a_limit_leaves_out),
        cmocka_unit_test(a_disk_that_fails_behind_it),
        cmocka_unit_test(points_of_the_front_run_on_both),
        cmocka_unit_test(what_may_be_away_is_limited),
        cmocka_unit_test(its_own_rates_predict),
        cmocka_unit_test(its_memory_is_its_own),
        cmocka_unit_test(options_of_what_is_away),
    };
    return cmocka_run_group_tests_name("a device apart", tests, open_all, scratch_close);
}
