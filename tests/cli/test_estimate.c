/* snug estimate as a user has it: fits or not by exit code, every device and published model, the cheapest
 * change, JSON, and settings that contradict each other. */
#define _GNU_SOURCE
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "cli/command.h"
#include "io/scratch.h"

static void it_fits_or_it_does_not(void **state) {
    (void)state;
    assert_true(command_says("estimate gpt2 --device a100-40 --batch 4", 0, "Fits NVIDIA A100 40 GB"));
    assert_true(command_says("estimate llama-3-8b --device h100-80 --batch 1 --context 4096", 3,
                             "Does not fit NVIDIA H100"));
    assert_true(command_says("estimate llama-3-8b --batch 1 --context 4096", 0, "live"));
    assert_true(command_says("estimate bert-base --batch 8 --context 128", 0,
                             "a classifier (--labels) doesn't have"));
    assert_true(
        command_says("estimate 7B --device rtx-4090 --batch 1 --context 1024 --adapter-rank 16 --base-bits 4 "
                     "--gradient-checkpointing",
                     0, "Fits"));
    assert_true(command_says("estimate gpt2 --framework snug --device t4 --batch 2 --context 128", 0,
                             "predicted peak"));
    assert_true(command_says(
        "estimate gpt2 --framework snug --device a100-80-mig-1g.10gb --batch 512 --micro-batch 512", 3,
        "does not fit"));
}

/* A step that was recorded is a model like others; what it holds as it was recorded is not asked of it. */
static void a_recorded_step_is_answered(void **state) {
    (void)state;
#define RECORDED "estimate " SNUG_ROOT "/tests/estimate/recorded/step_blocks.json --batch 2 "
    assert_true(command_says(RECORDED "--gpu h100-80", 0, "Fits NVIDIA H100"));
    assert_true(command_says(RECORDED "--context 48", 0, "2 x 64, 3 x 64, 2 x 32"));
    assert_true(command_says(RECORDED "--device cpu --json", 0, "\"likely\": 943740"));
    assert_true(command_says(RECORDED "--gpu h100-80 --solve batch", 0, "the largest batch that fits"));
    /* the longest context that fits: an answer for it does, and for one more doesn't */
    assert_true(command_says("estimate " SNUG_ROOT "/tests/estimate/recorded/step_blocks.json --batch 512 "
                             "--gpu h100-80 --solve context",
                             0, "the longest context that fits"));
    assert_true(command_says(RECORDED "--dtype half", 0, "recorded in f32; 16 bits are played by rule"));
    assert_true(command_says(RECORDED "--dtype half", 0, "what the model's own code casts to f32 stays f32"));
    assert_true(command_says(RECORDED "--loss fused", 2, "a recorded step is as it was recorded"));
    assert_true(command_says(RECORDED "--framework vllm", 2, "PyTorch's"));
    assert_true(command_says(RECORDED "--gpus 2 --shard fsdp", 0, "one of 2 devices with --shard fsdp"));
    assert_true(command_says(RECORDED "--gpus 2", 2, "say --shard"));
    assert_true(command_says("estimate gpt2 --average", 2, "is of a recorded step"));
    assert_true(command_says("estimate --recipe hf", 0, "class Recorder(TorchDispatchMode)"));
    assert_true(command_says("estimate --recipe lightning", 0, "automatic_optimization.run"));
    assert_true(command_says("estimate --recipe dpo", 0, "class Trainer(trl.DPOTrainer)"));
    assert_true(command_says("estimate gpt2 --recipe plain", 2, "give no MODEL with it"));
    assert_true(command_says("estimate --recipe plain --html page.html", 2, "give no --html with it"));
    assert_true(command_says("estimate --recipe plain --emit hf", 2, "give no --emit with it"));
    assert_true(command_says("estimate --recipe plain --json", 2, "give no --json with it"));
#undef RECORDED
}

/* A change that a recording tells nothing of is not advised, and does not take the answer's place. */
static void a_recording_that_tells_less_is_answered(void **state) {
    (void)state;
    static const char *const tells_less[] = { "s/ModuleList/Several/",
                                              "s/\\[\\[2,64\\],\\[3,64\\]/[[2,64],[2,63]/" };
    for (size_t i = 0; i < sizeof tells_less / sizeof *tells_less; i++) {
        command_shell("sed '%s' '%s/tests/estimate/recorded/step_blocks.json' > less.json", tells_less[i],
                      SNUG_ROOT);
        assert_true(command_says("estimate less.json --batch 2 --gpu t4 --overhead 20GiB", 3,
                                 "Does not fit NVIDIA T4"));
        assert_true(command_says("estimate less.json --batch 2 --gpu t4 --gradient-checkpointing", 0,
                                 i ? "and are computed again" : "nothing is computed again"));
        assert_true(command_says("estimate less.json --batch 4 --gpu t4", i ? 2 : 0,
                                 i ? "batch of 2 alone" : "Fits"));
    }
}

/* What is advised is taken, and then it fits. */
static void the_change_that_is_named_suffices(void **state) {
    (void)state;
    static const char *const runs[] = {
        "estimate llama-3-8b --device h100-80 --batch 1 --context 4096",
        "estimate llama-3.2-1b --device a10 --batch 2 --context 4096 --dtype float32",
        "estimate gpt2-xl --device v100-32 --batch 8 --framework pytorch",
        "estimate 70B --device h200 --batch 1 --context 8192",
        "estimate qwen2.5-0.5b --device t4 --batch 4 --context 2048",
    };
    for (size_t i = 0; i < sizeof runs / sizeof *runs; i++) {
        char line[512];
        const char *change;
        json_document d;
        snprintf(line, sizeof line, "%s --json --quiet", runs[i]);
        command_result r = command_run(line);
        if (r.exit != 3) fail_msg("snug %s: exit %d: %s", line, r.exit, r.err);
        assert_int_equal(json_parse("estimate", r.out, strlen(r.out), &d), STATUS_OK);
        assert_int_equal(json_get_string(d.root, "change", &change), STATUS_OK);
        uint64_t then = command_number(&d, "changed_device_bytes");
        assert_true(then <= command_number(&d, "reported_bytes"));
        assert_true(command_number(&d, "live_bytes.low") <= command_number(&d, "live_bytes.likely"));
        snprintf(line, sizeof line, "%s %s --json --quiet", runs[i], change);
        command_result again = command_run(line);
        if (again.exit != 0) fail_msg("snug %s: exit %d: %s", line, again.exit, again.err);
        json_close(&d);
        assert_int_equal(json_parse("estimate", again.out, strlen(again.out), &d), STATUS_OK);
        assert_true(command_number(&d, "device_bytes.likely") == then);
        json_close(&d);
        command_free(&r);
        command_free(&again);
    }
}

/* Weights and moments in 16 bits would do for both of these, and they are not what was asked for. */
static void training_stays_as_it_is_where_it_can(void **state) {
    (void)state;
    assert_true(command_says("estimate llama-3.2-1b --device rtx-4090 --batch 8 --context 1024", 3,
                             "makes it fit: --loss fused --gradient-checkpointing, then"));
    assert_true(command_says("estimate llama-3.2-1b --device t4 --batch 1 --context 512", 3,
                             "makes it fit: --gpus 2 --shard fsdp, then"));
    assert_true(command_says("estimate 7B --device rtx-4090 --batch 1 --context 512", 3,
                             "makes it fit: --adapter-rank 16 (changes what is trained), then"));
    assert_true(command_says("estimate 7B --device rtx-4090 --batch 1 --context 512 --json", 3,
                             "\"changes_training\": true"));
    assert_true(command_says("estimate llama-3.2-1b --device t4 --batch 1 --context 512 --json", 3,
                             "\"changes_training\": false"));
}

/* What comes nearest leaves as much missing as it says, and the shorter context that is named does. */
static void where_nothing_fits_something_comes_nearest(void **state) {
    (void)state;
    const char *asked = "estimate llama-3.1-8b --device t4 --batch 1 --context 131072";
    command_result r = command_run(asked);
    char changes[256], missing[64], line[512], said[128];
    const char *at = strstr(r.out, "Nothing that this command knows makes it fit.\nNearest comes ");
    assert_int_equal(r.exit, 3);
    assert_non_null(at);
    assert_int_equal(
        sscanf(strchr(at, '\n'), "\nNearest comes %255[^;]; %63[^a] are still missing.", changes, missing),
        2);
    missing[strlen(missing) - 1] = 0;
    snprintf(line, sizeof line, "%s %s", asked, changes);
    snprintf(said, sizeof said, "%s too much", missing);
    assert_true(command_says(line, 3, said));
    at = strstr(r.out, "\nWith ");
    assert_non_null(at);
    assert_int_equal(sscanf(at, "\nWith %255[^\n]", changes), 1);
    *strstr(changes, " it would fit.") = 0;
    snprintf(line, sizeof line, "estimate llama-3.1-8b --device t4 --batch 1 %s", changes);
    assert_true(command_says(line, 0, "May fit NVIDIA T4"));
    command_free(&r);
}

static void own_devices_are_files(void **state) {
    (void)state;
    static const struct {
        const char *yaml, *said;
        int exit;
    } files[] = {
        { "title: ours\nmemory: 1TiB\ncontext: [1MiB, 2MiB, 3MiB]\n", "Fits ours", 0 },
        { "title: small\nmemory: 1GiB\n", "Does not fit small", 3 },
        { "title: none\n", "memory is missing", 2 },
        { "title: one\nmemory: 64GiB\nleaves: 16GiB\n",
          "Fits one, which reports 64.00 GiB of unified memory, of which 16.00 GiB are left to the machine",
          0 },
        { "title: one\nmemory: 20GiB\nleaves: 17GiB\n", "Does not fit one", 3 },
        { "memory: 4GiB\nbackend: xla\n", "is cuda (also ROCm's) or mps", 2 },
        { "memory: 4GiB\nleaves: 4GiB\n", "leaves is all of its memory", 2 },
        { "memory: 4GiB\neach: [memory]\n", "is no key of a device", 2 },
        { "title: other\nmemory: about 64GiB\n", "by the rule of its family reports about 64.00 GiB", 0 },
        { "memory: much\n", "much", 2 },
        { "memory: 1GiB\ncannot: [fly]\n", "knows bf16", 2 },
        { "memory: 1GiB\ncontext: [3MiB, 2MiB, 1MiB]\n", "must rise", 2 },
        { "memory: 1GiB\nspeed: 7\n", "is no key of a device", 2 },
        { "memory: 99999999999999999999\n", "99999999999999999999", 2 },
    };
    for (size_t i = 0; i < sizeof files / sizeof *files; i++) {
        scratch_write("own.yaml", files[i].yaml, strlen(files[i].yaml));
        assert_true(command_says("estimate gpt2 --batch 4 --device own.yaml", files[i].exit, files[i].said));
    }
}

/* What PyTorch's own allocator counted, in a file of settings: all `expected` points, to half a percent. */
static void check_points(const char *file, int expected) {
    char path[512], row[512], name[64], options[320], line[640];
    unsigned long long bytes;
    int points = 0;
    snprintf(path, sizeof path, SNUG_ROOT "/bench/estimate/%s", file);
    FILE *f = fopen(path, "r");
    assert_non_null(f);
    while (fgets(row, sizeof row, f)) {
        json_document d;
        if (sscanf(row, "%63[^,],\"%319[^\"]\",live,%llu", name, options, &bytes) != 3 &&
            sscanf(row, "%63[^,],%319[^,],live,%llu", name, options, &bytes) != 3)
            continue;
        snprintf(line, sizeof line, "estimate " SNUG_ROOT "/bench/estimate/models/%s.json %s --json --quiet",
                 name, options);
        command_result r = command_run(line);
        if (r.exit != 0) fail_msg("snug %s: exit %d: %s", line, r.exit, r.err);
        assert_int_equal(json_parse("estimate", r.out, strlen(r.out), &d), STATUS_OK);
        double ratio = (double)command_number(&d, "live_bytes.likely") / (double)bytes;
        if (!(ratio > 0.995 && ratio < 1.005)) fail_msg("snug %s: over measured %.4f", line, ratio);
        json_close(&d);
        command_free(&r);
        points++;
    }
    fclose(f);
    assert_int_equal(points, expected);
}

/* Adapters, optimizers, accumulated gradients and a plain GPT. */
static void ways_to_train_are_what_pytorch_counted(void **state) {
    (void)state;
    check_points("points_ways.csv", 49);
}

/* Full weights and adapters, in f32, under autocast and in 16 bits; with keys for all heads and for some. */
static void litgpt_is_what_pytorch_counted(void **state) {
    (void)state;
    check_points("points_litgpt.csv", 18);
}

/* Few tokens, so the update is the peak: what torch 2.11 counted on a CPU, to 16 KB. */
static void updates_are_what_pytorch_counted(void **state) {
    (void)state;
    static const struct {
        const char *model, *options;
        uint64_t bytes;
    } points[] = { { "llama", "16 --dtype float32 --optimizer-kernels foreach", 106214956 },
                   { "llama", "16 --dtype half --attn eager --optimizer-kernels foreach", 53107690 },
                   { "llama", "16 --dtype float32 --attn eager --optimizer-kernels single", 93361708 },
                   { "gpt2", "16 --dtype float32 --optimizer-kernels foreach", 86784480 },
                   { "gpt2", "16 --dtype half --attn eager --optimizer-kernels foreach", 43392478 },
                   { "bert", "128 --dtype float32 --optimizer-kernels foreach", 88223064 },
                   { "bert", "128 --dtype half --attn eager --optimizer-kernels foreach", 44116820 } };
    for (size_t i = 0; i < sizeof points / sizeof *points; i++) {
        char line[320];
        snprintf(line, sizeof line,
                 "estimate " SNUG_ROOT "/bench/estimate/models/%s.json --device cpu --json --quiet --batch 1 "
                 "--context %s",
                 points[i].model, points[i].options);
        int64_t apart = (int64_t)command_asked(line, "live_bytes.likely") - (int64_t)points[i].bytes;
        if (llabs(apart) > 16 << 10) fail_msg("%s: %lld", line, (long long)apart);
    }
}

static void litgpt_ties_no_heads_and_says_so(void **state) {
    (void)state;
    assert_true(command_says("estimate gemma-2b --framework litgpt --batch 1 --context 512", 0,
                             "litgpt ties no heads: this one has weights of its own\n"));
    assert_true(command_says("estimate gemma-2b --framework litgpt --batch 1 --context 512", 0,
                             "3.03 billion parameters"));
    assert_true(
        command_says("estimate llama-2-7b --framework litgpt --adapter-rank 8 --base-bits 4 --batch 1", 2,
                     "litgpt has it without autocast alone"));
}

static void contradictions_get_a_sentence(void **state) {
    (void)state;
    static const char *const wrong[][2] = {
        { "--device h100", "did you mean" },
        { "--base-bits 4", "--adapter-rank 16 as well" },
        { "--shard fsdp", "say --gpus N" },
        { "--gpus 4", "say --shard" },
        { "--optimizer-bits 9", "32 bits, 8 or 4" },
        { "--base-bits 5 --adapter-rank 4", "32 bits, 16 or 4" },
        { "--framework jax", "jax" },
        { "--context 99999", "longer than the 1024 positions" },
        { "--gpus 2 --framework snug", "on one device" },
        { "--shard ddp --framework snug", "is for --framework hf" },
        { "--recompute block", "is for --framework snug" },
        { "--lr 1", "no option of estimate" },
        { "--reentrant", "is a way of --gradient-checkpointing" },
        { "--dtype half --framework snug", "--dtype is for" },
        { "--dtype half --framework llama.cpp", "--dtype is for" },
        { "--gpus 2 --framework llm.c", "--gpus is for" },
        { "--optimizer sgd --framework llama.cpp", "--optimizer is for" },
        { "--optimizer sgd --framework vllm", "--optimizer is for" },
        { "--optimizer lion --framework llm.c", "has adamw alone" },
        { "--optimizer sgd --momentum 0.9 --framework llm.c", "has adamw alone" },
        { "--accumulate 4 --framework llama.cpp", "--accumulate is for" },
        { "--accumulate 4 --framework llm.c", "--accumulate is for" },
        { "--accumulate 4 --framework vllm", "--accumulate is for" },
        { "--dropout 0.1 --framework vllm", "--dropout is for" },
        { "--attn eager --framework litgpt", "--attn is for" },
        { "--loss fused --framework litgpt", "--loss is for" },
        { "--adapter-targets c_attn", "say --adapter-rank 16 as well" },
        { "--use-dora", "say --adapter-rank 16 as well" },
        { "--use-dora --adapter-rank 8 --libraries 2023", "has no rule for --libraries 2023" },
        { "--use-dora --adapter-rank 8 --adapter-targets wte", "beside the table of tokens has no rule" },
        { "--framework litgpt", "litgpt is for decoders" },
    };
    for (size_t i = 0; i < sizeof wrong / sizeof *wrong; i++) {
        char line[256];
        snprintf(line, sizeof line, "estimate gpt2 --batch 1 %s", wrong[i][0]);
        assert_true(command_says(line, 2, wrong[i][1]));
    }
    assert_true(command_says("estimate pythia-70m --batch 1 --adapter-rank 8 --adapter-targets q_proj", 2,
                             "its blocks have query_key_value, dense, dense_h_to_4h, dense_4h_to_h"));
    assert_true(
        command_says("estimate pythia-70m --batch 1 --adapter-rank 8 --adapter-targets dense", 0, ""));
    assert_true(command_says("estimate resnet-50 --batch 1 --adapter-rank 8", 2, "has convolutions"));
    assert_true(command_says("estimate gemma-2-2b --framework litgpt", 2, "litgpt is for decoders"));
    assert_true(command_says("estimate mixtral-8x7b --framework litgpt", 2, "a mixture of experts"));
    assert_true(command_says("estimate no-such-model", 2, "no-such-model"));
    assert_true(command_says("estimate gpt2 --device v100-32 --batch 1", 0, "has no bf16"));
}

static void messages_are_explained(void **state) {
    (void)state;
    static const char torch[] =
        "Traceback\nRuntimeError: CUDA out of memory. Tried to allocate 236.00 MiB (GPU 0; 15.78 GiB total "
        "capacity; "
        "14.25 GiB already allocated; 183.50 MiB free; 14.34 GiB reserved in total by PyTorch)\n";
    static const char vllm[] =
        "The model's max seq len (131072) is larger than the maximum number of tokens that can be "
        "stored in KV cache (39024).";
    scratch_write("torch.log", torch, sizeof torch - 1);
    scratch_write("vllm.log", vllm, sizeof vllm - 1);
    scratch_write("other.log", "all is well\n", 12);
    assert_true(command_says("explain-oom torch.log", 0, "Tensors fill the device"));
    assert_true(command_says("explain-oom torch.log --for gpt2-xl --batch 4 --framework pytorch", 0,
                             "AdamW(..., fused=True) (up to"));
    assert_true(command_says("explain-oom torch.log --for gpt2-xl --batch 4", 0,
                             "gradient_checkpointing=True (up to"));
    assert_true(command_says("explain-oom torch.log --for gpt2-xl --batch 4", 0,
                             "per_device_train_batch_size=2, gradient_accumulation_steps=2 (up to"));
    assert_true(command_says("explain-oom torch.log --json --quiet", 0, "\"cause\": \"full\""));
    assert_true(command_says("explain-oom vllm.log", 0, "--max-model-len 39024"));
    assert_true(command_says("explain-oom other.log", 2, "paste all of it"));
    assert_true(command_says("explain-oom no-such.log", 2, "no-such.log"));
    assert_true(command_says("explain-oom torch.log --for no-such-model", 2, "no-such-model"));
}

/* A saving larger than what was held is none, and settings that cannot be the run's are called so. */
static void savings_are_of_what_was_held(void **state) {
    (void)state;
    static const char torch[] = "CUDA out of memory. Tried to allocate 2.04 GiB. GPU 0 has a total capacity "
                                "of 23.64 GiB of which 1.02 GiB "
                                "is free. Process 12345 has 22.60 GiB memory in use. Of the allocated memory "
                                "20.11 GiB is allocated by "
                                "PyTorch, and 1.70 GiB is reserved by PyTorch but unallocated.\n";
    static const char none[] = "Tried to allocate 2.00 GiB. GPU 0 has a total capacity of 39.00 GiB of which "
                               "1.00 GiB is free. Process 4 "
                               "has 19.00 GiB memory in use. Process 5 has 19.00 GiB memory in use. Of the "
                               "allocated memory 30.00 GiB is "
                               "allocated by PyTorch, and 1.00 GiB is reserved by PyTorch but unallocated.\n";
    scratch_write("held.log", torch, sizeof torch - 1);
    scratch_write("none.log", none, sizeof none - 1);
    const char *far = "explain-oom held.log --for llama-3-8b --batch 1 --context 4096";
    assert_true(command_says(far, 0, "These settings cannot be those of the run"));
    assert_true(command_says(far, 0, "and the device has 23.64 GiB"));
    assert_true(command_says(far, 0, "optim=\"adamw_bnb_8bit\" (up to 22.60 GiB)"));
    assert_true(command_says("explain-oom held.log --for gpt2 --batch 1 --context 64", 0,
                             "These settings cannot be those of the run"));
    assert_true(command_says("explain-oom held.log --for gpt2-xl --batch 1 --context 256 --json --quiet", 0,
                             "\"settings_far\": false"));
    assert_true(command_says("explain-oom none.log", 0, "is not known: none of them"));
}

/* Each in the words of those who use that tool. */
static void messages_of_other_tools_are_explained(void **state) {
    (void)state;
    static const struct {
        const char *text, *said, *next;
    } cases[] = {
        { "slurmstepd: error: Detected 1 oom_kill event in StepId=7.batch.", "the host's memory", "--mem=" },
        { "=>> PBS: job killed: mem 38427376kb exceeded limit 33554432kb", "38427376kb where 33554432kb were",
          "qsub -l mem=" },
        { "failed (exitcode: -9) local_rank: 0", "Likely, though the text does not show it", "dmesg -T" },
        { "This might be caused by insufficient shared memory (shm).", "64 MiB of it", "--shm-size=8g" },
        { "RuntimeError: CUDA error: out of memory", "gives no numbers", "nvidia-smi" },
        { "cuDNN error: CUDNN_STATUS_NOT_INITIALIZED", "does not say why", "nvidia-smi" },
        { "CUDA out of memory. Tried to allocate 34.00 MiB (GPU 0; 10.91 GiB total capacity; 9.52 GiB "
          "already "
          "allocated; 17.56 MiB free; 10.28 GiB reserved in total by PyTorch)",
          "Tensors fill the device", "3. PYTORCH_CUDA_ALLOC_CONF=max_split_size_mb:512" },
        { "alloc_buffer\nggml_backend_cuda_buffer_type_alloc_buffer: allocating 1234.50 MiB on device 0: "
          "cudaMalloc",
          "llama.cpp asked for 1234.50 MiB on device 0", "--n-gpu-layers" },
        { "DefaultCPUAllocator: can't allocate memory: you tried to allocate 1073741824 bytes.",
          "The host was asked for 1.00 GiB", "low_cpu_mem_usage=True" },
        { "RESOURCE_EXHAUSTED: Out of memory while trying to allocate 1073741824 bytes.",
          "XLA asked for 1.00 GiB", "XLA_PYTHON_CLIENT_MEM_FRACTION" },
        { "Tried to allocate 1.00 GiB.\nDetected 1 oom_kill event", "And beside it: The system killed",
          "4. more memory for the job" },
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        scratch_write("tool.log", cases[i].text, strlen(cases[i].text));
        if (!command_says("explain-oom tool.log", 0, cases[i].said)) fail_msg("%s", cases[i].said);
        if (!command_says("explain-oom tool.log", 0, cases[i].next)) fail_msg("%s", cases[i].next);
    }
    static const char hip[] =
        "HIP out of memory. Tried to allocate 6.64 GiB. GPU 0 has a total capacity of 19.92 GiB of "
        "which 6.22 GiB is free. Of the allocated memory 5.34 GiB is allocated by PyTorch, and 7.10 "
        "GiB is reserved by PyTorch but unallocated. try PYTORCH_HIP_ALLOC_CONF=expandable_segments";
    scratch_write("hip.log", hip, sizeof hip - 1);
    assert_true(command_says(
        "explain-oom hip.log", 0,
        "1. PYTORCH_HIP_ALLOC_CONF=expandable_segments:True: what is reserved becomes usable (up to "
        "7.10 GiB)"));
    assert_true(command_says("explain-oom hip.log", 0, "the traceback above it"));
    assert_true(command_says("explain-oom hip.log --json --quiet", 0, "\"backend\": \"hip\""));
    assert_true(command_says("explain-oom hip.log --json --quiet", 0, "\"sure\": true"));
    static const char mps[] =
        "MPS backend out of memory (MPS allocated: 8.89 GB, other allocations: 172.98 MB, max "
        "allowed: 9.07 GB). Tried to allocate 6.25 MB on private pool.";
    scratch_write("mps.log", mps, sizeof mps - 1);
    assert_true(command_says("explain-oom mps.log", 0, "8.89 GB"));
    assert_true(command_says("explain-oom mps.log", 0, "PYTORCH_MPS_HIGH_WATERMARK_RATIO"));
    static const char program[] = "\0Free memory on device\0max seq len \0oom_kill event\0";
    scratch_write("program", program, sizeof program);
    assert_true(command_says("explain-oom program", 2, "paste all of it"));
}

/* Switches that change nothing come before more devices, and adapters go with them. */
static void switches_come_before_devices(void **state) {
    (void)state;
    assert_true(command_says("estimate llama-3.2-1b --gpu rx-7900-xtx --batch 1 --context 4096", 3,
                             "makes it fit: --loss fused --gradient-checkpointing, then"));
    assert_true(command_says("estimate llama-3-8b --gpu h100-80 --batch 1 --context 4096", 3,
                             "--loss fused --gradient-checkpointing --gpus 2 --shard fsdp"));
    assert_true(command_says("estimate llama-3-70b --gpu h100-80 --batch 1 --context 4096", 3,
                             "--adapter-rank 16 --base-bits 4 --loss fused"));
}

/* What torch does not have on a Mac is not advised, nor written. */
static void a_mac_is_no_cuda(void **state) {
    (void)state;
    const char *asked = "estimate llama-3-8b --gpu m2-max-32 --batch 1 --context 2048 --framework pytorch";
    char line[256];
    command_result r = command_run(asked);
    assert_int_equal(r.exit, 3);
    assert_null(strstr(r.out, "--gpus"));
    assert_null(strstr(r.out, "-bits"));
    assert_non_null(strstr(r.out, "reports 32.00 GiB of unified memory, of which 10.67 GiB are"));
    command_free(&r);
    snprintf(line, sizeof line,
             "estimate gpt2 --gpu m2-max-32 --batch 1 --context 256 --framework pytorch --emit torch");
    assert_true(command_says(line, 0, "model.to(\"mps\", "));
    assert_true(command_says(line, 0, "torch.autocast(\"mps\", "));
    assert_true(command_says(line, 0, "ATTENTION = [SDPBackend.MATH]"));
    assert_true(
        command_says("estimate gpt2 --gpu m2-max-64 --gpus 2 --shard ddp --batch 1 --context 256 --framework "
                     "pytorch --emit torch",
                     2, "no collectives on mps"));
}

/* No number of a column looks larger than one that is. */
static void a_column_has_one_unit(void **state) {
    (void)state;
    command_result r = command_run("estimate llama-3-8b --gpu h100-80 --batch 1 --context 4096");
    assert_int_equal(r.exit, 3);
    assert_non_null(strstr(r.out, "8.03 billion parameters, all trained, "));
    assert_non_null(strstr(r.out, "GiB"));
    assert_null(strstr(r.out, "MiB"));
    command_free(&r);
    assert_true(command_says("estimate gpt2 --batch 1 --context 64 --adapter-rank 4 --adapter-targets c_attn",
                             0, " million parameters, "));
}

/* People write names as they stand on the hub, on a page or on the card. */
static void names_are_understood(void **state) {
    (void)state;
    static const struct {
        const char *line;
        int exit;
        const char *said;
    } cases[] = {
        { "estimate gpt2 --device H100-80GB --batch 1", 0, "Fits NVIDIA H100 80 GB" },
        { "estimate gpt2 --device rtx4090 --batch 1", 0, "Fits NVIDIA GeForce RTX 4090" },
        { "estimate gpt2 --device H100 --batch 1", 2, "did you mean h100-80 or h100-94 or" },
        { "estimate gpt2 --device a100-80-mig --batch 1", 2, "did you mean a100-80-mig-1g.10gb or a100" },
        { "estimate gpt2 --device rtx-4091 --batch 1", 2, "did you mean rtx-4090?" },
        { "estimate meta-llama/Llama-3.1-8B --batch 1 --context 64", 0, "llama-3.1-8b in Hugging Face's" },
        { "estimate Qwen/Qwen2.5-7B-Instruct/ --batch 1 --context 64", 0, "qwen2.5-7b in Hugging Face's" },
        { "estimate meta-llama/Meta-Llama-3-8B-Instruct --batch 1 --context 64", 0,
          "is taken for the published model llama-3-8b" },
        { "estimate mistralai/Mistral-7B-v0.1 --batch 1 --context 64", 0,
          "mistralai/Mistral-7B-v0.1 is taken for the published model mistral-7b" },
        { "estimate google/vit-base-patch32-224 --batch 1", 2, "did you mean vit-base?" },
        { "estimate mistralai/Mistrel-7B --batch 1", 2, "did you mean mistral-7b?" },
        { "estimate ./mistral-7b --batch 1", 2, "no file or directory" },
        { "estimate 7B --batch 1 --context 64", 0, "of the published models llama-2-7b is nearest to 7B" },
        { "estimate 6.9B --batch 1 --context 64", 0, "of the published models pythia-6.9b is nearest" },
        { "estimate 7T --batch 1 --context 64", 2, "far from all published shapes, of which llama-3.1-405b" },
        { "plan 7T --batch 1 --context 64", 2, "far from all published shapes" },
        { "plan meta-llama/Llama-3.2-1B --batch 1 --context 64", 0,
          "llama-3.2-1b: 1,235,814,400 parameters" },
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++)
        assert_true(command_says(cases[i].line, cases[i].exit, cases[i].said));
}

/* What a number is of, and what was assumed for it. */
static void answers_say_what_they_are_of(void **state) {
    (void)state;
    assert_true(command_says("estimate gpt2 --device h100-80", 0,
                             "a batch of 8 and the whole context of 1024 tokens are assumed; say --batch"));
    command_result r = command_run("estimate gpt2 --device h100-80 --context 1024");
    assert_null(strstr(r.out, "assumed"));
    command_free(&r);
    assert_true(
        command_says("estimate llama-3-8b --device h100-80 --gpus 4 --shard fsdp --batch 16 --context 2048",
                     3, " 16 x 2048 tokens at once on each of 4 devices, 64 samples a step, autocast"));
    assert_true(command_says("estimate gpt2 --gpus 4 --shard ddp --batch 16 --micro-batch 2 --context 64", 0,
                             " 2 x 64 tokens at once on each of 4 devices, 16 samples a step, autocast"));
    assert_true(
        command_says("estimate gpt2 --batch 16 --context 64", 0, " 16 x 64 tokens at once, autocast"));
    assert_true(command_says("help estimate", 0, "those of each"));
    assert_true(command_says("estimate llama-3.1-8b --device b200 --solve batch", 3,
                             "the whole context of 131072 tokens is assumed; say --context"));
    assert_true(command_says("estimate llama-3-8b --framework vllm --device h100-80", 0,
                             "GiB of the cache are left beside the texts that were asked for."));
    assert_true(command_says(
        "estimate gpt2 --framework snug --device mi300x --batch 2 --context 128", 0,
        "of mi300x its memory counts, and all times are of this machine's: snug has no kernels for it"));
    assert_true(
        command_says("estimate gpt2 --batch 8 --micro-batch 3 --emit hf", 2, "a step would have 9 samples"));
    assert_true(command_says("estimate gpt2 --batch 2 --micro-batch 4", 2, "a step would have 4 samples"));
    assert_true(command_says("estimate gpt2 --batch 4 --micro-batch 1 --gpus 8 --shard ddp", 2,
                             "a step would have 8 samples"));
    assert_true(command_says("estimate gpt2 --batch 8 --micro-batch 2 --gpus 3 --shard ddp", 2,
                             "micro-batches of 2 on each of 3 devices"));
    assert_true(command_says("estimate gpt2 --batch 9 --micro-batch 3 --emit hf", 0,
                             "gradient_accumulation_steps=3"));
}

/* The same words as above, for whatever is not turned. */
static void solving_says_what_is_assumed(void **state) {
    (void)state;
    static const char batch[] = "a batch of 8 is assumed; say --batch\n",
                      both[] =
                          "a batch of 8 and the whole context of 1024 tokens are assumed; say --batch and "
                          "--context\n";
    assert_true(command_says("estimate gpt2-xl --device a100-80 --solve context", 0, batch));
    assert_true(command_says("estimate gpt2-xl --device h100-80 --solve gpus", 0, both));
    assert_true(command_says("estimate gpt2 --solve gpu", 0, both));
    assert_true(command_says("estimate gpt2 --solve gpu --context 64", 0, batch));
    assert_true(command_says("estimate --fit gpt2 --device t4 --context 64", 0, batch));
    assert_true(command_says("estimate --solve model --fit gpt2 --device t4", 0, both));
    command_result r = command_run("estimate gpt2 --device t4 --solve batch --context 64");
    assert_null(strstr(r.out, "assumed"));
    command_free(&r);
    r = command_run("estimate gpt2 --solve gpu --context 64 --batch 8"); /* the default, but said */
    assert_null(strstr(r.out, "assumed"));
    command_free(&r);
}

/* "Does not fit" is an answer as well, and where it can't be written that is what counts. */
static void what_cannot_be_written_is_said(void **state) {
    (void)state;
    int full = open("/dev/full", O_WRONLY);
    if (full < 0) skip();
    command_result r =
        command_wait(command_start("estimate 7B --device t4 --batch 1 --context 64", NULL, full));
    close(full);
    if (r.exit != 1 || !strstr(r.err, "cannot write")) fail_msg("exit %d: %s", r.exit, r.err);
    assert_non_null(strstr(r.err, "does not fit t4"));
    command_free(&r);
}

static void help_says_where_the_names_are(void **state) {
    (void)state;
    assert_true(command_says("help estimate", 0, "published/ lists all models"));
}

/* What one device of many takes, by stage; sizes that can't be divided are said. */
static void megatron_divides_what_it_is_told(void **state) {
    (void)state;
#define MEGATRON "estimate llama-3-70b --framework megatron --micro-batch 1 --context 4096 --gpus 8 "
    assert_true(command_says(MEGATRON "--num-layers 12 --tensor-model-parallel-size 8 --sequence-parallel "
                                      "--use-distributed-optimizer",
                             0, "sequences divided, a share of the optimizer"));
    assert_true(command_says(MEGATRON "--num-layers 12 --pipeline-model-parallel-size 4 --json", 0,
                             "\"stage_3_bytes\""));
    assert_true(command_says(MEGATRON "--tensor-model-parallel-size 8 --gpu h100-80", 3, "Does not fit"));
    assert_true(command_says(MEGATRON "--pipeline-model-parallel-size 3", 2, "say a multiple of 3"));
    assert_true(
        command_says(MEGATRON "--num-layers 4 --pipeline-model-parallel-size 8", 2, "a stage has none"));
    assert_true(command_says(MEGATRON "--dtype half", 2, "--dtype is for"));
    assert_true(
        command_says("estimate llama-3-8b --tensor-model-parallel-size 2", 2, "--framework megatron"));
    assert_true(command_says("estimate bert-base --framework megatron --context 128", 2, "is no decoder"));
    assert_true(command_says("estimate gemma-2-2b --framework megatron --context 128", 2, "don't know"));
    assert_true(
        command_says("estimate llama-3-8b --framework megatron --micro-batch 1048576 --context 16777216 "
                     "--num-layers 1024",
                     2, "can be counted"));
    assert_true(
        command_says("estimate " SNUG_ROOT "/bench/estimate/models/megatron-deepseek-v2.json --framework "
                     "megatron --num-layers 4 --micro-batch 1 --gpus 8 --expert-model-parallel-size 8",
                     0, "experts by 8"));
}

int main(void) {
    const struct CMUnitTest tests[] = { cmocka_unit_test(megatron_divides_what_it_is_told),
                                        cmocka_unit_test(it_fits_or_it_does_not),
                                        cmocka_unit_test(a_recorded_step_is_answered),
                                        cmocka_unit_test(a_recording_that_tells_less_is_answered),
                                        cmocka_unit_test(the_change_that_is_named_suffices),
                                        cmocka_unit_test(training_stays_as_it_is_where_it_can),
                                        cmocka_unit_test(where_nothing_fits_something_comes_nearest),
                                        cmocka_unit_test(own_devices_are_files),
                                        cmocka_unit_test(ways_to_train_are_what_pytorch_counted),
                                        cmocka_unit_test(litgpt_is_what_pytorch_counted),
                                        cmocka_unit_test(litgpt_ties_no_heads_and_says_so),
                                        cmocka_unit_test(updates_are_what_pytorch_counted),
                                        cmocka_unit_test(contradictions_get_a_sentence),
                                        cmocka_unit_test(messages_are_explained),
                                        cmocka_unit_test(savings_are_of_what_was_held),
                                        cmocka_unit_test(messages_of_other_tools_are_explained),
                                        cmocka_unit_test(switches_come_before_devices),
                                        cmocka_unit_test(a_mac_is_no_cuda),
                                        cmocka_unit_test(a_column_has_one_unit),
                                        cmocka_unit_test(names_are_understood),
                                        cmocka_unit_test(answers_say_what_they_are_of),
                                        cmocka_unit_test(solving_says_what_is_assumed),
                                        cmocka_unit_test(what_cannot_be_written_is_said),
                                        cmocka_unit_test(help_says_where_the_names_are) };
    return cmocka_run_group_tests(tests, scratch_open, scratch_close);
}
