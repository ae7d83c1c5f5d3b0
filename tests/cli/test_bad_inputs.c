/* What bad input gets: an exit code, one sentence that names the thing, the value and what to do, nothing on
 * stdout, and nothing else touched: every file in the working directory is as it was. */
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
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include "cli/command.h"
#include "io/scratch.h"

/* ---- files to be read ---- */

#define CONFIG(member)                                                                                       \
    "{\"model_type\": \"gpt2\", \"n_layer\": 2, \"n_head\": 2, \"n_embd\": 32, \"n_positions\": 32, "        \
    "\"vocab_size\": 256, " member "}"

static const struct {
    const char *name, *text;
} files[] = {
    { "layers.json", CONFIG("\"n_layer\": 2147483647") },
    { "no-layers.json", CONFIG("\"n_layer\": 0") },
    { "minus.json", CONFIG("\"n_head\": -2") },
    { "heads.json", CONFIG("\"n_head\": 3") },
    { "context.json", CONFIG("\"n_positions\": 0") },
    { "words.json", CONFIG("\"n_embd\": \"768\"") },
    { "half.json", CONFIG("\"n_embd\": 32.5") },
    { "endless.json", CONFIG("\"n_embd\": 1e400") },
    { "nan.json", CONFIG("\"attn_pdrop\": NaN") },
    { "null.json", CONFIG("\"vocab_size\": null") },
    { "family.json", CONFIG("\"model_type\": \"mamba2\"") },
    { "vocabulary.json", CONFIG("\"vocab_size\": 9007199254740993") },
    { "epsilon.json", CONFIG("\"layer_norm_epsilon\": 0") },
    { "missing.json", "{\"model_type\": \"gpt2\", \"n_head\": 2}" },
    { "cut.json", "{\"model_type\": \"gpt2\", \"n_lay" },
    { "list.json", "[1, 2]" },
    { "mark.json", "\xef\xbb\xbf{}" },
    { "wide.json", "\xff\xfe{" },
    { "few.json", CONFIG("\"vocab_size\": 97") },
    { "vast.json", CONFIG("\"n_embd\": 1048576") },
    { "short", "too short" },
    { "odd.bin", "12345" },
    { "ids.u32", "\1\0\0\0\2\0\0\0\3\0\0\0" },
    { "utf16.txt", "\xff\xfe"
                   "a" },
    { "packed", "\x1f\x8b\x08" },
    { "table", "PAR1abcdefghijkl" },
    { "bad.npy", "\x93NUMPY\1" },
    { "bad.jsonl", "{\"text\": \"fine\"}\n{\"txt\": \"not\"}\n" },
    { "open.jsonl", "{\"text\": \"it does not end" },
    { "bad.yaml", "batch: [4\n" },
    { "unknown.yaml", "bacth: 4\n" },
    { "value.yaml", "batch: many\n" },
    { "twice.yaml", "batch: 4\nbatch: 5\n" },
    { "nested.yaml", "batch: {of: 4}\n" },
    { "a-file", "in the way" },
};

static void write_weights(const char *path, const char *header, size_t data) {
    static char file[4096];
    memset(file, 0, sizeof file);
    size_t length = strlen(header);
    memcpy(file, &length, 8);
    memcpy(file + 8, header, length);
    scratch_write(path, file, 8 + length + data);
}

static void make_model(const char *folder, const char *header, size_t data) {
    char path[64];
    static const char config[] = CONFIG("\"n_inner\": 128");
    mkdir(folder, 0700);
    snprintf(path, sizeof path, "%s/config.json", folder);
    scratch_write(path, config, sizeof config - 1);
    snprintf(path, sizeof path, "%s/model.safetensors", folder);
    write_weights(path, header, data);
}

static void make_files(void) {
    command_make_files();
    for (size_t i = 0; i < sizeof files / sizeof *files; i++)
        scratch_write(files[i].name, files[i].text, strlen(files[i].text));
    uint16_t ids[2000] = { [1234] = 50000 };
    scratch_write("ids.bin", ids, sizeof ids);
    scratch_write("ids.u32", "\1\0\0\0\2\0\0", 7);
    scratch_write("zeros", (char[64]){ 0 }, 64);
    scratch_write("zeros.json", (char[64]){ 0 }, 64);
    scratch_write("empty", "", 0);
    scratch_write("empty.json", "", 0);
    make_model("other-weights", "{\"w\":{\"dtype\":\"F32\",\"shape\":[2],\"data_offsets\":[0,8]}}", 8);
    make_model("overlap",
               "{\"a\":{\"dtype\":\"F32\",\"shape\":[2],\"data_offsets\":[0,8]},"
               "\"b\":{\"dtype\":\"F32\",\"shape\":[2],\"data_offsets\":[4,12]}}",
               12);
    make_model("gap", "{\"a\":{\"dtype\":\"F32\",\"shape\":[1],\"data_offsets\":[4,8]}}", 8);
    make_model("cut-weights", "{\"a\":{\"dtype\":\"F32\",\"shape\":[2],\"data_offsets\":[0,8]}}", 3);
    make_model("huge-weights",
               "{\"a\":{\"dtype\":\"F32\",\"shape\":[4294967296,4294967296],\"data_offsets\":[0,8]}}", 8);
    make_model("not-weights", "not JSON", 0);
    mkdir("empty-folder", 0700);
    mkdir("a-folder.json", 0700);
    mkdir("in-the-way", 0700), mkdir("in-the-way/model.safetensors", 0700);
    mkdir("report", 0700), mkdir("report/run.json", 0700);
    mkdir("checkpoints", 0700), mkdir("checkpoints/checkpoint-5", 0700);
    mkdir("damaged", 0700), mkdir("damaged/checkpoint-5", 0700);
    scratch_write("damaged/checkpoint-5/trainer_state.json", "{\"format\": 1}", 13);
    assert_int_equal(mkfifo("pipe", 0600), 0);
    assert_int_equal(symlink("loop", "loop"), 0);
    assert_int_equal(symlink("nowhere", "dangling"), 0);
    assert_int_equal(symlink("/dev/null", "link"), 0);
}

/* ---- is everything as it was? ---- */

static uint64_t seen;

static int see(const char *path, const struct stat *about, int kind, struct FTW *walk) {
    (void)kind, (void)walk;
    if (strcmp(path, "./out") == 0 || strcmp(path, "./err") == 0 || strcmp(path, ".") == 0) return 0;
    uint64_t one = (uint64_t)about->st_ino;
    if (!S_ISDIR(about->st_mode)) /* a lock that comes and goes moves the time of its folder */
        one += (uint64_t)about->st_size * 31 + (uint64_t)about->st_mtim.tv_nsec +
               (uint64_t)about->st_mtim.tv_sec * 1000003;
    for (const char *c = path; *c; c++) one = (one ^ (uint8_t)*c) * 1099511628211u;
    seen += one;
    return 0;
}

static uint64_t everything(void) {
    seen = 0;
    assert_int_equal(nftw(".", see, 16, FTW_PHYS), 0);
    return seen;
}

/* ---- the table ---- */

#define TRAIN "train tiny --quiet --steps 2 --batch 4 --out "
#define LONG_NAME                                                                                            \
    "aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa" \
    "aaaa"                                                                                                   \
    "aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa" \
    "aaaa"                                                                                                   \
    "aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa"

static const struct {
    int exit;
    const char *line, *says;
} bad[] = {
    /* the model */
    { 2, "plan gtp2", "'gtp2' is no preset" },
    { 2, "plan loop", "loop: Too many levels of symbolic links" },
    { 2, "plan dangling", "'dangling' is no preset" },
    { 2, "plan a-file/config.json", "a-file/config.json: Not a directory" },
    { 2, "plan pipe", "pipe is a device, a pipe or a socket" },
    { 2, "plan /dev/zero", "/dev/zero is a device" },
    { 2, "profile tiny --batch 4 --trace link", "link is no regular file" },
    { 2, "profile tiny --batch 4 --trace tiny", "tiny is no regular file" },
    { 2, "plan empty-folder", "empty-folder has no config.json" },
    { 2, "plan a-folder.json", "a-folder.json has no config.json" },
    { 2, "plan empty.json", "empty.json is not JSON at byte 0" },
    { 2, "plan zeros.json", "zeros.json is not JSON at byte 0" },
    { 2, "plan cut.json", "cut.json is not JSON at byte" },
    { 2, "plan list.json", "is a list; it must be an object" },
    { 2, "plan mark.json", "byte order mark; save it as UTF-8 without" },
    { 2, "plan wide.json", "byte order mark of UTF-16" },
    { 2, "plan text", "text is not JSON" },
    { 2, "plan missing.json", "'n_layer' is missing" },
    { 2, "plan layers.json", "n_layer is 2147483647; it must be from 1 to 1024" },
    { 2, "plan no-layers.json", "'n_layer' is 0" },
    { 2, "plan minus.json", "'n_head' is -2" },
    { 2, "plan heads.json", "n_embd 32 cannot be divided among n_head 3" },
    { 2, "plan context.json", "'n_positions' is 0" },
    { 2, "plan words.json", "'n_embd' is \"768\"; it must be a whole number" },
    { 2, "plan half.json", "'n_embd' is 32.5" },
    { 2, "plan endless.json", "'n_embd' is 1e400" },
    { 2, "plan nan.json", "'attn_pdrop' is NaN" },
    { 2, "plan null.json", "'vocab_size' is null" },
    { 2, "plan vocabulary.json", "'vocab_size' is 9007199254740993" },
    { 2, "plan family.json", "'model_type' is 'mamba2', for which there is no builder" },
    { 2, "plan epsilon.json", "layer_norm_epsilon is 0" },
    /* its weights */
    { 2, TRAIN "new --data text --config bad.yaml", "bad.yaml:" },
    { 2, "generate other-weights --prompt a", "no tensor 'transformer.wte.weight'" },
    { 2, "generate overlap --prompt a", "'b'" },
    { 2, "generate gap --prompt a", "'a'" },
    { 2, "generate cut-weights --prompt a", "'a'" },
    { 2, "generate huge-weights --prompt a", "'a'" },
    { 2, "generate not-weights --prompt a", "the header is wrong at byte 0" },
    { 2, "generate tiny --prompt a", "tiny has no model.safetensors" },
    { 2, "generate empty-folder --prompt a", "has no config.json" },
    /* data */
    { 2, TRAIN "new", "--data" },
    { 2, TRAIN "new --data nowhere", "cannot open the data nowhere: No such file" },
    { 2, TRAIN "new --data loop", "loop: Too many levels" },
    { 2, TRAIN "new --data pipe", "pipe is neither a regular file nor a folder" },
    { 2, TRAIN "new --data /dev/zero", "/dev/zero is neither a regular file" },
    { 2, TRAIN "new --data empty", "the data file empty is empty" },
    { 2, TRAIN "new --data empty-folder", "empty-folder has no file with anything in it" },
    { 2, TRAIN "new --data short", "short has 9 tokens; a context of 32 needs at least 33" },
    { 2, TRAIN "new --data text --eval-data short", "short has 9 tokens" },
    { 2, TRAIN "new --data text --eval-data nowhere", "nowhere: No such file" },
    { 2, "plan tiny --eval-data text", "--eval-data text is given without --data" },
    { 2, TRAIN "new --data odd.bin", "odd.bin has 5 bytes, which is no multiple of 2" },
    { 2, TRAIN "new --data ids.u32", "ids.u32 has 7 bytes, which is no multiple of 4" },
    { 2, TRAIN "new --data ids.bin", "ids.bin: token 1234 is 50000, but the vocabulary has 256 ids" },
    { 2, "train few.json --quiet --data text --out new", "but the vocabulary has 97 ids (0 to 96)" },
    { 2, TRAIN "new --data utf16.txt", "utf16.txt is text in UTF-16; convert it with iconv" },
    { 2, TRAIN "new --data packed", "packed is gzip-compressed; unpack it" },
    { 2, TRAIN "new --data table", "table is a Parquet table" },
    { 2, TRAIN "new --data bad.npy",
      "bad.npy is no NumPy array that can be read: it ends inside its header" },
    { 2, TRAIN "new --data text --data-kind npy", "text is no NumPy array" },
    { 2, TRAIN "new --data bad.jsonl", "bad.jsonl, line 2: it has no 'text'" },
    { 2, TRAIN "new --data open.jsonl", "open.jsonl, line 1: a text does not end" },
    { 2, TRAIN "new --data text --data-kind text", "'text' is none of auto, bytes" },
    /* the output */
    { 2, "train tiny --data text", "--out" },
    { 2, TRAIN "a-file --data text", "a-file" },
    { 2, TRAIN "a-file/inside --data text", "a-file/inside: Not a directory" },
    { 2, TRAIN "dangling --data text", "dangling: it is a link that leads nowhere" },
    { 2, TRAIN "loop --data text", "loop" },
    { 2, TRAIN "/proc/none --data text", "/proc/none" },
    { 2, TRAIN LONG_NAME " --data text", "File name too long" },
    { 2, TRAIN "in-the-way --data text", "in-the-way/model.safetensors: a folder has that name" },
    { 2, TRAIN "report --data text", "report/run.json: a folder has that name" },
    /* resuming */
    { 2, TRAIN "checkpoints --data text", "checkpoints has checkpoints of an earlier run" },
    { 2, TRAIN "checkpoints --data text --resume", "none of the 1 checkpoints in checkpoints can be used" },
    { 2, TRAIN "damaged --data text --resume", "is damaged or was edited" },
    { 2, TRAIN "new --data text --resume=nowhere", "nowhere" },
    { 2, TRAIN "new --data text --resume=empty-folder", "there is no checkpoint-N in it" },
    { 2, TRAIN "new --data text --resume=pipe", "pipe: it is no folder; name the --out of a run" },
    /* options */
    { 2, "plan tiny --memory 9999999999GiB", "'9999999999GiB' is out of range" },
    { 2, "plan tiny --memory 1e400", "'1e400'" },
    { 2, "plan tiny --memory nan", "'nan' is not a size" },
    { 2, "plan tiny --memory 0x10", "'0x10' is not a size" },
    { 2, "plan tiny --memory -1", "'-1' is out of range" },
    { 2, "plan tiny --memory=", "wants a value" },
    { 2, "plan tiny --context 0", "--context: '0'" },
    { 2, "plan tiny --context 33", "--context 33 is longer than the 32 positions" },
    { 2, "plan tiny --batch 1048577", "from 1 to 1048576" },
    { 2, "plan tiny --lr nan", "--lr: 'nan'" },
    { 2, "plan tiny --lr -0x1p3", "--lr: '-0x1p3'" },
    { 2, "plan tiny --steps 0", "--steps: '0'" },
    { 2, "plan tiny --threads 100000", "--threads: '100000'" },
    { 2, "plan char-small --batch 32 --micro-batch 32 --chunk-loss 1", "--chunk-loss 1 cuts 8192 rows" },
    { 2, "plan mistral-7b --batch 4 --context 8192 --chunk-loss 1", "--chunk-loss 1 cuts 32768 rows" },
    { 2, "plan tiny --micro-batch 9 --batch 8", "--micro-batch 9 is larger than --batch 8" },
    { 2, "plan tiny --accumulate 9 --batch 8", "a batch of 8 cannot be cut" },
    { 2, "plan tiny --micro-batch 3 --accumulate 2 --batch 8", "do not make a batch of 8" },
    { 2, "plan tiny --micro-batch 1 --update-early on", "cannot be combined" },
    { 2, "plan tiny --micro-batch 2 --clip off --update-early on --batch 8", "pin --micro-batch 8 or leave" },
    { 2, "plan tiny --clip 1 --update-early on", "use --update-early twice or --clip off" },
    { 2, "plan tiny --lora rank=2,target=query", "no product 'query'; it has c_attn, c_proj, c_fc" },
    { 2, "plan tiny --lora rank=2 --qat int8", "leave --qat out and quantize the merged model" },
    { 2, "plan tiny --precision mixed-f16:off", "say mixed-bf16, which needs none" },
    { 2, "plan tiny --precision mixed-f16:0", "say mixed-bf16, which needs none" },
    { 2, "plan tiny --precision mixed-f16:x", "--precision: 'x' is not a whole number" },
    { 2, "plan tiny --exact --micro-batch 1 --batch 4", "leaves no plan" },
    { 2, "plan tiny --chunk-loss 0", "--chunk-loss: '0'" },
    { 2, "plan tiny --precision bf17", "'bf17' is none of f32, mixed-bf16, mixed-f16, bf16" },
    { 2, "plan tiny --precision bf16 --optimizer adafactor", "say --precision mixed-bf16, or" },
    { 2, "plan tiny --exact --precision mixed-bf16", "--exact forbids 'mixed-bf16'" },
    { 2, "plan tiny --precision mixed-f16 --clip off --update-early on", "must be known before the first" },
    { 2, "plan tiny --precision int8 --qat int8", "in 8 bits here, so there is nothing to imitate" },
    { 2, "plan tiny --precision int8-mixed --qat int8", "in 8 bits here, so there is nothing to imitate" },
    { 2, "plan tiny --precision fp8-mixed --qat int8", "in 8 bits here, so there is nothing to imitate" },
    { 2, "plan tiny --precision fp8", "'fp8' is none of f32, mixed-bf16" },
    { 2, "plan tiny --precision int8-mixed --optimizer adafactor", "say --precision mixed-bf16, or" },
    { 2, "plan tiny --optimizer-state 4bit", "'4bit' is neither f32, 8bit, 8bit:all nor bf16" },
    { 2, "plan tiny --optimizer adafactor --optimizer-state 8bit", "say --optimizer adamw" },
    { 2, "plan tiny --exact --optimizer-state 8bit", "--exact forbids '8bit'" },
    { 2, "plan tiny --offload weights --offload-to .", "'weights' is neither off nor a list of optimizer" },
    { 2, "plan tiny --offload master --offload-to " SNUG_BUILD, "say --precision mixed-bf16 as well" },
    { 2, "plan tiny --offload optimizer", "name a folder on a disk with --offload-to DIR" },
    { 2, "plan tiny --offload-limit 1GiB", "is of what is in --offload-to; name that folder too" },
    { 2, "plan char-small --offload optimizer --offload-limit 1MiB --offload-to " SNUG_BUILD,
      "takes 6.5 MiB, 6815744 bytes, more than --offload-limit 1.0 MiB" },
    { 2, "plan tiny --offload-to host", "its memory the same; name a folder on a disk" },
    { 2, "plan tiny --offload-to nowhere", "nowhere: No such file or directory; name a folder" },
    { 2, "plan tiny --offload-to a-file", "a-file: it is no folder" },
    { 2, "plan tiny --offload-to /dev/shm",
      "it lies in memory, so that nothing would be saved; name a folder" },
    { 2, "plan tiny --optimizer adafactor --offload optimizer --offload-to " SNUG_BUILD,
      "keeps no state of 4,096 numbers or more" },
    { 3, "plan vast.json --quiet --offload optimizer --offload-to " SNUG_BUILD, "the disk of" },
    { 2, "plan tiny --config nowhere.yaml", "nowhere.yaml: No such file" },
    { 2, "plan tiny --config pipe", "pipe is a device, a pipe" },
    { 2, "plan tiny --config empty-folder", "empty-folder is a folder" },
    { 2, "plan tiny --config bad.yaml", "bad.yaml:" },
    { 2, "plan tiny --config zeros", "zeros" },
    { 2, "plan tiny --config unknown.yaml", "did you mean batch" },
    { 2, "plan tiny --config value.yaml", "'many' is not a whole number" },
    { 2, "plan tiny --config twice.yaml", "given twice, first in line 1" },
    { 2, "plan tiny --config nested.yaml", "maps in maps are not taken" },
    { 2, "generate tiny --prompt a --temperature nan", "--temperature: 'nan'" },
    { 2, "generate tiny --prompt a --tokens 0", "--tokens: '0'" },
    /* what does not fit */
    { 3, "plan tiny --quiet --memory 1", "does not fit 1 B: the least budget is" },
    { 3, TRAIN "new --data text --memory 1MiB", "does not fit 1.0 MiB: the least budget is" },
};

static bool one_sentence(const char *err) {
    const char *line = strchr(err, '\n');
    if (strncmp(err, "snug: ", 6) != 0 || !line || line[1] || strlen(err) < 30 || strstr(err, "(null)"))
        return false;
    for (const char *c = err; c < line; c++)
        if ((unsigned char)*c < ' ') return false;
    return true;
}

/* Says what is wrong and goes on; the caller fails at its end. */
static bool refused(int exit, const char *line, const char *says) {
    uint64_t before = everything();
    command_result r = command_run(line);
    bool good = r.exit == exit && !*r.out && one_sentence(r.err) && strstr(r.err, says);
    bool untouched = everything() == before;
    if (!good) print_error("snug %.200s: exit %d, out '%s', err '%s'\n", line, r.exit, r.out, r.err);
    if (!untouched) print_error("snug %.200s has touched a file\n", line);
    command_free(&r);
    return good && untouched;
}

static void expect_refused(int exit, const char *line, const char *says) {
    assert_true(refused(exit, line, says));
}

static void bad_inputs_get_one_sentence(void **state) {
    (void)state;
    bool all = true;
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++)
        all = refused(bad[i].exit, bad[i].line, bad[i].says) && all;
    assert_true(all);
}

/* Names with line ends, escapes of terminals and bytes that are no text stay inside of one line. */
static void names_cannot_break_the_sentence(void **state) {
    (void)state;
    static const char *const names[] = { "a\nb",
                                         "\033[31mred",
                                         "\xff\xfe",
                                         ("\xc2\x9b"
                                          "31m"),
                                         "\r",
                                         "a\tb" };
    for (size_t i = 0; i < sizeof names / sizeof *names; i++) {
        char line[128];
        snprintf(line, sizeof line, "train tiny --data %s --out new", names[i]);
        expect_refused(2, line, "cannot open the data");
        snprintf(line, sizeof line, "plan %s", names[i]);
        expect_refused(2, line, "is no preset");
    }
    char line[4000] = "plan ";
    memset(line + 5, 'x', 3900);
    expect_refused(2, line, "File name too long");
}

/* What others may not read, for a user who is not root. */
static void forbidden_files_are_said(void **state) {
    (void)state;
    bool root = geteuid() == 0;
    mkdir("locked", 0755);
    assert_int_equal(chmod("tiny", 0755), 0);
    assert_int_equal(chmod("tiny/config.json", 0644), 0);
    scratch_write("secret", "may not be read, by anyone but its owner", 40);
    scratch_write("words", (char[512]){ 0 }, 512);
    assert_int_equal(chmod("words", 0644), 0);
    assert_int_equal(chmod("secret", 0), 0);
    assert_int_equal(chmod("locked", 0555), 0);
    /* The real user as well: where only the effective one differs, sanitizers can't read their options. */
    if (root && (chown(".", 65534, 65534) != 0 || setresuid(65534, 65534, 0) != 0)) skip();
    if (access(SNUG_BUILD "/snug", X_OK) == 0 &&
        faccessat(AT_FDCWD, SNUG_BUILD "/snug", X_OK, AT_EACCESS) == 0) {
        unlink("out"), unlink("err");
        expect_refused(2, "plan secret", "secret: Permission denied");
        expect_refused(2, "plan secret/config.json", "secret");
        expect_refused(2, TRAIN "new --data secret", "secret: Permission denied");
        expect_refused(2, TRAIN "locked/new --data words",
                       "cannot write to locked/new: locked: Permission denied");
        expect_refused(2, TRAIN "locked --data words", "locked");
        expect_refused(2, "plan tiny --offload optimizer --offload-to locked",
                       "locked: Permission denied; name a folder on a disk that can be written to");
    }
    if (root) {
        assert_int_equal(setresuid(0, 0, 0), 0);
        prctl(PR_SET_DUMPABLE, 1); /* the search for leaks traces this process */
    }
    unlink("out"), unlink("err");
}

static int shell(const char *line) {
    int how = system(line);
    return WIFEXITED(how) ? WEXITSTATUS(how) : -1;
}

/* A closed stream is not a place for a file of ours: nothing that a run writes gets its number. */
static void closed_streams_are_no_files(void **state) {
    (void)state;
    assert_int_equal(shell(SNUG_BUILD "/snug plan tiny --json --quiet >&- 2>err"), 1);
    assert_int_equal(
        shell("head -c 4096 /dev/zero >full; ulimit -f 8; " SNUG_BUILD "/snug plan tiny >>full 2>err"), 1);
    assert_int_equal(shell(SNUG_BUILD "/snug plan tiny --json --quiet 2>&- >out"), 0);
    assert_int_equal(shell(SNUG_BUILD "/snug plan nowhere 2>&- >&- <&-"), 2);
    assert_int_equal(shell(SNUG_BUILD "/snug " TRAIN "closed --data text 2>&- <&-"), 0);
    assert_int_equal(shell(SNUG_BUILD "/snug train tiny --steps 2 --batch 4 --out closed2 --data text "
                                      "2>&- >&- <&-"),
                     1);
    static const char *const made[] = { "closed", "closed2" };
    for (int i = 0; i < 2; i++) {
        char line[64];
        snprintf(line, sizeof line, "generate %s --prompt a --tokens 3", made[i]);
        command_expect(0, line);
        snprintf(line, sizeof line, "grep -q predicted %s/metrics.jsonl", made[i]);
        assert_int_equal(shell(line), 1); /* no text for people in it */
    }
}

static int open_files(void **state) {
    int failed = scratch_open(state);
    if (!failed) make_files();
    return failed;
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(bad_inputs_get_one_sentence),
        cmocka_unit_test(names_cannot_break_the_sentence),
        cmocka_unit_test(closed_streams_are_no_files),
        cmocka_unit_test(forbidden_files_are_said),
    };
    return cmocka_run_group_tests(tests, open_files, scratch_close);
}
