/* The table of commands. */
#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>

#include "base/nearest.h"
#include "cli/cli.h"
#include "io/published.h"

static const char *shells(void) { return "bash, zsh, fish"; }

const char *cli_model_names(void) {
    static char names[4096];
    size_t used = (size_t)snprintf(names, sizeof names, "%s", families_preset_names());
    for (const published_model *x = published_models; x->name && used + 1 < sizeof names; x++)
        used += (size_t)snprintf(names + used, sizeof names - used, ", %s", x->name);
    return names;
}

const cli_command cli_commands[] = {
    { .command = COMMAND_PLAN,
      .name = "plan",
      .subject = "MODEL",
      .subjects = cli_model_names,
      .run = cli_plan,
      .brief = "what a run needs, what was chosen and why; 3 if it can't fit",
      .about =
          "Says what training MODEL needs, byte by byte, which techniques meet the budget at the least cost "
          "in time, and what is alive at the peak. Nothing is trained. MODEL is a preset or a published "
          "model "
          "(see 'snug help'), a size as 7B, a config.json or a Hugging Face model directory.",
      .examples = { { "snug plan gpt2 --batch 8 --context 512", "what it takes, with no limit set" },
                    { "snug plan gpt2 --batch 8 --memory 2GiB",
                      "what makes it fit into 2 GiB, at what cost" },
                    { "snug plan gpt2 --memory auto --exact",
                      "in what is free; the same bits at any budget" },
                    { "snug plan my-model --json | jq .least_budget_bytes", "for programs" } } },
    { .command = COMMAND_TRAIN,
      .name = "train",
      .subject = "MODEL",
      .subjects = families_preset_names,
      .run = cli_train,
      .brief = "plan, then train: --data PATH --out DIR",
      .about =
          "Plans the run, then trains MODEL on --data and writes it to --out as a Hugging Face directory. "
          "What does not fit is refused before the first step. Ctrl-C finishes the step and saves; a second "
          "one stops at once. Where the model has a tokenizer.json, tokens are made of text first; "
          "elsewhere text is read as bytes.",
      .examples = { { "snug train char-small --data book.txt --out model --steps 500", "a first run" },
                    { "snug train char-small --data book.txt --out model --batch 64 --memory 96MiB",
                      "a batch that plain training would not fit" },
                    { "snug train model --data book.txt --eval-only", "the loss of what was trained" },
                    { "snug train model --data letters/ --out tuned --lr 1e-4 --eval-every 100",
                      "goes on from a model" },
                    { "snug train --config run.yaml --seed 7", "options from a file, but another seed" } } },
    { .command = COMMAND_TOKENIZE,
      .name = "tokenize",
      .subject = "DIR",
      .run = cli_tokenize,
      .brief = "documents into one file of tokens, for train: --data PATH --out FILE",
      .about =
          "Makes tokens of documents as the tokenizer.json in the model directory DIR says, once, so that "
          "trainings need not: texts, prompts with completions, or chats through the model's chat template. "
          "The file says where documents end and which tokens are learned. It is the same with any number of "
          "threads, in memory that does not grow with the data. What was stopped or killed goes on with the "
          "same command.",
      .examples = { { "snug tokenize my-model --data books/ --out books.safetensors",
                      "texts: a file is one" },
                    { "snug tokenize my-model --data chats.jsonl --out chats.safetensors",
                      "records with messages and tools, or prompt and completion, or text" },
                    { "snug tokenize my-model --data qa.csv --columns prompt=q,completion=a --out "
                      "qa.safetensors",
                      "columns of other names" },
                    { "snug train my-model --data chats.safetensors --out tuned", "and training on it" } } },
    { .command = COMMAND_PROFILE,
      .name = "profile",
      .subject = "MODEL",
      .subjects = families_preset_names,
      .run = cli_profile,
      .brief = "where the time of a training step goes, and what would be its bound",
      .about =
          "Plans as train does, runs a few steps and writes no model. Shows the time by op and by block "
          "beside what was predicted and what the machine can't beat, and memory as planned and measured. "
          "Without --data the samples are random numbers.",
      .examples = { { "snug profile gpt2 --batch 4 --context 256", "where a step's time goes" },
                    { "snug profile gpt2 --batch 4 --memory 2GiB --steps 3", "what techniques cost in it" },
                    { "snug profile char-small --trace step.json", "for ui.perfetto.dev, with memory" },
                    { "snug profile char-small --json | jq .profile.by_op", "for programs" } } },
    { .command = COMMAND_COMPARE,
      .name = "compare",
      .subject = "MODEL",
      .subjects = cli_model_names,
      .run = cli_compare,
      .brief = "every technique beside plain training: bytes, time, and what results do",
      .about =
          "Plans the run with each technique alone, and with all of them one after the other, beside plain "
          "training. With --measure every row is also run, in a process of its own: its peak as the system "
          "counts it, the time of a step, and the loss. Rows that save nothing say so. Without --data the "
          "samples are random numbers.",
      .examples = { { "snug compare gpt2 --batch 4 --context 256", "what each technique would save" },
                    { "snug compare gpt2 --batch 4 --context 256 --measure --svg gpt2.svg",
                      "what it does save, and a chart of it" },
                    { "snug compare char-small --data book.txt --measure --steps 200 --allow all",
                      "and what it does to the loss" },
                    { "snug compare gpt2 --json | jq '.rows[].name'", "for programs" } } },
    { .command = COMMAND_ESTIMATE,
      .name = "estimate",
      .subject = "[MODEL]",
      .subjects = cli_model_names,
      .run = cli_estimate,
      .brief = "does it fit, on hardware and in frameworks that are elsewhere; 3 if it doesn't",
      .about = "Says what training MODEL takes of a device in PyTorch, with or without Hugging Face's "
               "transformers, or in "
               "snug: live, reserved and of the whole device, each with an interval; by how much it fits, "
               "which term is "
               "the largest, and the cheapest change that makes it fit. Needs no GPU and allocates nothing. "
               "MODEL is a "
               "config.json, a Hugging Face model directory, a preset, a published model as llama-3-8b, a "
               "size as 7B, or a step of any model that --recipe's program recorded. In snug's sources "
               "published/ lists all models that have a name, devices/ all "
               "devices; of a name that is not known the answer says which are nearest.",
      .examples = { { "snug estimate llama-3-8b --gpu h100-80 --batch 1 --context 4096", "does it fit?" },
                    { "snug estimate 7B --gpu rtx-4090 --batch 4 --context 2048 --adapter-rank 16 "
                      "--base-bits 4",
                      "QLoRA on a desktop" },
                    { "snug estimate config.json --framework snug --gpu v100-32", "and in snug?" },
                    { "snug estimate llama-3-8b --gpu h100-80 --solve context", "how long a context?" },
                    { "snug estimate --recipe hf > step.py && python step.py config.json",
                      "a step of any model, recorded without a GPU ..." },
                    { "snug estimate step.json --gpu h100-80 --batch 8", "... and read" },
                    { "snug estimate --fit qwen3 --gpu a100-40 --context 4096", "how large a model?" },
                    { "snug estimate 70B --gpu h100-80 --gpus 16 --shard fsdp --json | jq .fits",
                      "for programs" } } },
    { .command = COMMAND_ADMIT,
      .name = "admit",
      .subject = "[JOB.sh]",
      .run = cli_admit,
      .brief = "will a Slurm job fit the GPUs that it asks for? 3 if it surely doesn't",
      .about =
          "Reads the job script JOB.sh without running any of it: what it asks Slurm for, which command of "
          "it trains or serves, and what that says of model, batch, length, types, optimizer and "
          "shares. Estimates as 'snug estimate' does, and says whether it fits the device, by how much, "
          "and the cheapest change that would. Behind JOB.sh may stand options of sbatch and arguments of "
          "the script; behind -- all is as on sbatch's own line. What can't be seen is said, and admitted: "
          "only what does not fit by the lower end of the interval is refused. JOB.sh - is the standard "
          "input.",
      .examples = { { "snug admit job.sh", "will it fit?" },
                    { "snug admit --cluster site.yaml job.sh --gres=gpu:a100:2",
                      "with the site's own names of devices" },
                    { "snug admit --policy warn -- --partition=gpu job.sh 3", "as on sbatch's line" },
                    { "snug admit job.sh --json | jq .answer", "for programs" } } },
    { .command = COMMAND_EXPLAIN,
      .name = "explain-oom",
      .subject = "[FILE]",
      .run = cli_explain,
      .brief = "what a message on memory that ran out means, and what to try",
      .about = "Reads what PyTorch says when memory runs out, in its old and new spellings and on five kinds "
               "of device, what vLLM, llama.cpp, TensorFlow, JAX, NCCL or CUDA say, data loaders, Slurm, "
               "PBS or the kernel, from FILE or from the standard input, with whatever stands around it. "
               "Says what happened, what held the memory, why it ran out as far as the text shows it, where "
               "by the traceback, what to paste to know more, and the next three things to try. With --for "
               "MODEL and the settings of the run their savings are in bytes.",
      .examples = { { "snug explain-oom slurm-123456.out", "the last message in a log" },
                    { "snug explain-oom - --for llama-3-8b --batch 4 --context 4096",
                      "pasted; with savings" },
                    { "snug explain-oom log.txt --json | jq .cause", "for programs" } } },
    { .command = COMMAND_SNAPSHOT,
      .name = "snapshot",
      .subject = "[FILE...]",
      .many = true,
      .run = cli_snapshot,
      .brief = "where the memory of a job in PyTorch goes, from its allocator's recording",
      .about =
          "Reads what torch.cuda.memory._dump_snapshot writes, and traces and memory timelines of "
          "torch.profiler, also packed by gzip, as pure data: a file that would run code is refused. Says "
          "when memory peaks and who holds it then, as weights, gradients, "
          "optimizer state, activations by block and line, and what says so; what is reserved and free; what "
          "grows from step to step; why a request was not served; and what would help, in bytes. Several "
          "files, of ranks or before and after, stand beside each other.",
      .examples = { { "snug snapshot memory.pickle", "where memory goes, and what helps" },
                    { "snug snapshot --recipe hf", "how to record it, with the Trainer" },
                    { "snug snapshot memory.pickle --for gpt2 --batch 8", "which settings would help, too" },
                    { "snug snapshot before.pickle after.pickle", "beside each other" },
                    { "snug snapshot memory.pickle --at 1200 --each", "another moment, every allocation" },
                    { "snug snapshot memory.pickle --json | jq '.devices[].peak'", "for programs" } } },
    { .command = COMMAND_STATUS,
      .name = "status",
      .subject = "DIR",
      .run = cli_status,
      .brief = "where a run stands, from another terminal",
      .about =
          "Says of the run that writes to DIR, its --out, whether it is alive, at which step it is, its "
          "loss, "
          "memory, time left and newest checkpoint. Reads files only: the run may be on another machine that "
          "shares the folder.",
      .examples = { { "snug status model", "" },
                    { "snug status model --follow", "until the run ends" },
                    { "snug status model --json | jq .seconds_left", "for programs" } } },
    { .command = COMMAND_GENERATE,
      .name = "generate",
      .subject = "DIR",
      .run = cli_generate,
      .brief = "continue a text with a trained model: --prompt TEXT",
      .about =
          "Continues --prompt with the model in DIR, which 'snug train' has written or Hugging Face has. The "
          "text goes to stdout as it comes, and nothing else does. With --chat, prompts are what users say; "
          "where there is none, each line of standard input is, up to its end (Ctrl-D).",
      .examples = { { "snug generate model --prompt 'Permission is hereby granted'", "" },
                    { "snug generate model --prompt 'You may' --tokens 400 --top-p 0.9 --seed 7", "" },
                    { "snug generate model --adapter letters --prompt 'You may'",
                      "with what was trained beside its weights" },
                    { "snug generate model --prompt-file questions.txt --stop . --json", "many at once" },
                    { "snug generate model --chat --system 'Be brief.'", "a conversation" },
                    { "snug generate model --prompt 'You may' --temperature 0",
                      "the same text every time" } } },
    { .command = COMMAND_SERVE,
      .name = "serve",
      .subject = "DIR",
      .run = cli_serve,
      .brief = "answer OpenAI's requests over HTTP, many texts at once, in memory that is planned",
      .about = "Serves the model in DIR at /v1/completions and /v1/chat/completions. The plan is printed "
               "before a weight is read. A request begins when there is room for its prompt and for every "
               "token that it may "
               "get, so "
               "each that begins ends as if it were alone, with the same answer.",
      .examples = { { "snug serve model --memory 2GiB", "" },
                    { "snug serve model --max-num-seqs 8 --max-model-len 512 --dry-run", "the plan alone" },
                    { "snug serve model --kv-cache-dtype bf16",
                      "twice as many texts in the same memory" } } },
    { .command = COMMAND_MERGE,
      .name = "merge",
      .subject = "DIR",
      .run = cli_merge,
      .brief = "a model with the adapter that was trained beside it in its weights",
      .about =
          "Reads the model in DIR and the adapter that 'snug train' or the PEFT library has written beside "
          "it, and writes a model that computes the same without it. Needs the memory of the weights.",
      .examples = { { "snug merge model --adapter letters --out merged", "" },
                    { "snug generate merged --prompt 'You may'", "" } } },
    { .command = COMMAND_QUANTIZE,
      .name = "quantize",
      .subject = "DIR",
      .run = cli_quantize,
      .brief = "a trained model with weights of 8 or 4 bits: --to int8 --out DIR",
      .about =
          "Reads the model in DIR and writes one whose products have weights of 8 or 4 bits, for generating "
          "and for train --eval-only. With --data, or with --to int8:static, it says what that does to the "
          "loss. It saves nothing in training.",
      .examples = { { "snug quantize model --to int8 --data book.txt --out small", "a scale for each token" },
                    { "snug quantize model --to int8:static --calibrate book.txt --out small",
                      "stored scales" },
                    { "snug quantize model --to int8:all --out smaller", "embeddings as well" },
                    { "snug quantize model --to int4:all --out smallest", "4 bits" },
                    { "snug generate small --prompt 'You may'", "" } } },
    { .command = COMMAND_EXPORT,
      .name = "export",
      .subject = "DIR",
      .run = cli_export,
      .brief = "a model as one GGUF file for llama.cpp: --to gguf --out FILE",
      .about =
          "Reads the model in DIR, its tokenizer and its chat template, and writes one GGUF file that "
          "llama.cpp and what is built on it run. Families: gpt2, llama, mistral, qwen2, qwen3, phi, phi3, "
          "gemma, gemma2, gemma3_text, gpt_neox. What the file could not say is refused by name. An adapter "
          "is "
          "no model: merge it first, with 'snug merge'.",
      .examples = { { "snug export model --to gguf --out model.gguf", "weights of 16 bits (f16)" },
                    { "snug export model --to gguf --dtype q8_0 --out small.gguf", "of 8 bits" },
                    { "snug merge model --adapter letters --out merged", "" },
                    { "snug export merged --to gguf --out merged.gguf",
                      "with what was trained beside its weights" } } },
    { .command = COMMAND_DEVICES,
      .name = "devices",
      .subject = "",
      .run = cli_devices,
      .brief = "what is here, what is free, and the rates that predictions use",
      .about =
          "Says which processor and GPU and how much memory there is, and the rates behind every predicted "
          "second. "
          "Without --measure they come from half a second of measuring, once. Results never depend on rates.",
      .examples = { { "snug devices --measure", "once for each machine, while nothing else runs" },
                    { "snug devices --json | jq .free_bytes", "for programs" } } },
    { .command = COMMAND_COMPLETION,
      .name = "completion",
      .subject = "SHELL",
      .subjects = shells,
      .run = cli_completion,
      .brief = "what a shell reads to complete commands, options and their values",
      .about =
          "Writes the completion of snug for SHELL. An installed snug has put it where shells look for it; "
          "this is for a snug that runs from elsewhere.",
      .examples = { { "source <(snug completion bash)", "in ~/.bashrc" },
                    { "snug completion zsh > ~/.zfunc/_snug", "with ~/.zfunc in fpath, before compinit" },
                    { "snug completion fish > ~/.config/fish/completions/snug.fish", "" } } },
    { .command = COMMAND_MANUAL,
      .name = "manual",
      .subject = "[COMMAND]",
      .run = cli_manual,
      .brief = "the manual page of snug or of a command, for man",
      .about =
          "Writes the manual page of COMMAND, or of snug itself, as man reads it. An installed snug has put "
          "them where 'man snug' finds them.",
      .examples = { { "snug manual train | man -l -", "" } } },
    { .name = NULL },
};

/* ---- looking up ---- */

const cli_command *cli_find(const char *name) {
    for (const cli_command *c = cli_commands; c->name; c++)
        if (strcmp(c->name, name) == 0) return c;
    return NULL;
}

const cli_command *cli_command_of(command which) {
    const cli_command *c = cli_commands;
    while (c->command != which) c++;
    return c;
}

bool cli_takes(const cli_command *c, const option_table *t, const char *name) {
    for (uint32_t i = 0; i < t->count; i++)
        if (t->rows[i].commands & c->command && strcmp(t->rows[i].name, name) == 0) return true;
    return false;
}

const char *cli_command_name(command c) { return cli_command_of(c)->name; }
const char *cli_subject_name(command c) { return cli_command_of(c)->subject; }

/* Only MODEL is a word on a run; the folder or shell of other commands is theirs alone. */
const char *cli_subject_key(command c) { return strstr(cli_subject_name(c), "MODEL") ? "model" : ""; }
bool cli_is_subject_key(const char *key) { return strcmp(key, "model") == 0; }

static const char *command_at(const void *context, uint32_t i) {
    static const char *const more[] = { "help", "version" };
    const uint32_t *count = context;
    return i < *count ? cli_commands[i].name : more[i - *count];
}

status cli_unknown_command(const char *name) {
    uint32_t count = 0;
    while (cli_commands[count].name) count++;
    const char *near = nearest_word(name, count + 2, command_at, &count);
    if (near) return status_set(STATUS_INVALID, "unknown command '%s'; did you mean %s?", name, near);
    return status_set(STATUS_INVALID, "unknown command '%s'; 'snug help' shows what there is", name);
}

status cli_check_directory(const char *path) {
    struct stat about;
    model_config sizes;
    const char *published;
    int why = stat(path, &about) == 0 ? 0 : errno;
    if (!why && S_ISDIR(about.st_mode)) return STATUS_OK;
    if (!why)
        return status_set(STATUS_INVALID, "%s is no directory; name that of a model, with all of its files",
                          path);
    if (why == ENOENT &&
        (families_preset(path, &sizes) || published_find(path, &sizes, &published) != PUBLISHED_NONE))
        return status_set(
            STATUS_INVALID,
            "the name %s stands for sizes only, and a directory is wanted; name that of a model "
            "with its files",
            path);
    return status_set(STATUS_INVALID, "cannot open the model %s: %s; name the directory of one", path,
                      strerror(why));
}
