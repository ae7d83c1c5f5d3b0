/* snug estimate --emit: each configuration is read by its own language's reader, says the numbers of the
 * estimate, and, where the tool's library is installed, is read by it (tests/cli/emit.py). */
#define _GNU_SOURCE
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <yaml.h>

#include "cli/command.h"
#include "io/scratch.h"

/* What was asked, and which words the configuration has to say. */
typedef struct {
    const char *tool, *asked;
    const char *says[6];
} asked;

#define QLORA                                                                                                \
    "llama-2-7b --device rtx-4090 --batch 8 --micro-batch 2 --context 1024 --adapter-rank 16 --base-bits 4 " \
    "--gradient-checkpointing"
#define SHARED                                                                                               \
    "llama-3-8b --device h100-80 --gpus 8 --shard fsdp --batch 64 --micro-batch 2 --context 4096 "           \
    "--gradient-checkpointing"
#define ZERO "llama-3-8b --device h100-80 --gpus 8 --shard zero3 --batch 64 --micro-batch 2 --context 2048 "

static const asked cases[] = {
    { "hf",
      QLORA,
      { "per_device_train_batch_size=2,", "gradient_accumulation_steps=4,", "optim=\"adamw_torch_fused\"",
        "bnb_4bit_quant_type=\"nf4\"", "r=16,", "CONTEXT = 1024" } },
    { "hf",
      QLORA " --adapter-targets q_proj,v_proj --adapter-dropout 0.05 --base-scales f32",
      { "target_modules=[\"q_proj\", \"v_proj\"]", "lora_dropout=0.05", "bnb_4bit_use_double_quant=False" } },
    { "hf", SHARED, { "fsdp=True", "\"activation_checkpointing\": True", "gradient_accumulation_steps=4," } },
    { "hf", ZERO "--optimizer-bits 8", { "optim=\"adamw_bnb_8bit\"", "deepspeed=\"deepspeed.json\"" } },
    { "hf",
      "gpt2 --device v100-32 --batch 4 --attn eager --loss fused --optimizer lion",
      { "fp16=True", "attn_implementation=\"eager\"", "use_liger_kernel=True", "optim=\"lion_32bit\"" } },
    { "hf",
      "gpt2 --device a10 --batch 4 --optimizer sgd --momentum 0.9 --dtype float32",
      { "optim=\"sgd\"", "momentum=0.9", "dtype=torch.float32" } },
    { "hf", "bert-base --batch 2", { "AutoModelForMaskedLM.from_pretrained(" } },
    { "hf", "resnet-50 --batch 2", { "AutoModelForImageClassification.from_pretrained(" } },
    { "torch",
      "gpt2 --framework pytorch --device a10 --batch 4 --gradient-checkpointing",
      { "MICRO_BATCH = 4", "foreach=True", "dtype=torch.bfloat16", "use_reentrant=False" } },
    { "torch", SHARED " --framework pytorch", { "fully_shard(model", "ACCUMULATE = 4", "param_dtype=" } },
    { "hf", "bert-base --batch 2", { "AutoModelForMaskedLM.from_pretrained(" } },
    { "hf", "resnet-50 --batch 2", { "AutoModelForImageClassification.from_pretrained(" } },
    { "torch",
      "gpt2 --framework pytorch --device a10 --gpus 2 --shard ddp --optimizer adafactor --dtype half",
      { "DistributedDataParallel(model)", "torch.optim.Adafactor", "torch.bfloat16" } },
    { "torch",
      "gpt2 --framework pytorch --device v100-32 --batch 2",
      { "dtype=torch.float16", "scaler = torch.amp.GradScaler(\"cuda\")", "scaler.scale(loss).backward()",
        "scaler.unscale_(optimizer)\n    torch.nn.utils.clip_grad_norm_(model.parameters(), CLIP)",
        "scaler.step(optimizer)", "scaler.update()" } },
    { "torch",
      "gpt2 --framework pytorch --device v100-32 --batch 2 --dtype half",
      { "torch.float16", "# weights of fp16 have no loss scale", "        loss.backward()", "CLIP)",
        "    optimizer.step()" } },
    { "deepspeed",
      "gpt2-xl --device v100-32 --gpus 4 --shard zero2 --batch 8 --micro-batch 2 --optimizer lion",
      { "\"stage\": 2", "\"zero_allow_untested_optimizer\": true" } },
    { "deepspeed",
      ZERO,
      { "\"stage\": 3", "\"train_batch_size\": 64", "\"gradient_accumulation_steps\": 4" } },
    { "accelerate", SHARED, { "distributed_type: FSDP", "num_processes: 8", "mixed_precision: bf16" } },
    { "accelerate", ZERO, { "distributed_type: DEEPSPEED", "zero_stage: 3" } },
    { "hf",
      "meta-llama/Meta-Llama-3-8B --device b200 --batch 1 --context 512",
      { "MODEL = \"meta-llama/Meta-Llama-3-8B\"", "# snug estimate: \"meta-llama/Meta-Llama-3-8B\" takes" } },
    { "hf", "llama-3-8b --device b200 --batch 1 --context 512", { "MODEL = \"llama-3-8b\"" } },
    { "trl",
      "qwen2.5-0.5b --trainer grpo --device h100-80 --batch 16 --micro-batch 4 --context 1024 --completion "
      "768 "
      "--generations 8 --beta 0.04 --gradient-checkpointing",
      { "GRPOConfig(", "per_device_train_batch_size=4,", "gradient_accumulation_steps=4,",
        "max_completion_length=768,", "num_generations=8,", "beta=0.04," } },
    { "trl",
      "qwen2.5-0.5b --trainer grpo --device h100-80 --batch 8 --context 1024 --adapter-rank 16 --base-bits 4 "
      "--rollouts vllm-sleep --vllm-gpu-memory-utilization 0.4",
      { "use_vllm=True,", "vllm_mode=\"colocate\"", "vllm_gpu_memory_utilization=0.4,",
        "vllm_enable_sleep_mode=True,", "peft_config=adapter,", "quantization_config\": quantization" } },
    { "trl",
      "qwen2.5-1.5b --trainer grpo --device h100-80 --gpus 4 --shard fsdp --batch 8 --context 1024 "
      "--rollouts server",
      { "vllm_mode=\"server\"", "fsdp=True", "accelerate launch --num_processes 4" } },
    { "axolotl",
      "meta-llama/Meta-Llama-3-8B --device b200 --batch 1 --context 512",
      { "base_model: \"meta-llama/Meta-Llama-3-8B\"" } },
    { "vllm",
      "meta-llama/Meta-Llama-3-8B --framework vllm --device h100-80",
      { "vllm serve meta-llama/Meta-Llama-3-8B \\" } },
    { "sglang",
      "meta-llama/Meta-Llama-3-8B --framework sglang --device h100-80 --mem-fraction-static 0.8",
      { "sglang.launch_server --model-path meta-llama/Meta-Llama-3-8B \\", "--context-length 8192",
        "--mem-fraction-static 0.800", "--cuda-graph-max-bs-decode 256" } },
    { "sglang",
      "llama-3-8b --framework sglang --device h100-80 --gpus 2 --quantization fp8 --kv-cache-dtype fp8_e4m3 "
      "--max-running-requests 32 --disable-cuda-graph",
      { "--tp-size 2", "--quantization fp8", "--max-running-requests 32", "--disable-cuda-graph",
        "--kv-cache-dtype fp8_e4m3" } },
    { "tensorrt-llm",
      "meta-llama/Meta-Llama-3-8B --framework trtllm --device h100-80 --kv-cache-free-gpu-memory-fraction "
      "0.8",
      { "trtllm-serve meta-llama/Meta-Llama-3-8B \\", "--kv_cache_free_gpu_memory_fraction 0.8",
        "--max_batch_size 2048" } },
    { "tensorrt-llm",
      "llama-3-8b --framework tensorrt-llm --device h100-80 --quantization fp8 --disable-cuda-graph",
      { "whose weights are quantized already", "cuda_graph_config: null" } },
    { "torch",
      "openai-community/gpt2 --framework pytorch --device a10 --batch 4",
      { "# snug estimate: \"openai-community/gpt2\" takes" } },
    { "accelerate",
      "openai-community/gpt2 --device a10 --batch 4",
      { "# snug estimate: \"openai-community/gpt2\" takes" } },
    { "accelerate", "gpt2 --batch 4 --dtype float32", { "distributed_type: 'NO'", "mixed_precision: 'no'" } },
    { "hf", QLORA " --use-dora", { "use_dora=True,", "r=16," } },
    { "axolotl", QLORA " --use-dora", { "adapter: qlora", "peft_use_dora: true" } },
    { "hf",
      QLORA " --adapter-targets q_proj,v_proj --adapter-dropout 0.05",
      { "target_modules=[\"q_proj\", \"v_proj\"],", "lora_dropout=0.05," } },
    { "axolotl",
      QLORA " --adapter-targets q_proj,v_proj --adapter-dropout 0.05",
      { "lora_target_modules: [\"q_proj\", \"v_proj\"]", "lora_dropout: 0.05" } },
    { "axolotl", QLORA, { "adapter: qlora", "lora_r: 16", "micro_batch_size: 2", "sequence_len: 1024" } },
    { "axolotl",
      QLORA " --adapter-targets q_proj,v_proj --adapter-dropout 0.05 --base-scales f32",
      { "lora_target_modules: [\"q_proj\", \"v_proj\"]", "lora_dropout: 0.05",
        "bnb_4bit_use_double_quant: false" } },
    { "hf", SHARED " --reentrant", { "\"use_reentrant\": True", "\"activation_checkpointing\": False" } },
    { "axolotl", SHARED " --reentrant", { "use_reentrant: true", "activation_checkpointing: false" } },
    { "axolotl", SHARED, { "fsdp_version: 2", "gradient_accumulation_steps: 4" } },
    { "vllm",
      "llama-3-8b --framework vllm --device rtx-4090 --context 8192 --kv-cache-dtype fp8 --enforce-eager",
      { "--max-model-len 8192", "--kv-cache-dtype fp8", "--enforce-eager",
        "--gpu-memory-utilization 0.92" } },
    { "vllm",
      "llama-3-8b --framework vllm --device h100-80 --gpus 2 --quantization fp8",
      { "--tensor-parallel-size 2", "--quantization fp8", "--max-num-seqs 1024" } },
    { "llama.cpp",
      "llama-3-8b --framework llama.cpp --device rtx-4090 --context 4096 --requests 2 --cache-type-k q8_0 "
      "--ubatch-size 4096",
      { "llama-3-8b-Q4_K_M.gguf", "--ctx-size 8192", "--parallel 2", "--cache-type-k q8_0",
        "--n-gpu-layers 33", "--batch-size 4096" } },
};
enum { CASES = sizeof cases / sizeof *cases };

static char *emitted(const char *tool, const char *line, int exit) {
    char whole[2048];
    snprintf(whole, sizeof whole, "estimate %s --emit %s", line, tool);
    command_result r = command_run(whole);
    if (r.exit != exit) fail_msg("snug %s: exit %d: %s", whole, r.exit, r.err);
    free(r.err);
    return r.out;
}

/* ---- readers ---- */

static void read_yaml(const char *said) {
    yaml_parser_t parser;
    yaml_event_t event = { 0 };
    bool more = true;
    assert_int_equal(yaml_parser_initialize(&parser), 1);
    yaml_parser_set_input_string(&parser, (const unsigned char *)said, strlen(said));
    while (more) {
        if (!yaml_parser_parse(&parser, &event)) fail_msg("no YAML: %s\n%s", parser.problem, said);
        more = event.type != YAML_STREAM_END_EVENT;
        yaml_event_delete(&event);
    }
    yaml_parser_delete(&parser);
}

static void read_json(const char *said) {
    json_document d;
    if (json_parse("emitted", said, strlen(said), &d) != STATUS_OK) fail_msg("%s", said);
    json_close(&d);
}

static void read_by(const char *program, const char *said) {
    char command[128];
    scratch_write("emitted", said, strlen(said));
    snprintf(command, sizeof command, "command -v %s >/dev/null",
             strncmp(program, "python3", 7) ? "sh" : "python3");
    if (system(command) != 0) return;
    snprintf(command, sizeof command, "%s emitted >answer 2>&1", program);
    if (system(command) != 0) fail_msg("%s: %s", program, said);
}

static void read_as(const char *tool, const char *said) {
    if (strcmp(tool, "hf") == 0 || strcmp(tool, "torch") == 0 || strcmp(tool, "trl") == 0)
        read_by("python3 -m py_compile", said);
    else if (strcmp(tool, "accelerate") == 0 || strcmp(tool, "axolotl") == 0)
        read_yaml(said);
    else if (strcmp(tool, "deepspeed") == 0)
        read_json(said);
    else
        read_by("sh -n", said);
}

static void what_is_emitted_is_read_and_says_what_was_asked(void **state) {
    (void)state;
    for (int i = 0; i < CASES; i++) {
        char *said = emitted(cases[i].tool, cases[i].asked, 0);
        read_as(cases[i].tool, said);
        for (int k = 0; k < 6 && cases[i].says[k]; k++)
            if (!strstr(said, cases[i].says[k]))
                fail_msg("--emit %s of %s lacks '%s':\n%s", cases[i].tool, cases[i].asked, cases[i].says[k],
                         said);
        free(said);
    }
}

/* ---- the numbers ---- */

/* The settings of --emit json, as options again. */
static void add_options(char *line, size_t room, const json_document *d) {
    json_value settings, member;
    void *cursor = NULL;
    assert_int_equal(json_get(d->root, "settings", &settings), STATUS_OK);
    while (json_next(settings, &cursor, &member)) {
        size_t used = strlen(line);
        const char *word;
        double number;
        bool flag;
        if (strcmp(member.key, "shard") == 0 && json_as_string(member, &word) == STATUS_OK &&
            strcmp(word, "none") == 0)
            continue;
        if (json_as_bool(member, &flag) == STATUS_OK)
            snprintf(line + used, room - used, flag ? " --%s" : " ", member.key);
        else if (json_as_string(member, &word) == STATUS_OK)
            snprintf(line + used, room - used, " --%s %s", member.key, word);
        else if (json_as_number(member, -1e18, 1e18, &number) == STATUS_OK)
            snprintf(line + used, room - used, " --%s %.15g", member.key, number);
    }
}

/* What does not fit as it was asked is emitted as advised; asked for again, that fits, in the same bytes. */
static void what_is_emitted_fits(void **state) {
    (void)state;
    static const struct {
        const char *model, *device, *framework, *asked;
    } runs[] = {
        { "llama-3-8b", "h100-80", "hf", "--batch 1 --context 4096" },
        { "llama-3.2-1b", "a10", "hf", "--batch 8 --micro-batch 2 --context 4096 --dtype float32" },
        { "gpt2-xl", "v100-32", "pytorch", "--batch 8" },
        { "llama-3-70b", "h200", "hf", "--gpus 8 --shard zero2 --batch 16 --micro-batch 2 --context 4096" },
        { "llama-3-70b", "h100-80", "vllm", "" },
        { "qwen2.5-7b", "rtx-4090", "vllm", "" },
        { "llama-3-70b", "h100-80", "sglang", "" },
        { "qwen2.5-7b", "rtx-4090", "sglang", "" },
        { "llama-3-70b", "h100-80", "tensorrt-llm", "" },
        { "llama-3-70b", "rtx-4090", "llama.cpp", "" },
        { "llama-3.1-8b", "rtx-3090", "llama.cpp", "--gguf Q8_0" },
        { "mistral-7b", "a10", "hf",
          "--batch 4 --context 4096 --libraries 2023 --adapter-rank 16 --adapter-targets q_proj,v_proj "
          "--adapter-dropout 0.1 --keeps-output --dtype half" },
        { "gpt2", "a100-40", "hf", "--batch 4" },
        { "7B", "a100-80", "litgpt",
          "--adapter-rank 8 --adapter-targets q_proj --adapter-dropout 0.1 --batch 64 --micro-batch 1" },
    };
    enum { ADVISED = 12 };
    for (size_t i = 0; i < sizeof runs / sizeof *runs; i++) {
        char line[1024];
        json_document d, again;
        snprintf(line, sizeof line, "%s --device %s --framework %s %s", runs[i].model, runs[i].device,
                 runs[i].framework, runs[i].asked);
        char *said = emitted("json", line, i < ADVISED ? 3 : 0);
        assert_int_equal(json_parse("emitted", said, strlen(said), &d), STATUS_OK);
        snprintf(line, sizeof line, "estimate %s --device %s --framework %s --json --quiet", runs[i].model,
                 runs[i].device, runs[i].framework);
        add_options(line, sizeof line, &d);
        command_result r = command_run(line);
        if (r.exit != 0) fail_msg("snug %s: exit %d: %s", line, r.exit, r.err);
        assert_int_equal(json_parse("estimate", r.out, strlen(r.out), &again), STATUS_OK);
        assert_true(command_number(&again, "device_bytes.likely") ==
                    command_number(&d, "device_bytes.likely"));
        json_close(&d);
        json_close(&again);
        command_free(&r);
        free(said);
    }
}

/* Whatever the advice does to micro-batch and devices, a step has the samples that were asked for. */
static void steps_keep_their_samples(void **state) {
    (void)state;
    static const char *const runs[] = {
        "llama-3-70b --device h200 --gpus 8 --shard zero3 --batch 64 --micro-batch 4 --context 8192",
        "llama-3-70b --device h100-80 --gpus 4 --shard zero1 --batch 32 --micro-batch 8",
    };
    for (int i = 0; i < 2; i++) {
        json_document d;
        char *said = emitted("deepspeed", runs[i], 3);
        assert_int_equal(json_parse("emitted", said, strlen(said), &d), STATUS_OK);
        assert_true(command_number(&d, "train_batch_size") == (i ? 32 : 64));
        json_close(&d);
        free(said);
    }
}

/* What lies just below the device's end says so, in what is written and beside it, and what is advised then
 * leaves room. */
static void what_fits_only_barely_says_so(void **state) {
    (void)state;
    static const char *const lines[] = {
        "estimate gpt2 --device t4 --context 512 --batch 16 --emit hf",
        "estimate gpt2 --device t4 --context 512 --solve batch --emit hf",
        "estimate llama-3-8b --cluster ascend --batch 1 --context 4096 --emit slurm",
    };
    for (int i = 0; i < 3; i++) {
        command_result r = command_run(lines[i]);
        const char *written = strstr(r.out, "fits only barely: ");
        const char *said = strstr(r.err, "fits only barely: ");
        if (r.exit != 0) fail_msg("%s: exit %d: %s", lines[i], r.exit, r.err);
        assert_true(written && said);
        assert_non_null(strstr(written, i < 2 ? "; room is left with --loss fused, which takes 8840.0 MiB"
                                              : "; room is left with --gpus 4 --shard fsdp, which takes "));
        command_free(&r);
    }
    command_result r =
        command_run("estimate gpt2 --device t4 --context 512 --batch 16 --loss fused --emit hf");
    assert_int_equal(r.exit, 0);
    assert_null(strstr(r.out, "barely"));
    assert_null(strstr(r.err, "barely"));
    command_free(&r);
    assert_true(command_says("estimate 7B --device rtx-4090 --batch 1 --context 512 --emit hf", 3,
                             "# beyond what was asked: --adapter-rank 16 (changes what is trained)\n"));
}

/* With --solve it is the settings that were found. */
static void what_is_found_is_emitted(void **state) {
    (void)state;
    static const struct {
        const char *asked, *key;
    } questions[] = { { "gpt2 --device t4 --context 512 --solve batch", "settings.micro-batch" },
                      { "gpt2-large --device t4 --batch 1 --solve context", "settings.context" },
                      { "llama-3-8b --device h100-80 --batch 1 --context 4096 --solve gpus",
                        "settings.gpus" },
                      { "--device t4 --batch 1 --context 256 --fit gpt2", "model" },
                      { "gpt2-xl --batch 1 --context 256 --solve gpu", "device" } };
    for (size_t i = 0; i < sizeof questions / sizeof *questions; i++) {
        json_document d, answer;
        char line[256];
        const char *found, *written;
        char *said = emitted("json", questions[i].asked, 0);
        assert_int_equal(json_parse("emitted", said, strlen(said), &d), STATUS_OK);
        snprintf(line, sizeof line, "estimate %s --json --quiet", questions[i].asked);
        command_result r = command_run(line);
        assert_int_equal(json_parse("answer", r.out, strlen(r.out), &answer), STATUS_OK);
        if (json_as_string(command_value(&answer, "value"), &found) == STATUS_OK) {
            assert_int_equal(json_as_string(command_value(&d, questions[i].key), &written), STATUS_OK);
            assert_string_equal(written, found);
        } else {
            assert_true(command_number(&d, questions[i].key) == command_number(&answer, "value"));
            assert_true(command_number(&answer, "value") > 1);
        }
        json_close(&answer);
        json_close(&d);
        command_free(&r);
        free(said);
    }
}

static void what_no_tool_can_say_gets_a_sentence(void **state) {
    (void)state;
    static const char *const wrong[][2] = {
        { "gpt2 --emit vllm", "is for --framework vllm" },
        { "gpt2 --framework vllm --emit hf", "is for --framework hf" },
        { "gpt2 --framework snug --emit json", "by snug itself" },
        { "gpt2 --emit json --json", "one of them" },
        { "gpt2 --emit deepspeed", "zero1, zero2 or zero3" },
        { "gpt2 --emit hf --optimizer sgd --optimizer-bits 8", "adamw and lion only" },
        { "gpt2 --emit torch --adapter-rank 4", "PEFT" },
        { "gpt2 --emit torch --gpus 2 --shard zero3", "DeepSpeed" },
        { "bert-base --emit axolotl", "for decoders" },
        { "gpt2 --emit hf --libraries 2023", "today's" },
        { "gpt2 --emit slurms", "slurms" },
    };
    for (size_t i = 0; i < sizeof wrong / sizeof *wrong; i++) {
        char line[256];
        snprintf(line, sizeof line, "estimate %s", wrong[i][0]);
        command_result r = command_run(line);
        if (r.exit != 2 || !strstr(r.err, wrong[i][1]) || *r.out)
            fail_msg("snug %s: exit %d: %s%s", line, r.exit, r.out, r.err);
        command_free(&r);
    }
    scratch_write("small.yaml", "memory: 500MiB\n", 15);
    char *said = emitted("hf", "gpt2 --device small.yaml", 3);
    assert_string_equal(said, ""); /* nothing fits, nothing is written */
    free(said);
}

/* ---- the libraries ---- */

static bool find_python(const char *packages, char python[256]) {
    const char *named = getenv("SNUG_PYTHON");
    char list[2048], command[512], *rest = list;
    snprintf(list, sizeof list, "%s", named && *named ? named : "python3");
    for (char *one; (one = strsep(&rest, ":"));) {
        snprintf(python, 256, "%s", one);
        snprintf(command, sizeof command, "'%s' -c 'import %s' >probe 2>&1", python, packages);
        if (system(command) == 0) return true;
    }
    print_message("skipped: no Python here has %s; SNUG_PYTHON names interpreters that do\n", packages);
    return false;
}

static void ask(const char *tool, const char *packages) {
    char python[256], command[2048];
    if (!find_python(packages, python)) skip();
    snprintf(command, sizeof command, "'%s' '%s/tests/cli/emit.py' %s", python, SNUG_ROOT, tool);
    for (int i = 0; i < CASES; i++) {
        char name[32];
        if (strcmp(cases[i].tool, tool) != 0) continue;
        char *said = emitted(tool, cases[i].asked, 0);
        snprintf(name, sizeof name, "emitted-%d", i);
        scratch_write(name, said, strlen(said));
        strcat(strcat(command, " "), name);
        free(said);
    }
    strcat(command, " >answer 2>&1");
    if (system(command) != 0) {
        char said[2048] = "";
        FILE *file = fopen("answer", "r");
        if (fseek(file, -(long)sizeof said + 1, SEEK_END) != 0) rewind(file); /* what is wrong is said last */
        said[fread(said, 1, sizeof said - 1, file)] = 0;
        fclose(file);
        fail_msg("%s", said);
    }
}

/* It reads the file that the arguments name as well. */
static void transformers_knows_every_argument(void **state) {
    (void)state;
    char *said = emitted("deepspeed", ZERO "--optimizer-bits 8", 0);
    scratch_write("deepspeed.json", said, strlen(said));
    free(said);
    ask("hf", "transformers, torch, accelerate, peft, deepspeed");
}

static void torch_knows_every_argument(void **state) {
    (void)state;
    ask("torch", "torch.distributed.fsdp, torch.nn.attention");
}

static void accelerate_knows_every_key(void **state) {
    (void)state;
    ask("accelerate", "accelerate, yaml");
}

static void deepspeed_reads_it(void **state) {
    (void)state;
    ask("deepspeed", "deepspeed.runtime.config");
}

static void axolotl_reads_it(void **state) {
    (void)state;
    ask("axolotl", "axolotl.utils.schemas.config, yaml");
}

static void vllm_reads_it(void **state) {
    (void)state;
    ask("vllm", "vllm.engine.arg_utils");
}

int main(void) {
    const struct CMUnitTest tests[] = { cmocka_unit_test(what_is_emitted_is_read_and_says_what_was_asked),
                                        cmocka_unit_test(what_is_emitted_fits),
                                        cmocka_unit_test(steps_keep_their_samples),
                                        cmocka_unit_test(what_fits_only_barely_says_so),
                                        cmocka_unit_test(what_is_found_is_emitted),
                                        cmocka_unit_test(what_no_tool_can_say_gets_a_sentence),
                                        cmocka_unit_test(transformers_knows_every_argument),
                                        cmocka_unit_test(torch_knows_every_argument),
                                        cmocka_unit_test(accelerate_knows_every_key),
                                        cmocka_unit_test(deepspeed_reads_it),
                                        cmocka_unit_test(axolotl_reads_it),
                                        cmocka_unit_test(vllm_reads_it) };
    return cmocka_run_group_tests(tests, scratch_open, scratch_close);
}
