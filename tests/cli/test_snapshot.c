/* snug snapshot, as a user calls it: recordings of a GPU beside another reader of them, and what is none. */
#define _GNU_SOURCE
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <stdio.h>
#include <string.h>

#include "base/text.h"
#include "cli/command.h"
#include "io/scratch.h"

#define RECORDED SNUG_ROOT "/bench/snapshots/"

static const char *const recorded[] = { "autocast", "checkpointing", "compile", "expandable", "fsdp",
                                        "lora",     "oom",           "plain",   "streams",    "trainer" };
enum { RECORDINGS = sizeof recorded / sizeof *recorded };

/* Python's own unpickler and a replay of the events in Python. */
static void another_reader_says_the_same(void **state) {
    (void)state;
    if (system("python3 -c 'import pickle' 2>/dev/null") != 0) {
        print_message("skipped: there is no python3 here\n");
        skip();
    }
    for (int i = 0; i < RECORDINGS; i++)
        command_shell("python3 '%s/tests/snapshot/replay.py' '%s/snug' '%s%s.pickle.gz'", SNUG_ROOT,
                      SNUG_BUILD, RECORDED, recorded[i]);
    for (int i = 0; i < 6; i++)
        if (i != 2) /* without times, and with a history in place of a size, which the other takes for it */
            command_shell("python3 '%s/tests/snapshot/replay.py' '%s/snug' "
                          "'%s/tests/fuzz/corpus/snapshot/made-%d'",
                          SNUG_ROOT, SNUG_BUILD, SNUG_ROOT, i);
}

/* The profiler's own files of real steps, as they are, and without calls of Python that enclose nothing. */
static void another_reader_of_traces_says_the_same(void **state) {
    (void)state;
    if (system("python3 -c 'import json' 2>/dev/null") != 0) skip();
    command_shell(
        "cd '%s/tests/snapshot/recorded' && python3 ../replay_traces.py '%s/snug' traced.trace.json.gz "
        "operators.trace.json.gz traced.timeline.json.gz traced.timeline.raw.json.gz",
        SNUG_ROOT, SNUG_BUILD);
}

/* Each allocation of a recording gets a name: lines are as they were, and blocks are found all the same. */
static void blocks_that_are_named_are_blocks(void **state) {
    (void)state;
    if (system("python3 -c 'import pickle' 2>/dev/null") != 0) skip();
    command_shell("python3 -c \"import gzip, pickle\n"
                  "s = pickle.load(gzip.open('%s/tests/snapshot/recorded/first.pickle.gz'))\n"
                  "for i, e in enumerate(s['device_traces'][0]): e['user_metadata'] = 'h.%%d.mlp' %% i\n"
                  "pickle.dump(s, open('named.pickle', 'wb'))\"",
                  SNUG_ROOT);
    command_result plain = command_run("snapshot " SNUG_ROOT "/tests/snapshot/recorded/first.pickle.gz");
    command_result named = command_run("snapshot named.pickle");
    static const char *const begins[] = { "Activations: 4 blocks of", "  gradient checkpointing",
                                          "What would help" };
    for (int i = 0; i < 3; i++) {
        const char *x = strstr(plain.out, begins[i]), *y = strstr(named.out, begins[i]);
        assert_true(x && y && strncmp(x, y, strcspn(x, "\n")) == 0);
    }
    assert_non_null(strstr(named.out, ".mlp and others"));
    command_free(&plain), command_free(&named);
    assert_true(command_says("snapshot named.pickle --each", 0, ", in h."));
    command_result r = command_run("snapshot named.pickle --each --anonymous");
    assert_null(strstr(r.out, ".mlp"));
    assert_non_null(strstr(r.out, ", in said-"));
    command_free(&r);
}

/* Rare schemas and what is none, pickled by Python in each protocol. */
static void unusual_schemas_are_read(void **state) {
    (void)state;
    if (system("python3 -c 'import pickle' 2>/dev/null") != 0) skip();
    command_shell("python3 '%s/tests/snapshot/schemas.py' '%s/snug'", SNUG_ROOT, SNUG_BUILD);
    assert_true(command_says("snapshot lost-4.pickle", 0, "No allocation has frames, so little can be told"));
    assert_true(command_says("snapshot lost-4.pickle", 0, "1 allocations begin where another one is"));
    assert_true(command_says("snapshot still-4.pickle", 0, "no events were recorded"));
    /* The host has one event, the device has three. */
    assert_true(command_says("snapshot shorter-4.pickle --at 2", 0,
                             "Pinned memory of the host has 1 events and is not shown"));
    assert_true(command_says("snapshot shorter-4.pickle --at 2", 0, "Device 0: 30 B are in use"));
    assert_true(command_says("snapshot shorter-4.pickle --at 4", 2, "--at 4: device 0 has 3 events"));
    assert_true(
        command_says("snapshot host-4.pickle", 0, "Pinned memory of the host: the peak is 77 B in use"));
}

/* Tensors of a GPU whose roles were written down by address when they were recorded. */
static void what_allocations_are_is_told_as_it_was(void **state) {
    (void)state;
    char line[1024] = "";
    if (system("python3 -c 'import pickle' 2>/dev/null") != 0) skip();
    for (int i = 0; i < RECORDINGS; i++) {
        strcat(line, " ");
        strcat(line, recorded[i]);
    }
    command_shell("python3 '%s/tests/snapshot/truth.py' '%s/snug' '%s'%s >judged", SNUG_ROOT, SNUG_BUILD,
                  RECORDED, line);
    /* The same of a CPU, with frames of C++; what leaks there has no role, and is unknown. */
    command_shell("python3 '%s/tests/snapshot/truth.py' '%s/snug' '%s/tests/snapshot/recorded' plain first "
                  "checkpointing half single update fused traced.trace >judged",
                  SNUG_ROOT, SNUG_BUILD, SNUG_ROOT);
}

static void peaks_have_a_phase_and_blocks(void **state) {
    (void)state;
    json_document d = command_json("snapshot " RECORDED "plain.pickle.gz --json --quiet");
    json_value devices;
    assert_int_equal(json_get(d.root, "devices", &devices), STATUS_OK);
    json_document one = { .root = json_item(devices, 0) };
    assert_int_equal(command_number(&one, "peak.bytes"), 75279880);
    assert_int_equal(command_number(&one, "peak.step"), 2);
    assert_string_equal(command_string(&one, "peak.phase"), "backward");
    assert_int_equal(command_number(&one, "updates"), 2);
    assert_int_equal(command_number(&one, "blocks"), 2);
    assert_int_equal(command_number(&one, "peak.by_category.weights"), 547840);
    assert_int_equal(command_number(&one, "peak.by_category.optimizer"), 2 * 547840);
    assert_int_equal(command_number(&one, "peak.by_category.workspaces"), 65 << 20);
    assert_int_equal(command_number(&one, "peak.by_category.unknown"), 0);
    json_close(&d);
    assert_true(command_says("snapshot " RECORDED "plain.pickle.gz", 0, "in the backward of step 2"));
    assert_true(command_says("snapshot " RECORDED "plain.pickle.gz --at 0", 0,
                             "0 B are in use, before the first step"));
    assert_true(command_says("snapshot " RECORDED "plain.pickle.gz --at 1384", 2,
                             "--at 1384: device 0 has 1383 events"));
}

/* Segments to the byte, and torch.cuda.max_memory_allocated() as it was said when they were recorded. */
static void the_twin_makes_what_was_recorded(void **state) {
    (void)state;
    for (int i = 0; i < RECORDINGS; i++) {
        char line[256], path[256];
        json_document truth;
        snprintf(line, sizeof line, "snapshot " RECORDED "%s.pickle.gz --json --quiet", recorded[i]);
        snprintf(path, sizeof path, RECORDED "%s.json", recorded[i]);
        json_document d = command_json(line);
        json_value devices;
        assert_int_equal(json_get(d.root, "devices", &devices), STATUS_OK);
        json_document one = { .root = json_item(devices, 0) };
        if (json_open(path, &truth) != STATUS_OK) fail_msg("%s", status_message());
        uint64_t turns = command_number(&one, "twin.turns");
        assert_true(turns >= 5);
        assert_int_equal(command_number(&one, "twin.equal"), turns);
        assert_int_equal(command_number(&one, "twin.differs_at"), 0);
        assert_int_equal(command_number(&one, "twin.taken_peak_bytes"),
                         command_number(&truth, "max_allocated_bytes"));
        assert_int_equal(command_number(&one, "reserved.most_bytes"),
                         command_number(&truth, "max_reserved_bytes"));
        assert_int_equal(command_number(&one, "reserved.bytes"), command_number(&one, "twin.reserved_bytes"));
        json_close(&truth);
        json_close(&d);
    }
}

/* The same recordings without their beginnings: what is in use then is where the twin begins. */
static void the_twin_begins_with_what_is_in_use(void **state) {
    (void)state;
    text line = { 0 };
    if (system("python3 -c 'import pickle' 2>/dev/null") != 0) skip();
    for (int i = 0; i < RECORDINGS; i++) text_add(&line, " '" RECORDED "%s.pickle.gz'", recorded[i]);
    command_shell("python3 '%s/tests/snapshot/cut.py' '%s/snug'%s >cut", SNUG_ROOT, SNUG_BUILD, line.data);
    text_close(&line);
}

/* Of an allocator that was written anew: max_split_size_mb, private pools, a device that becomes full. */
static void the_twin_makes_what_another_allocator_makes(void **state) {
    (void)state;
    if (system("python3 -c 'import pickle' 2>/dev/null") != 0) skip();
    command_shell("python3 '%s/tests/snapshot/allocator.py' '%s/snug' >made", SNUG_ROOT, SNUG_BUILD);
}

/* What the recorded loop keeps of each step: 16 of 64 places of the logits, 4 x 16 x 512 numbers. */
static void what_grows_is_found_with_its_line(void **state) {
    (void)state;
    static const char leak[] = "snapshot " SNUG_ROOT "/tests/snapshot/recorded/leak.pickle.gz";
    char line[512];
    snprintf(line, sizeof line, "%s --json --quiet --memory 19MiB", leak);
    json_document d = command_json(line);
    json_value devices;
    assert_int_equal(json_get(d.root, "devices", &devices), STATUS_OK);
    json_document one = { .root = json_item(devices, 0) };
    assert_int_equal(command_number(&one, "growth.bytes_a_step"), 4 * 16 * 512 * 4);
    assert_int_equal(command_number(&one, "growth.steps_left"), 0);
    json_close(&d);
    assert_true(command_says(leak, 0, "What is in use between steps grows by 128.0 KiB a step"));
    assert_true(command_says(leak, 0, "record_cpu_snapshots.py:"));
    snprintf(line, sizeof line, "%s --memory 1GiB", leak);
    assert_true(command_says(line, 0, "1024.0 MiB are full in 8035 steps more"));
    static const char *const even[] = { "plain", "checkpointing", "half", "single" };
    for (int i = 0; i < 4; i++) {
        snprintf(line, sizeof line,
                 "snapshot " SNUG_ROOT "/tests/snapshot/recorded/%s.pickle.gz --quiet --json", even[i]);
        d = command_json(line);
        assert_int_equal(json_get(d.root, "devices", &devices), STATUS_OK);
        one = (json_document){ .root = json_item(devices, 0) };
        assert_int_equal(command_number(&one, "growth.bytes_a_step"), 0);
        assert_int_equal(command_number(&one, "updates"), 3);
        if (i != 1) assert_int_equal(command_number(&one, "blocks"), 4);
        json_close(&d);
    }
}

static uint64_t of_recorded_at(const char *name, const char *options, const char *path) {
    char line[256];
    snprintf(line, sizeof line,
             "snapshot " SNUG_ROOT "/tests/snapshot/recorded/%s.pickle.gz --quiet --json%s", name, options);
    json_document d = command_json(line);
    json_value devices;
    assert_int_equal(json_get(d.root, "devices", &devices), STATUS_OK);
    json_document one = { .root = json_item(devices, 0) };
    uint64_t number = command_number(&one, path);
    json_close(&d);
    return number;
}

static uint64_t of_recorded(const char *name, const char *path) { return of_recorded_at(name, "", path); }

/* Beside recordings of the same steps with the remedy, and of a second step. */
static void what_is_promised_is_what_is_recorded(void **state) {
    (void)state;
    uint64_t plain = of_recorded("plain", "peak.bytes");
    assert_int_equal(of_recorded("plain", "remedies.peak_bytes"), plain);
    assert_int_equal(of_recorded("plain", "remedies.second_step_bytes"), 0);
    assert_true(of_recorded("first", "peak.bytes") < plain);
    assert_int_equal(of_recorded("first", "remedies.second_step_bytes"), plain);
    assert_int_equal(of_recorded("first", "remedies.peak_bytes"), plain);
    static const char *const before[] = { "plain", "first" };
    for (int i = 0; i < 2; i++) {
        uint64_t half = of_recorded(before[i], "remedies.with.half-batch.peak_bytes"),
                 kept = of_recorded(before[i], "remedies.with.checkpointing.peak_bytes"),
                 with = of_recorded("checkpointing", "peak.bytes");
        assert_int_equal(half, of_recorded("half", "peak.bytes"));
        assert_true(kept < with + plain * 3 / 100 && with < kept + plain * 3 / 100);
        assert_int_equal(of_recorded(before[i], "remedies.with.checkpointing.saves_bytes"), plain - kept);
    }
    /* Where it peaks in the update checkpointing saves nothing, and is said to. */
    assert_int_equal(of_recorded("update", "remedies.with.checkpointing.saves_bytes"), 0);
    assert_int_equal(of_recorded("update", "remedies.with.fused-update.peak_bytes"),
                     of_recorded("fused", "peak.bytes"));
    static const char line[] = "snapshot " SNUG_ROOT "/tests/snapshot/recorded/first.pickle.gz";
    assert_true(command_says(line, 0, "The second step, played on from it, peaks higher: 19.0 MiB"));
    assert_true(command_says(line, 0, "saves nothing: the peak is elsewhere"));
}

/* The recorded model, whose steps with checkpointing and with 8 bits of state are smaller by what is said. */
static void settings_that_would_help_are_estimate_s(void **state) {
    (void)state;
    static const char config[] = "{\"model_type\": \"gpt2\", \"n_embd\": 96, \"n_layer\": 4, \"n_head\": 4, "
                                 "\"n_positions\": 64, \"vocab_size\": 512, \"resid_pdrop\": 0.0, "
                                 "\"embd_pdrop\": 0.0, \"attn_pdrop\": 0.0}";
    static const char plain[] = "snapshot " SNUG_ROOT "/tests/snapshot/recorded/plain.pickle.gz";
    char line[512];
    scratch_write("config.json", config, sizeof config - 1);
    snprintf(line, sizeof line, "%s --for . --batch 4 --context 64 --dtype f32 --memory 15MiB --json --quiet",
             plain);
    json_document d = command_json(line);
    json_value devices, changes, v;
    size_t count, found = 0;
    assert_int_equal(json_get(d.root, "devices", &devices), STATUS_OK);
    json_document one = { .root = json_item(devices, 0) };
    uint64_t peak = command_number(&one, "peak.bytes"),
             state_bytes = command_number(&one, "peak.by_category.optimizer");
    assert_string_equal(command_string(&one, "for.framework"), "hf");
    assert_int_equal(json_get(command_value(&one, "for"), "changes", &changes), STATUS_OK);
    assert_int_equal(json_as_array(changes, &count), STATUS_OK);
    for (size_t i = 0; i < count; i++) {
        const char *change;
        int64_t to, saves;
        bool fits;
        assert_int_equal(json_get_string(json_item(changes, i), "change", &change), STATUS_OK);
        assert_int_equal(json_get_integer(json_item(changes, i), "peak_bytes", 0, INT64_MAX, &to), STATUS_OK);
        assert_int_equal(json_get_integer(json_item(changes, i), "saves_bytes", 1, INT64_MAX, &saves),
                         STATUS_OK);
        assert_int_equal(json_get_bool(json_item(changes, i), "fits", &fits), STATUS_OK);
        assert_int_equal(to + saves, peak);
        assert_int_equal(fits, to <= 15 << 20);
        uint64_t with = of_recorded("checkpointing", "peak.bytes");
        if (strcmp(change, "--gradient-checkpointing") == 0)
            found++,
                assert_true((uint64_t)to < with + peak * 3 / 100 && with < (uint64_t)to + peak * 3 / 100);
        if (strcmp(change, "--optimizer-bits 8") == 0)
            found++, assert_true((uint64_t)saves > state_bytes / 2 && (uint64_t)saves <= state_bytes * 3 / 4);
    }
    assert_int_equal(found, 2);
    assert_int_equal(json_get(json_item(changes, 0), "changes_training", &v), STATUS_OK);
    json_close(&d);
    snprintf(line, sizeof line, "%s --for . --batch 4 --context 64 --dtype f32 --memory 15MiB", plain);
    assert_true(command_says(line, 0, "What estimate would change of . (hf), each part as it was measured"));
    assert_true(command_says(line, 0, "which fits"));
    assert_true(command_says(line, 0, "which does not fit"));
    snprintf(line, sizeof line, "%s --for gpt2-xl", plain);
    assert_true(command_says(line, 0, "this may be another model"));
    static const char *const refused[][2] = { { "--for no-such-model", "no-such-model" },
                                              { "--for . --at 7", "--for is of the peak: leave --at out" },
                                              { "--for . --framework vllm",
                                                "--for is of training with PyTorch" },
                                              { "--batch 4", "are of a model: say --for MODEL" } };
    for (int i = 0; i < 4; i++) {
        snprintf(line, sizeof line, "%s %s", plain, refused[i][0]);
        assert_true(command_says(line, 2, refused[i][1]));
    }
    assert_true(command_says("snapshot --for gpt2", 2, "--for wants a FILE"));
}

static void each_allocation_is_shown_largest_first(void **state) {
    (void)state;
    json_document d = command_json("snapshot " RECORDED "streams.pickle.gz --json --quiet --each");
    json_value devices, each, bytes;
    size_t count;
    int64_t before = INT64_MAX, now;
    assert_int_equal(json_get(d.root, "devices", &devices), STATUS_OK);
    assert_int_equal(json_get(json_item(devices, 0), "each", &each), STATUS_OK);
    assert_int_equal(json_as_array(each, &count), STATUS_OK);
    assert_true(count > 10);
    for (size_t i = 0; i < count; i++, before = now) {
        assert_int_equal(json_get(json_item(each, i), "bytes", &bytes), STATUS_OK);
        assert_int_equal(json_as_integer(bytes, 0, INT64_MAX, &now), STATUS_OK);
        assert_true(now <= before);
    }
    json_close(&d);
    command_result r = command_run("snapshot " RECORDED "streams.pickle.gz --each");
    const char *rows = strstr(r.out, "Each allocation, largest first\n");
    assert_non_null(rows);
    size_t lines = 0;
    for (const char *at = rows; (at = strstr(at, " at 0x")); at++) lines++;
    assert_int_equal(lines, count);
    command_free(&r);
}

/* Whatever moment is looked at. */
static void what_would_help_is_of_the_whole_recording(void **state) {
    (void)state;
    static const char *const names[] = { "plain", "first", "update" };
    for (int i = 0; i < 3; i++) {
        static const char *const keys[] = { "blocks", "remedies.peak_bytes",
                                            "remedies.with.checkpointing.peak_bytes",
                                            "remedies.with.half-batch.peak_bytes",
                                            "remedies.with.fused-loss.peak_bytes" };
        for (int k = 0; k < 5; k++)
            assert_int_equal(of_recorded_at(names[i], " --at 0", keys[k]), of_recorded(names[i], keys[k]));
    }
    assert_int_equal(of_recorded_at("plain", " --at 0", "blocks"), 4);
    json_value devices;
    json_document d = command_json("snapshot " RECORDED "plain.pickle.gz --at 0 --json --quiet");
    assert_int_equal(json_get(d.root, "devices", &devices), STATUS_OK);
    json_document one = { .root = json_item(devices, 0) };
    assert_int_equal(command_number(&one, "reserved.bytes"), 0);
    assert_int_equal(command_number(&one, "reserved.segments"), 0);
    json_close(&d);
    assert_true(command_says("snapshot " RECORDED "streams.pickle.gz", 0,
                             "is not known: no blocks of the model were found"));
}

static void running_out_is_explained(void **state) {
    (void)state;
    static const char line[] = "snapshot " RECORDED "oom.pickle.gz";
    assert_true(command_says(line, 0, "8.0 MiB were asked for (modeling_gpt2.py:239, forward)"));
    assert_true(command_says(
        line, 0, "PyTorch had 190.0 MiB reserved and 183.0 MiB in use; the device had 78.26 GiB free"));
    assert_true(command_says(line, 0, "all of them together are too small"));
}

/* ---- several files, names, recipes ---- */

static void several_files_stand_beside_each_other(void **state) {
    (void)state;
    static const char two[] = "snapshot " RECORDED "plain.pickle.gz " RECORDED "streams.pickle.gz";
    char line[512];
    assert_true(command_says(two, 0, "plain.pickle.gz, device 0: in the backward of step 2"));
    snprintf(line, sizeof line, "%s --json --quiet", two);
    json_document d = command_json(line);
    json_value files, devices;
    size_t count;
    assert_int_equal(json_get(d.root, "files", &files), STATUS_OK);
    assert_int_equal(json_as_array(files, &count), STATUS_OK);
    assert_int_equal(count, 2);
    assert_int_equal(json_get(json_item(files, 0), "devices", &devices), STATUS_OK);
    json_document one = { .root = json_item(devices, 0) };
    assert_int_equal(command_number(&one, "peak.bytes"), 75279880);
    json_close(&d);
    /* Where one of them is none the others are shown, and the first that failed is the failure. */
    snprintf(line, sizeof line, "snapshot nowhere.pickle . " RECORDED "plain.pickle.gz --json --quiet");
    command_result r = command_run(line);
    assert_int_equal(r.exit, 2);
    assert_non_null(strstr(r.err, "nowhere.pickle"));
    assert_non_null(strstr(r.out, "\"error\": \"cannot open nowhere.pickle"));
    assert_non_null(strstr(r.out, "75279880"));
    command_free(&r);
    assert_true(command_says("snapshot nowhere.pickle " RECORDED "plain.pickle.gz", 2,
                             "plain.pickle.gz, device 0: in the backward of step 2"));
    r = command_run("snapshot nowhere.pickle nor.pickle --json");
    assert_int_equal(r.exit, 2);
    assert_string_equal(r.out, "");
    command_free(&r);
}

static void anonymous_tells_no_names(void **state) {
    (void)state;
    static const char *const lines[] = { "snapshot " RECORDED "plain.pickle.gz --anonymous",
                                         "snapshot " RECORDED "plain.pickle.gz --anonymous --json --quiet" };
    for (int i = 0; i < 2; i++) {
        command_result r = command_run(lines[i]);
        assert_int_equal(r.exit, 0);
        assert_null(strstr(r.out, "record_snapshots"));
        assert_null(strstr(r.out, "plain"));
        assert_null(strstr(r.out, SNUG_ROOT));
        assert_non_null(strstr(r.out, "modeling_gpt2.py"));
        assert_non_null(strstr(r.out, "snapshot-1"));
        command_free(&r);
    }
}

/* One allocation with so many frames, of protocol 2. */
static void write_frames(const char *path, const char *const (*frames)[2], size_t count) {
    text t = { 0 };
    text_add(&t, "import pickle\nframe = lambda n, f: {'name': n, 'filename': f, 'line': 1}\n"
                 "pickle.dump({'segments': [], 'device_traces': [[{'action': 'alloc', 'addr': 1, 'size': 9, "
                 "'stream': 0, 'frames': [");
    for (size_t i = 0; i < count; i++) text_add(&t, "frame('%s', '%s'), ", frames[i][0], frames[i][1]);
    text_add(&t, "]}]]}, open('%s', 'wb'), 2)\n", path);
    scratch_write("frames.py", t.data, t.length);
    text_close(&t);
    command_shell("python3 frames.py");
}

static void anonymous_knows_libraries_by_name(void **state) {
    (void)state;
    static const char *const shown[][2] = {
        { "at::native::add_out(at::Tensor const&, bool)", "??" },
        { "void c10::impl::call<at::Tensor (c10::DispatchKeySet, long)>::run(torch::jit::Stack*)", "??" },
        { "torch::autograd::THPVariable_mul(_object*, _object*)", "??" },
        { "shown_1", "/home/a/lib/python3.11/site-packages/torch/nn/modules/shown_2.py" },
        { "shown_3", "/usr/lib/python3/dist-packages/transformers/shown_4.py" },
    };
    static const char *const hidden[][2] = {
        { "secret::model::forward(at::Tensor const&)", "??" },
        { "at::native::launch<secret::kernel>(int)", "??" },
        { "at::native::launch<secret>(int)", "??" },
        { "(anonymous namespace)::secret(at::Tensor)", "??" },
        { "secret", "/home/a/lib/python3.11/site-packages/secret/model.py" },
        { "secret", "/home/a/secret-packages/torch/model.py" },
        { "secret", "/home/secret/model.py" },
    };
    if (system("python3 -c 'import pickle' 2>/dev/null") != 0) skip();
    write_frames("shown.pickle", shown, sizeof shown / sizeof *shown);
    command_result r = command_run("snapshot shown.pickle --anonymous --json --quiet");
    for (size_t i = 0; i < 3; i++) assert_non_null(strstr(r.out, shown[i][0]));
    for (int i = 1; i <= 4; i++) {
        char name[16];
        snprintf(name, sizeof name, "shown_%d", i);
        assert_non_null(strstr(r.out, name));
    }
    command_free(&r);
    write_frames("hidden.pickle", hidden, sizeof hidden / sizeof *hidden);
    r = command_run("snapshot hidden.pickle --anonymous --json --quiet");
    assert_int_equal(r.exit, 0);
    assert_null(strstr(r.out, "secret"));
    command_free(&r);
}

static void recipes_are_programs(void **state) {
    (void)state;
    static const char *const loops[] = { "plain", "hf", "lightning" };
    bool python = system("python3 -c 'import ast' 2>/dev/null") == 0;
    for (int i = 0; i < 3; i++) {
        char line[64];
        snprintf(line, sizeof line, "snapshot --recipe %s", loops[i]);
        command_result r = command_run(line);
        assert_int_equal(r.exit, 0);
        const char *before = strstr(r.out, "_record_memory_history("),
                   *after = strstr(r.out, "_dump_snapshot(");
        assert_true(before && after && before < after);
        assert_non_null(strstr(r.out, "stacks=\"all\""));
        assert_non_null(strstr(r.out, "max_entries="));
        assert_non_null(strstr(r.out, "out_of_memory_observer"));
        scratch_write("recipe.py", r.out, strlen(r.out));
        if (python) command_shell("python3 -c \"import ast; ast.parse(open('recipe.py').read())\"");
        command_free(&r);
    }
    assert_true(command_says("snapshot --recipe torchtitan", 0, "enable_memory_snapshot = true"));
    assert_true(command_says("snapshot --recipe jax", 2, "--recipe"));
    assert_true(command_says("snapshot --recipe plain --json", 2, "give no --json with it"));
    assert_true(
        command_says("snapshot --recipe plain " RECORDED "plain.pickle.gz", 2, "give no FILE with it"));
}

/* ---- the page of its keys ---- */

static char *read_all(const char *path) {
    static char all[1 << 17];
    FILE *file = fopen(path, "r");
    assert_non_null(file);
    all[fread(all, 1, sizeof all - 1, file)] = 0;
    fclose(file);
    return all;
}

static void find_keys(json_value v, const char *page) {
    void *cursor = NULL;
    json_value member;
    size_t count;
    char key[128];
    if (json_is_array(v)) {
        if (json_as_array(v, &count) != STATUS_OK) fail();
        for (size_t i = 0; i < count; i++) find_keys(json_item(v, i), page);
        return;
    }
    if (json_as_object(v) != STATUS_OK) return;
    while (json_next(v, &cursor, &member)) {
        snprintf(key, sizeof key, "`%s`", member.key);
        if (!strstr(page, key)) fail_msg("docs/snapshot.md does not know '%s'", member.key);
        find_keys(member, page);
    }
}

static void every_key_is_documented(void **state) {
    (void)state;
    const char *page = read_all(SNUG_ROOT "/docs/snapshot.md");
    for (int i = 0; i < RECORDINGS; i++) {
        char line[256]; /* of the others it would be more than a document of tests holds */
        snprintf(line, sizeof line, "snapshot " RECORDED "%s.pickle.gz --json --quiet%s", recorded[i],
                 strcmp(recorded[i], "streams") == 0 ? " --each" : "");
        json_document d = command_json(line);
        find_keys(d.root, page);
        json_close(&d);
    }
}

/* ---- what is no snapshot ---- */

static const struct {
    const char *name, *bytes;
    size_t count;
    const char *said;
} wrong[] = {
    { "code.pickle",
      "\x80\x02"
      "cos\nsystem\n(X\2\0\0\0lstR.",
      23, "byte 2: it would import a name and run code; a snapshot is data alone" },
    { "checkpoint.pt", "PK\3\4rest", 8, "a zip archive, as torch.save writes; a snapshot is a bare pickle" },
    { "old.pickle", "(dp0\nS'a'\n.", 11, "no pickle of protocols 2 to 5 begins so" },
    { "one.pickle", "\x80\1}.", 4, "pickles of protocols 2 to 5 are read, and no others" },
    { "cut.pickle", "\x80\4}\x94(", 5, "the pickle ends in the middle: the file was cut" },
    { "empty.pickle", "", 0, "the file is empty" },
    { "long.pickle", "\x80\2X\xff\xff\xff\xff", 7, "a text of 4294967295 bytes" },
    { "wide.pickle", "\x80\2\x8a\x0a\1\1\1\1\1\1\1\1\1\1.", 15, "a number of more than 64 bits" },
    { "json.pickle", "{}", 2, "a trace without events '[memory]': record with" },
    { "other.pickle", "\x80\2}X\1\0\0\0aK\1s.", 13, "it is no memory snapshot of PyTorch" },
    { "behind.pickle", "\x80\2}X\1\0\0\0aK\1s.N", 14, "byte 13: more follows behind the end of the pickle" },
    { "twice.pickle",
      "\x80\2}(X\x0a\0\0\0total_sizeK\1X\6\0\0\0blocks]}X\5\0\0\0stateX\1\0\0\0asa"
      "X\1\0\0\0x}(X\x0a\0\0\0total_sizeK\1X\6\0\0\0blocks]}X\5\0\0\0stateX\1\0\0\0asauu.",
      111, "a block of the snapshot is in two segments" },
    { "none.pickle", "\x80\2}(X\x08\0\0\0segments]X\x0d\0\0\0device_traces]u.", 39,
      "neither events nor memory in use; record with torch.cuda.memory._record_memory_history()" },
    { "cut.gz", "\x1f\x8b\x08\0\0\0\0\0\0\3", 10, "ends in the middle" },
    { "bad.gz", "\x1f\x8b\x08\0\0\0\0\0\0\3\xff\xff\xff\xff", 14, "it is no gzip" },
};

static void what_is_none_gets_one_sentence(void **state) {
    (void)state;
    for (size_t i = 0; i < sizeof wrong / sizeof *wrong; i++) {
        char line[128];
        scratch_write(wrong[i].name, wrong[i].bytes, wrong[i].count);
        snprintf(line, sizeof line, "snapshot %s --json", wrong[i].name);
        command_result r = command_run(line);
        assert_int_equal(r.exit, 2);
        assert_string_equal(r.out, "");
        if (!command_has_words(r.err, wrong[i].said) || !strstr(r.err, wrong[i].name)) fail_msg("%s", r.err);
        assert_null(strchr(strchr(r.err, '\n') + 1, '\n')); /* two lines at most */
        command_free(&r);
    }
    assert_true(command_says("snapshot", 2, "snapshot wants a FILE"));
    assert_true(command_says("snapshot nowhere.pickle", 2, "nowhere.pickle"));
    assert_true(command_says("snapshot .", 2, "a regular file is needed"));
}

/* Names of functions and files come from strangers. */
static void names_command_no_terminal(void **state) {
    (void)state;
    static const char bytes[] =
        "\x80\2}(X\x0d\0\0\0device_traces]]}(X\6\0\0\0actionX\5\0\0\0allocX\4\0\0\0addrK\1X\4\0\0\0sizeKd"
        "X\6\0\0\0frames]}(X\4\0\0\0nameX\x09\0\0\0\033[31mred\nX\x08\0\0\0filenameX\3\0\0\0a\tbX\4\0\0\0line"
        "K\1uauaaX\x08\0\0\0segments]u.";
    scratch_write("red.pickle", bytes, sizeof bytes - 1);
    command_result r = command_run("snapshot red.pickle");
    if (r.exit != 0) fail_msg("%s", r.err);
    assert_null(strchr(r.out, '\033'));
    assert_non_null(strstr(r.out, "?[31mred?"));
    command_free(&r);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(another_reader_says_the_same),
        cmocka_unit_test(another_reader_of_traces_says_the_same),
        cmocka_unit_test(blocks_that_are_named_are_blocks),
        cmocka_unit_test(unusual_schemas_are_read),
        cmocka_unit_test(what_allocations_are_is_told_as_it_was),
        cmocka_unit_test(peaks_have_a_phase_and_blocks),
        cmocka_unit_test(the_twin_makes_what_was_recorded),
        cmocka_unit_test(the_twin_begins_with_what_is_in_use),
        cmocka_unit_test(the_twin_makes_what_another_allocator_makes),
        cmocka_unit_test(what_grows_is_found_with_its_line),
        cmocka_unit_test(what_is_promised_is_what_is_recorded),
        cmocka_unit_test(what_would_help_is_of_the_whole_recording),
        cmocka_unit_test(settings_that_would_help_are_estimate_s),
        cmocka_unit_test(each_allocation_is_shown_largest_first),
        cmocka_unit_test(running_out_is_explained),
        cmocka_unit_test(several_files_stand_beside_each_other),
        cmocka_unit_test(anonymous_tells_no_names),
        cmocka_unit_test(anonymous_knows_libraries_by_name),
        cmocka_unit_test(recipes_are_programs),
        cmocka_unit_test(every_key_is_documented),
        cmocka_unit_test(what_is_none_gets_one_sentence),
        cmocka_unit_test(names_command_no_terminal),
    };
    return cmocka_run_group_tests(tests, scratch_open, scratch_close);
}
