/* Making tokens is stopped and killed, and trainings make their own: it goes on after any kill and a full
 * disk, and what is there is taken again. */
#define _GNU_SOURCE
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "cli/command.h"
#include "cli/token_data.h"
#include "io/json.h"
#include "io/scratch.h"
#include "tokenize/tokenize.h"

/* ---- going on ---- */

static int start(const char *call, long at) {
    char all[1024];
    snprintf(all, sizeof all, "KILL_CALL=%ld KILL_COUNT=calls exec %s %s >said 2>&1", at,
             SNUG_BUILD "/snug-killed", call);
    int how = system(all);
    if (WIFSIGNALED(how)) return -1;
    return WEXITSTATUS(how) == 128 + SIGKILL ? -1 : WEXITSTATUS(how);
}

static long calls_made(void) {
    long calls = 0;
    FILE *file = fopen("calls", "r");
    assert_true(file && fscanf(file, "%ld", &calls) == 1);
    fclose(file);
    return calls;
}

static void kills_change_nothing(void **state) {
    (void)state;
    static const char call[] = "tokenize m --data many.jsonl --out k.safetensors --threads 1 --quiet";
    tokens_model("m", "gpt2");
    tokens_make("m", "many.jsonl", "--threads 2", "whole.safetensors");
    assert_int_equal(start(call, -1), 0);
    long calls = calls_made();
    assert_true(calls > 20);
    bool went_on = false;
    for (long at = 0; at < calls; at += at < 12 || at > calls - 16 ? 1 : 5) {
        command_shell("rm -f k.safetensors*");
        assert_int_equal(start(call, at), -1);
        command_result r = command_run("tokenize m --data many.jsonl --out k.safetensors --threads 3");
        assert_int_equal(r.exit, 0);
        went_on = went_on || command_has_words(r.out, "were there already");
        command_free(&r);
        command_shell("cmp whole.safetensors k.safetensors");
        command_shell("test \"$(ls k.safetensors*)\" = k.safetensors");
    }
    assert_true(went_on);
}

/* What lies beside a finished file goes only where it is nobody's: not while a process writes, nor where
 * another identity would go on. */
static void what_others_left_is_kept(void **state) {
    (void)state;
    static const char there[] = "tokenize m --data many.jsonl --out k.safetensors",
                      others[] = "tokenize m --data others.jsonl --out k.safetensors --threads 1 --quiet";
    tokens_model("m", "gpt2");
    command_shell(
        "cp whole.safetensors k.safetensors; echo > k.safetensors.ends; echo > k.safetensors.learned; "
        "(flock k.safetensors.lock sleep 2) & sleep 0.3");
    assert_true(command_says(there, 0, "is there already"));
    command_shell("test -e k.safetensors.ends && sleep 2.2");
    assert_true(command_says(there, 0, "is there already"));
    command_shell("test \"$(ls k.safetensors*)\" = k.safetensors");
    tokens_texts("others.jsonl", 9000, 150, 7);
    command_shell("cp k.safetensors kept.safetensors");
    assert_int_equal(start(others, -1), 0);
    command_shell("mv kept.safetensors k.safetensors");
    assert_int_equal(start(others, calls_made() / 2), -1);
    command_shell("test -e k.safetensors.progress && test -e k.safetensors.ends");
    assert_true(command_says(there, 0, "is there already"));
    command_shell("test -e k.safetensors.progress && test -e k.safetensors.ends");
    assert_true(command_says("tokenize m --data others.jsonl --out k.safetensors", 0, "were there already"));
}

static uint64_t bytes_beside(const char *path) {
    static const char *const suffixes[] = { ".partial", ".ends", ".learned" };
    uint64_t bytes = 0;
    for (size_t i = 0; i < 3; i++) {
        char name[64];
        struct stat about;
        snprintf(name, sizeof name, "%s%s", path, suffixes[i]);
        if (stat(name, &about) == 0) bytes += (uint64_t)about.st_size;
    }
    return bytes;
}

/* Where every byte is a token, what lies on the disk before the file has its name is what was said. */
static void the_disk_is_as_planned(void **state) {
    (void)state;
    static const char call[] = "tokenize m --data bytes.jsonl --out e.safetensors --threads 1 --quiet";
    tokenize *making;
    uint64_t most = 0;
    tokens_model("m", "gpt2");
    command_shell("for i in $(seq 400); do echo '{\"prompt\": \"~\", \"completion\": \"^\"}'; done > "
                  "bytes.jsonl; rm -f e.safetensors*");
    tokenize_options o = { .model = "m",
                           .data = { .paths = { "bytes.jsonl" }, .count = 1 },
                           .out = "e.safetensors" };
    assert_int_equal(tokenize_open(&o, &making), STATUS_OK);
    uint64_t planned = tokenize_planned(making)->disk;
    tokenize_close(making);
    assert_int_equal(start(call, -1), 0);
    long calls = calls_made();
    tokens_made m;
    tokens_read("e.safetensors", &m);
    assert_int_equal(m.count, 400 * 2);
    tokens_free(&m);
    for (long at = 0; at < calls; at++) {
        command_shell("rm -f e.safetensors*");
        assert_int_equal(start(call, at), -1);
        uint64_t bytes = bytes_beside("e.safetensors");
        if (bytes > most) most = bytes;
    }
    assert_int_equal(most, planned);
}

static void a_full_disk_loses_nothing(void **state) {
    (void)state;
    tokens_model("m", "gpt2");
    command_shell("rm -f d.safetensors*");
    command_shell(
        "(ulimit -f 900; exec %s/snug tokenize m --data many.jsonl --out d.safetensors --threads 1 >said "
        "2>&1); "
        "test $? = 1 && grep -q 'cannot write' said && test ! -e d.safetensors",
        SNUG_BUILD);
    tokens_make("m", "many.jsonl", "", "d.safetensors");
    command_shell("cmp whole.safetensors d.safetensors && test \"$(ls d.safetensors*)\" = d.safetensors");
}

static void two_do_not_write_one_file(void **state) {
    (void)state;
    command_shell("rm -f l.safetensors*; flock l.safetensors.lock sleep 2 &");
    command_shell("sleep 0.3");
    assert_true(command_says("tokenize m --data t.json --out l.safetensors", 2, "l.safetensors.lock"));
    command_shell("sleep 2.2");
}

static void an_interrupt_keeps_what_is_there(void **state) {
    (void)state;
    command_shell("rm -f i.safetensors*; for i in 1 2 3 4 5 6 7 8; do cat many.jsonl; done > lots.jsonl");
    tokens_make("m", "lots.jsonl", "", "lots.safetensors");
    pid_t pid =
        command_start("tokenize m --data lots.jsonl --out i.safetensors --threads 1 --quiet", NULL, -1);
    for (int i = 0; i < 500 && access("i.safetensors.progress", F_OK) != 0; i++) usleep(10000);
    kill(pid, SIGINT);
    command_result r = command_wait(pid);
    assert_int_equal(r.exit, STATUS_INTERRUPTED);
    assert_true(command_has_words(r.err, "goes on from there"));
    command_free(&r);
    r = command_run("tokenize m --data lots.jsonl --out i.safetensors");
    assert_int_equal(r.exit, 0);
    assert_true(command_has_words(r.out, "were there already"));
    command_free(&r);
    command_shell("cmp lots.safetensors i.safetensors");
}

typedef struct {
    uint32_t grown;
    uint64_t first, last, from; /* read */
    volatile sig_atomic_t stop; /* stops: after the first round */
    bool stops;
} reading;

static void follow(void *context, const tokenize_progress *p) {
    reading *r = context;
    if (!p->bytes) return;
    if (!r->first) r->first = p->read;
    assert_true(p->read >= r->from && p->read >= p->from && p->read <= p->bytes);
    r->last = p->read, r->from = p->from, r->stop = r->stops;
}

static void grows(void *context, const tokenize_plan *p, const char *why) {
    (void)why;
    ((reading *)context)->grown = p->grown;
}

/* Reads to the end, or stops early; how many bytes of text there are. */
static uint64_t read_along(const char *data, reading *r) {
    tokenize *making;
    tokenize_result result;
    tokenize_options o = { .model = "m",
                           .data = { .paths = { data }, .count = 1 },
                           .out = "r.safetensors",
                           .threads = 1,
                           .progress = follow,
                           .grown = grows,
                           .context = r,
                           .stop = &r->stop };
    assert_int_equal(tokenize_open(&o, &making), STATUS_OK);
    assert_int_equal(tokenize_run(making, &result), r->stops ? STATUS_INTERRUPTED : STATUS_OK);
    uint64_t bytes = tokenize_planned(making)->counts.bytes;
    tokenize_close(making);
    return bytes;
}

/* "X of Y read" is true also of a run that goes on, and of one that was planned again. */
static void progress_goes_on_where_it_was(void **state) {
    (void)state;
    static const char *const data[] = { "many.jsonl", "pairs.jsonl", "chats_many.jsonl" };
    static const char *const names[] = { "messages", "role", "content" }, *const marked[] = { "e\u0301" };
    tokens_model("m", "gpt2");
    tokens_pairs("pairs.jsonl", 30000, 4);
    tokens_chats("chats_many.jsonl", 30000, names, 3);
    for (size_t i = 0; i < 3; i++) {
        command_shell("rm -f r.safetensors*");
        reading stopped = { .stops = true }, on = { 0 };
        read_along(data[i], &stopped);
        command_shell("test -e r.safetensors.progress");
        uint64_t bytes = read_along(data[i], &on);
        assert_true(on.from > 0 && on.from <= stopped.last && on.first > on.from);
        assert_int_equal(on.last, bytes);
    }
    tokens_model("m", "xlmr");
    tokens_unbroken("marks.jsonl", marked, 1, 700000);
    command_shell("rm -f r.safetensors*; cat many.jsonl marks.jsonl > grown.jsonl");
    reading again = { 0 };
    uint64_t bytes = read_along("grown.jsonl", &again);
    assert_true(again.grown > 0);
    assert_int_equal(again.last, bytes);
}

/* A mark without a number that marks have now says nothing. */
static void a_mark_of_old_begins_anew(void **state) {
    (void)state;
    tokens_model("m", "gpt2");
    command_shell("rm -f r.safetensors*");
    reading stopped = { .stops = true };
    read_along("many.jsonl", &stopped);
    command_shell("grep -q '\"read\"' r.safetensors.progress && sed -i '/\"read\"/d' r.safetensors.progress");
    assert_int_equal(
        command_asked("tokenize m --data many.jsonl --out r.safetensors --json --quiet", "resumed"), 0);
    command_shell("cmp r.safetensors whole.safetensors");
}

/* ---- trainings ---- */

#define SHORT "--batch 4 --steps 3 --eval-samples 2 --threads 1 --overwrite "

static long changed(const char *path) {
    struct stat about;
    assert_int_equal(stat(path, &about), 0);
    return about.st_mtim.tv_sec * 1000000000 + about.st_mtim.tv_nsec;
}

static void trainings_make_their_own(void **state) {
    (void)state;
    tokens_model("m", "gpt2");
    tokens_make("m", "chats.jsonl", "", "by_hand.safetensors");
    command_shell("rm -rf tuned");
    assert_true(
        command_says("train m --data chats.jsonl --out tuned " SHORT, 0, "300 documents, each by itself"));
    command_shell(
        "cmp by_hand.safetensors tuned/data/train.safetensors && test -e tuned/tokenizer.json && test -e "
        "tuned/chat_template.jinja");
    long made_at = changed("tuned/data/train.safetensors");
    command_expect(0, "train m --data chats.jsonl --out tuned " SHORT);
    assert_int_equal(changed("tuned/data/train.safetensors"), made_at);
    command_expect(0, "train m --data chats.jsonl --learn all --out tuned " SHORT);
    assert_true(changed("tuned/data/train.safetensors") > made_at);
    tokens_made all;
    tokens_read("tuned/data/train.safetensors", &all);
    assert_false(all.masks);
    tokens_free(&all);
    /* the same samples from the file that was made by hand */
    command_expect(0, "train m --data chats.jsonl --out tuned " SHORT);
    command_expect(0, "train m --data by_hand.safetensors --out other " SHORT);
    command_shell("cmp tuned/model.safetensors other/model.safetensors");
    assert_true(
        command_says("train tuned --eval-only --data by_hand.safetensors --eval-samples 4", 0, "loss"));
}

/* `jsonl` is what a file holds, whatever it is called. */
static void the_kind_that_is_said_counts(void **state) {
    (void)state;
    tokens_texts("few.jsonl", 40, 30, 9);
    command_shell(
        "cp few.jsonl few.txt; cp few.jsonl few.bin; rm -rf few.made; mkdir -p fews; cp few.jsonl fews/part");
    tokens_make("m", "few.jsonl", "", "few.safetensors");
    static const char *const names[] = { "few.txt", "few.bin", "fews" };
    for (size_t i = 0; i < 3; i++) {
        char call[256];
        command_shell("rm -rf few.made");
        snprintf(call, sizeof call, "train m --data %s --data-kind jsonl --context 32 --out few.made " SHORT,
                 names[i]);
        command_expect(0, call);
        command_shell("cmp few.safetensors few.made/data/train.safetensors");
    }
    command_expect(2, "train m --data latin.txt --data-kind jsonl --context 32 --out few.made " SHORT);
}

/* Ctrl-C reaches both processes, a batch system's signal the one that it knows: either way both end, it is
 * said, and the same command goes on. */
static void trainings_are_stopped_while_they_make_tokens(void **state) {
    (void)state;
    static const char call[] = "train m --data lots.jsonl --context 32 --out halted --quiet " SHORT;
    static const struct {
        int number;
        bool all; /* processes of the group */
    } signals[] = {
        { SIGINT, true }, { SIGINT, false }, { SIGTERM, false }, { SIGTERM, true }, { SIGUSR1, false }
    };
    tokens_make("m", "lots.jsonl", "", "lots.safetensors");
    assert_int_equal(setpgid(0, 0), 0);
    for (size_t i = 0; i < sizeof signals / sizeof *signals; i++) {
        command_shell("rm -rf halted");
        void (*before)(int) = signal(signals[i].number, SIG_IGN);
        pid_t pid = command_start(call, NULL, -1);
        for (int k = 0; k < 1000 && access("halted/data/train.safetensors.progress", F_OK) != 0; k++)
            usleep(5000);
        assert_int_equal(kill(signals[i].all ? 0 : pid, signals[i].number), 0);
        command_result r = command_wait(pid);
        signal(signals[i].number, before);
        assert_int_equal(r.exit, STATUS_INTERRUPTED);
        assert_true(command_has_words(r.err, "stopped; the same command goes on from there"));
        command_free(&r);
        command_shell(
            "test -e halted/data/train.safetensors.progress && test ! -e halted/data/train.safetensors && "
            "flock -n halted/data/train.safetensors.lock true");
    }
    assert_true(command_says(call, 0, ""));
    command_shell("cmp lots.safetensors halted/data/train.safetensors");
}

/* The one process that this one has started; 0: none. */
static pid_t child_of(pid_t parent) {
    char path[64];
    int child = 0;
    snprintf(path, sizeof path, "/proc/%d/task/%d/children", (int)parent, (int)parent);
    FILE *file = fopen(path, "r");
    if (!file || fscanf(file, "%d", &child) != 1) child = 0;
    if (file) fclose(file);
    return child;
}

/* Whoever sent the signal, nothing more is known than that. */
static void a_killed_maker_is_said_to_be_killed(void **state) {
    (void)state;
    static const char call[] = "train m --data lots.jsonl --context 32 --out shot --quiet " SHORT;
    tokens_make("m", "lots.jsonl", "", "lots.safetensors");
    command_shell("rm -rf shot");
    pid_t pid = command_start(call, NULL, -1), child;
    for (int k = 0; k < 1000 && access("shot/data/train.safetensors.progress", F_OK) != 0; k++) usleep(5000);
    child = child_of(pid);
    assert_true(child > 0);
    assert_int_equal(kill(child, SIGKILL), 0);
    command_result r = command_wait(pid);
    assert_int_equal(r.exit, STATUS_FAILED);
    assert_true(command_has_words(r.err, "the process that makes tokens was killed"));
    assert_true(command_has_words(r.err, "the same command goes on from there"));
    command_free(&r);
    command_expect(0, call);
    command_shell("cmp lots.safetensors shot/data/train.safetensors");
}

/* With --eval-data of its own nothing of --data is looked at, so nothing is made of it. */
static void what_nobody_reads_is_not_made(void **state) {
    (void)state;
    assert_true(command_says("train tuned --eval-only --data many.jsonl --eval-data by_hand.safetensors "
                             "--eval-samples 4",
                             0, "loss"));
    command_expect(0, "train tuned --eval-only --data many.jsonl --eval-data few.jsonl --context 32 "
                      "--out unread --eval-samples 4");
    command_shell("test -e unread/data/validation.safetensors && test ! -e unread/data/train.safetensors");
}

static void ways_to_pack(void **state) {
    (void)state;
    static const struct {
        const char *rest, *says;
    } cases[] = {
        { "--pack auto", "each by itself and whole" },
        { "--pack pad", "one a sample" },
        { "--pack documents", "each by itself" },
        { "--pack cross", "train" },
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        char call[256];
        snprintf(call, sizeof call, "train m --data by_hand.safetensors --context 96 --out p%zu %s " SHORT, i,
                 cases[i].rest);
        assert_true(command_says(call, 0, cases[i].says));
        snprintf(call, sizeof call, "p%zu/run.json", i);
        json_document d;
        assert_int_equal(json_open(call, &d), STATUS_OK);
        json_close(&d);
    }
    command_shell(
        "for i in 0 1 2; do ! cmp -s p$i/model.safetensors p$((i+1))/model.safetensors || exit 1; done");
}

static void data_that_changed_are_made_anew(void **state) {
    (void)state;
    tokens_texts("few.jsonl", 40, 30, 9);
    command_expect(0, "train m --data few.jsonl --context 32 --out fresh " SHORT);
    long made_at = changed("fresh/data/train.safetensors");
    tokens_texts("few.jsonl", 40, 30, 10);
    command_expect(0, "train m --data few.jsonl --context 32 --out fresh " SHORT);
    assert_true(changed("fresh/data/train.safetensors") > made_at);
    tokens_check("m", "few.jsonl", "fresh/data/train.safetensors");
    assert_true(command_says("train m --data latin.txt --out bad " SHORT, 2, "latin.txt"));
    assert_true(command_says("train m --data few.jsonl --eval-only", 2, "--out; name one"));
    command_expect(0, "train m --data few.jsonl --data-kind bytes --context 32 --out bytes " SHORT);
}

static int open_files(void **state) {
    static const char *const names[] = { "messages", "role", "content" };
    if (scratch_open(state) != 0) return -1;
    tokens_model("m", "gpt2");
    tokens_texts("many.jsonl", 9000, 150, 6);
    tokens_texts("t.json", 3, 9, 1);
    tokens_chats("chats.jsonl", 300, names, 3);
    scratch_write("latin.txt", "caf\xe9", 4);
    return 0;
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(kills_change_nothing),
        cmocka_unit_test(what_others_left_is_kept),
        cmocka_unit_test(the_disk_is_as_planned),
        cmocka_unit_test(a_full_disk_loses_nothing),
        cmocka_unit_test(two_do_not_write_one_file),
        cmocka_unit_test(an_interrupt_keeps_what_is_there),
        cmocka_unit_test(progress_goes_on_where_it_was),
        cmocka_unit_test(a_mark_of_old_begins_anew),
        cmocka_unit_test(trainings_make_their_own),
        cmocka_unit_test(the_kind_that_is_said_counts),
        cmocka_unit_test(trainings_are_stopped_while_they_make_tokens),
        cmocka_unit_test(a_killed_maker_is_said_to_be_killed),
        cmocka_unit_test(what_nobody_reads_is_not_made),
        cmocka_unit_test(ways_to_pack),
        cmocka_unit_test(data_that_changed_are_made_anew),
    };
    return cmocka_run_group_tests_name("token runs", tests, open_files, scratch_close);
}
