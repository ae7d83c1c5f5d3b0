#define _GNU_SOURCE
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <pthread.h>
#include <string.h>
#include <sys/resource.h>

#include "data/loader.h"
#include "data/order.h"
#include "data/text_source.h"
#include "io/scratch.h"

static void order_is_a_permutation(void **state) {
    (void)state;
    static const uint64_t sizes[] = { 1,  2,  3,  4,   5,   7,   8,   9,    16,   17,
                                      31, 64, 65, 100, 255, 256, 257, 1000, 4096, 5000 };
    static uint8_t seen[5000];
    for (size_t s = 0; s < sizeof sizes / sizeof *sizes; s++)
        for (uint64_t epoch = 0; epoch < 4; epoch++) {
            uint64_t n = sizes[s];
            memset(seen, 0, sizeof seen);
            for (uint64_t i = 0; i < n; i++) {
                uint64_t at = data_order(42 + s, epoch, n, i);
                assert_true(at < n && !seen[at]);
                seen[at] = 1;
            }
        }
    uint64_t n = ((uint64_t)1 << 62) - 3;
    for (uint64_t i = 0; i < 100; i++) assert_true(data_order(1, 1, n, n - 1 - i) < n);
    for (uint64_t k = 0; k < 30; k++)
        assert_int_equal(data_order_sample(9, 7, k), data_order(9, k / 7, 7, k % 7));
}

static void order_looks_random(void **state) {
    (void)state;
    /* Every sample is first about equally often, for small sets as well. */
    for (uint64_t n = 2; n <= 12; n++) {
        uint32_t first[12] = { 0 };
        for (uint64_t seed = 0; seed < 6000; seed++) first[data_order(seed, 3, n, 0)]++;
        for (uint64_t i = 0; i < n; i++) assert_in_range(first[i], 6000 / n * 8 / 10, 6000 / n * 12 / 10);
    }
    /* Two epochs, two seeds and neighbours agree no more often than chance has it. */
    uint64_t n = 10000, epochs = 0, seeds = 0, wide = 0, neighbours = 0;
    for (uint64_t i = 0; i < n; i++) {
        uint64_t at = data_order(5, 0, n, i), next = data_order(5, 0, n, (i + 1) % n);
        epochs += at == data_order(5, 1, n, i);
        seeds += at == data_order(6, 0, n, i);
        wide += at == data_order(5, (uint64_t)1 << 32, n, i);
        neighbours += next == at + 1;
    }
    assert_true(epochs < 12 && seeds < 12 && wide < 12 && neighbours < 12);
}

enum { TEXT = 1003, T = 10 };

static void write_text(const char *path) {
    uint8_t bytes[TEXT];
    for (int i = 0; i < TEXT; i++) bytes[i] = (uint8_t)(i * 7 + i / 256);
    scratch_write(path, bytes, TEXT);
}

static int32_t text_token(uint64_t i) { return (uint8_t)(i * 7 + i / 256); }

static data_source opened(const text_source_options *o) {
    data_source s;
    if (text_source_open(o, &s) != STATUS_OK) fail_msg("%s", status_message());
    return s;
}

/* Every sample is the window that it should be. */
static void check_windows(const data_source *s, uint64_t first, uint64_t samples) {
    int32_t tokens[T], labels[T];
    _Alignas(64) static char scratch[16 << 10];
    void *fields[] = { tokens, labels };
    assert_int_equal(s->samples, samples);
    assert_int_equal(s->field_count, 2);
    assert_int_equal(s->field_bytes[0], sizeof tokens);
    assert_int_equal(s->field_bytes[1], sizeof labels);
    assert_true(s->scratch_bytes <= sizeof scratch);
    for (uint64_t k = 0; k < samples; k++) {
        if (s->read(s, k, scratch, fields) != STATUS_OK) fail_msg("%s", status_message());
        for (uint64_t i = 0; i < T; i++) {
            assert_int_equal(tokens[i], text_token(first + k * T + i));
            assert_int_equal(labels[i], text_token(first + k * T + i + 1));
        }
    }
}

static void text_is_cut_into_windows(void **state) {
    (void)state;
    write_text("t.txt");
    text_source_options o = { .path = "t.txt", .context = T, .vocabulary = 256 };
    data_source s = opened(&o);
    assert_int_equal(text_source_kind(&s), DATA_KIND_BYTES);
    assert_int_equal(text_source_tokens(&s), TEXT);
    check_windows(&s, 0, 100);
    data_source_close(&s);
    data_source_close(&s);
    o.hold_out = true;
    s = opened(&o);
    assert_int_equal(text_source_tokens(&s), 903);
    check_windows(&s, 0, 90);
    data_source rest;
    assert_int_equal(text_source_held_out(&s, &rest), STATUS_OK);
    data_source_close(&s); /* the files stay open for the other */
    assert_int_equal(text_source_tokens(&rest), 100);
    check_windows(&rest, 903, 9);
    data_source_close(&rest);
    /* One more token makes the tenth window. */
    scratch_write("exact.txt", "01234567890", 11);
    o = (text_source_options){ .path = "exact.txt", .context = T, .vocabulary = 256 };
    s = opened(&o);
    assert_int_equal(s.samples, 1);
    data_source_close(&s);
}

static void token_files_are_read(void **state) {
    (void)state;
    uint16_t narrow[TEXT];
    uint32_t wide[TEXT];
    for (uint64_t i = 0; i < TEXT; i++)
        narrow[i] = (uint16_t)text_token(i), wide[i] = (uint32_t)text_token(i);
    scratch_write("t.bin", narrow, sizeof narrow);
    scratch_write("t.u16", narrow, sizeof narrow);
    scratch_write("t.u32", wide, sizeof wide);
    scratch_write("named.otherwise", wide, sizeof wide);
    static const text_source_options cases[] = {
        { .path = "t.bin", .context = T, .vocabulary = 256 },
        { .path = "t.u16", .context = T, .vocabulary = 256 },
        { .path = "t.u32", .context = T, .vocabulary = 256 },
        { .path = "named.otherwise", .kind = DATA_KIND_U32, .context = T, .vocabulary = 256 },
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        data_source s = opened(&cases[i]);
        check_windows(&s, 0, 100);
        data_source_close(&s);
    }
    data_kind kind;
    assert_int_equal(data_kind_parse("u16", "--data-type", &kind), STATUS_OK);
    assert_int_equal(kind, DATA_KIND_U16);
    assert_string_equal(data_kind_name(kind), "u16");
    assert_int_equal(data_kind_parse("u8", "--data-type", &kind), STATUS_INVALID);
    assert_string_equal(status_message(),
                        "--data-type: 'u8' is none of auto, bytes, u16, u32, npy, jsonl and tokens");
}

static void folders_are_read_through(void **state) {
    (void)state;
    /* 300 files of different lengths, more than stay open; windows go over several of them. */
    assert_int_equal(mkdir("many", 0700), 0);
    assert_int_equal(mkdir("many/inner", 0700), 0);
    assert_int_equal(mkfifo("many/a-pipe", 0600), 0);
    scratch_write("many/.hidden", "hidden", 6);
    scratch_write("many/000-empty", "", 0);
    uint64_t at = 0;
    for (int f = 0; f < 300; f++) {
        uint8_t bytes[8];
        char path[32];
        size_t n = f == 299 ? 1003 - at : (size_t)(1 + f % 6);
        if (f == 299) n = n > 8 ? 8 : n;
        for (size_t i = 0; i < n; i++) bytes[i] = (uint8_t)text_token(at + i);
        snprintf(path, sizeof path, "many/f%03d.txt", f);
        scratch_write(path, bytes, n);
        at += n;
    }
    text_source_options o = { .path = "many", .context = T, .vocabulary = 256 };
    data_source s = opened(&o);
    assert_int_equal(text_source_tokens(&s), at);
    check_windows(&s, 0, (at - 1) / T);
    data_source_close(&s);
    scratch_write("many/x.bin", "ab", 2);
    assert_int_equal(text_source_open(&o, &s), STATUS_INVALID);
    assert_non_null(strstr(status_message(), "holds bytes but many/x.bin holds u16"));
    o.kind = DATA_KIND_BYTES;
    s = opened(&o);
    assert_int_equal(text_source_tokens(&s), at + 2);
    data_source_close(&s);
}

static void wrong_data_is_refused(void **state) {
    (void)state;
    static const struct {
        const char *path, *bytes;
        size_t count;
        data_kind kind;
        bool hold_out;
        const char *sentence;
    } bad[] = {
        { "absent.txt", NULL, 0, 0, 0, "cannot open the data absent.txt: No such file" },
        { "empty.txt", "", 0, 0, 0, "the data file empty.txt is empty" },
        { "short.txt", "0123456789", 10, 0, 0, "short.txt has 10 tokens; a context of 10 needs at least 11" },
        { "odd.bin", "012", 3, 0, 0, "odd.bin has 3 bytes, which is no multiple of 2" },
        { "odd.u32", "012345", 6, 0, 0, "odd.u32 has 6 bytes, which is no multiple of 4" },
        { "odd.txt", "012", 3, DATA_KIND_U16, 0, "odd.txt has 3 bytes, which is no multiple of 2" },
        { "part.txt", "01234567890", 11, 0, true,
          "the training part (first nine tenths) of part.txt has 10 tokens; a context of 10 needs at least "
          "11: use a shorter --context or more text" },
        { "array.txt", "\x93NUMPY abcdefgh", 15, 0, 0, "array.txt is a NumPy array; name it .npy" },
        { "text.gz", "\x1f\x8b abcdefghijkl", 15, 0, 0, "text.gz is gzip-compressed; unpack it" },
        { "bare", NULL, 0, 0, 0, "the folder bare has no file with anything in it" },
        { "pipe", NULL, 0, 0, 0, "pipe is neither a regular file nor a folder" },
    };
    assert_int_equal(mkdir("bare", 0700), 0);
    assert_int_equal(mkfifo("pipe", 0600), 0);
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
        data_source s;
        text_source_options o = {
            .path = bad[i].path, .kind = bad[i].kind, .hold_out = bad[i].hold_out, .context = T
        };
        o.vocabulary = 256;
        if (bad[i].bytes) scratch_write(bad[i].path, bad[i].bytes, bad[i].count);
        assert_int_equal(text_source_open(&o, &s), STATUS_INVALID);
        if (!strstr(status_message(), bad[i].sentence)) fail_msg("'%s'", status_message());
    }
    data_source s;
    assert_int_equal(text_source_open(&(text_source_options){ .path = "short.txt" }, &s), STATUS_INVALID);
}

static void wrong_tokens_are_named(void **state) {
    (void)state;
    uint32_t tokens[50] = { 0 };
    int32_t a[T], b[T];
    _Alignas(64) static char scratch[16 << 10];
    void *fields[] = { a, b };
    tokens[33] = 4000000000u;
    scratch_write("wide.u32", tokens, sizeof tokens);
    text_source_options o = { .path = "wide.u32", .context = T, .vocabulary = 50257 };
    data_source s = opened(&o);
    assert_int_equal(s.read(&s, 2, scratch, fields), STATUS_OK);
    assert_int_equal(s.read(&s, 3, scratch, fields), STATUS_INVALID);
    static const char says[] =
        "wide.u32: token 33 is 4000000000, but the vocabulary has 50257 ids (0 to 50256); ";
    assert_int_equal(strncmp(status_message(), says, sizeof says - 1), 0);
    assert_int_equal(data_source_check(&s), STATUS_INVALID);
    assert_int_equal(strncmp(status_message(), says, sizeof says - 1), 0);
    /* A file that shrinks while it is read. */
    assert_int_equal(truncate("wide.u32", 100), 0);
    assert_int_equal(s.read(&s, 2, scratch, fields), STATUS_FAILED);
    assert_non_null(strstr(status_message(), "wide.u32 at byte 100: it has become shorter"));
    data_source_close(&s);
}

/* A source whose sample k has the fields { k } and { k, -100, k }. */
typedef struct {
    uint64_t fails_at;
    pthread_mutex_t *gate; /* reads go through it, when there is one */
    bool slow;
} fake;

static status fake_read(const data_source *s, uint64_t sample, void *scratch, void *const fields[]) {
    const fake *f = s->state;
    const char *left = scratch; /* by the read before, or zeroed */
    for (uint64_t i = 0; i < s->scratch_bytes; i++)
        if (left[i] != left[0] || (left[0] && left[0] != 0x5a))
            return status_set(STATUS_FAILED, "byte %d of the scratch is %d", (int)i, left[i]);
    memset(scratch, 0x5a, s->scratch_bytes);
    if (f->gate) {
        pthread_mutex_lock(f->gate);
        pthread_mutex_unlock(f->gate);
    }
    if (f->slow) usleep((useconds_t)(sample * 37 % 11) * 30);
    if (sample >= f->fails_at)
        return status_set(STATUS_INVALID, "sample %llu is bad", (unsigned long long)sample);
    *(uint64_t *)fields[0] = sample;
    int32_t *labels = fields[1];
    labels[0] = labels[2] = (int32_t)sample;
    labels[1] = DATA_IGNORED_LABEL;
    return STATUS_OK;
}

static data_source fake_source(fake *f, uint64_t samples) {
    return (data_source){ .samples = samples,
                          .field_count = 2,
                          .label_field = 1,
                          .field_bytes = { 8, 12 },
                          .scratch_bytes = 100,
                          .read = fake_read,
                          .state = f };
}

/* A loader in memory of its own, with a border behind it that must stay as it is. */
typedef struct {
    void *memory;
    uint64_t bytes;
    loader *l;
} loading;

static loading start(const loader_options *o) {
    loading x;
    assert_int_equal(loader_bytes(o, &x.bytes), STATUS_OK);
    x.memory = aligned_alloc(64, x.bytes + 64);
    memset(x.memory, 0xa5, x.bytes + 64);
    if (loader_open(o, x.memory, &x.l) != STATUS_OK) fail_msg("%s", status_message());
    return x;
}

static void stop(loading *x) {
    loader_close(x->l);
    for (int i = 0; i < 64; i++) assert_int_equal(((uint8_t *)x->memory)[x->bytes + (uint64_t)i], 0xa5);
    free(x->memory);
}

static void check_batch(const loader_batch *b, const loader_options *o) {
    assert_int_equal(b->counted_labels, 2 * (uint64_t)b->samples);
    for (uint64_t i = 0; i < b->samples; i++) {
        uint64_t k = b->first_sample + i;
        uint64_t expected = o->sequential ? k : data_order_sample(o->seed, o->source->samples, k);
        const int32_t *labels = (const int32_t *)((const char *)b->fields[1] + i * 12);
        assert_int_equal(((const uint64_t *)b->fields[0])[i], expected);
        assert_int_equal(labels[0], expected);
        assert_int_equal(labels[1], DATA_IGNORED_LABEL);
        assert_int_equal(labels[2], expected);
    }
}

static void order_does_not_depend_on_workers(void **state) {
    (void)state;
    fake f = { .fails_at = UINT64_MAX, .slow = true };
    data_source s = fake_source(&f, 23);
    for (uint32_t workers = 0; workers <= 4; workers++)
        for (uint32_t depth = 1; depth <= 3; depth++) {
            loader_options o = { .source = &s, .batch = 5, .depth = depth, .workers = workers, .seed = 11 };
            o.first_sample = 5 * depth;
            loading x = start(&o);
            for (uint64_t b = 0; b < 20; b++) {
                loader_batch batch;
                assert_int_equal(loader_next(x.l, &batch), STATUS_OK);
                assert_int_equal(batch.samples, 5);
                assert_int_equal(batch.first_sample, o.first_sample + 5 * b);
                check_batch(&batch, &o);
                loader_done(x.l);
            }
            stop(&x);
        }
}

static void evaluation_goes_through_once(void **state) {
    (void)state;
    fake f = { .fails_at = UINT64_MAX };
    data_source s = fake_source(&f, 23);
    for (uint32_t workers = 0; workers <= 3; workers++) {
        loader_options o = { .source = &s, .batch = 5, .depth = 2, .workers = workers, .sequential = true };
        loading x = start(&o);
        loader_batch batch;
        for (uint64_t b = 0; b < 5; b++) {
            assert_int_equal(loader_next(x.l, &batch), STATUS_OK);
            assert_int_equal(batch.samples, b < 4 ? 5 : 3);
            check_batch(&batch, &o);
            loader_done(x.l);
        }
        for (int again = 0; again < 2; again++) {
            assert_int_equal(loader_next(x.l, &batch), STATUS_OK);
            assert_int_equal(batch.samples, 0);
        }
        stop(&x);
    }
    loader_options o = {
        .source = &s, .batch = 5, .depth = 2, .workers = 1, .sequential = true, .first_sample = 99
    };
    loading x = start(&o);
    loader_batch batch;
    assert_int_equal(loader_next(x.l, &batch), STATUS_OK);
    assert_int_equal(batch.samples, 0);
    stop(&x);
}

static void several_batches_can_be_out(void **state) {
    (void)state;
    fake f = { .fails_at = UINT64_MAX };
    data_source s = fake_source(&f, 100);
    loader_options o = { .source = &s, .batch = 4, .depth = 3, .workers = 2, .seed = 1 };
    loading x = start(&o);
    loader_batch batches[3], more;
    for (int i = 0; i < 3; i++) assert_int_equal(loader_next(x.l, &batches[i]), STATUS_OK);
    assert_int_equal(loader_next(x.l, &more), STATUS_INVALID);
    for (int i = 0; i < 3; i++) check_batch(&batches[i], &o);
    loader_done(x.l);
    assert_int_equal(loader_next(x.l, &more), STATUS_OK);
    assert_int_equal(more.first_sample, 12);
    check_batch(&more, &o);
    check_batch(&batches[1], &o);
    stop(&x);
}

static void failures_come_when_they_are_due(void **state) {
    (void)state;
    for (uint32_t workers = 0; workers <= 4; workers++)
        for (int round = 0; round < 10; round++) {
            fake f = { .fails_at = 13, .slow = round % 2 };
            data_source s = fake_source(&f, 100);
            loader_options o = {
                .source = &s, .batch = 5, .depth = 4, .workers = workers, .sequential = true
            };
            loading x = start(&o);
            loader_batch batch;
            for (int b = 0; b < 2; b++) {
                assert_int_equal(loader_next(x.l, &batch), STATUS_OK);
                check_batch(&batch, &o);
                loader_done(x.l);
            }
            for (int again = 0; again < 2; again++) {
                assert_int_equal(status_set(STATUS_OK, "nothing"), STATUS_OK);
                assert_int_equal(loader_next(x.l, &batch), STATUS_INVALID);
                assert_string_equal(status_message(), "sample 13 is bad");
            }
            stop(&x);
        }
}

typedef struct {
    loader *l;
    status result;
} waiting;

static void *wait_for_batch(void *argument) {
    waiting *w = argument;
    loader_batch batch;
    w->result = loader_next(w->l, &batch);
    return NULL;
}

static void *close_loader(void *argument) {
    loader_close(argument);
    return NULL;
}

static void closing_ends_all_waiting(void **state) {
    (void)state;
    /* Workers that wait for room. */
    for (int round = 0; round < 50; round++) {
        fake f = { .fails_at = UINT64_MAX };
        data_source s = fake_source(&f, 100);
        loader_options o = { .source = &s, .batch = 4, .depth = 2, .workers = 4 };
        loading x = start(&o);
        if (round % 2) usleep(1000);
        stop(&x);
    }
    /* A caller that waits for a batch, workers that are in a read. */
    for (int round = 0; round < 5; round++) {
        pthread_mutex_t gate = PTHREAD_MUTEX_INITIALIZER;
        fake f = { .fails_at = UINT64_MAX, .gate = &gate };
        data_source s = fake_source(&f, 100);
        loader_options o = { .source = &s, .batch = 4, .depth = 2, .workers = 2 };
        pthread_t waiter, closer;
        pthread_mutex_lock(&gate);
        loading x = start(&o);
        waiting w = { .l = x.l };
        assert_int_equal(pthread_create(&waiter, NULL, wait_for_batch, &w), 0);
        usleep(2000);
        assert_int_equal(pthread_create(&closer, NULL, close_loader, x.l), 0);
        pthread_join(waiter, NULL); /* before any read has come back */
        assert_int_equal(w.result, STATUS_INTERRUPTED);
        pthread_mutex_unlock(&gate);
        pthread_join(closer, NULL);
        free(x.memory);
    }
    loader_close(NULL);
}

static void senseless_options_are_refused(void **state) {
    (void)state;
    fake f = { .fails_at = UINT64_MAX };
    data_source s = fake_source(&f, 100);
    uint64_t bytes;
    const loader_options good = { .source = &s, .batch = 4, .depth = 2, .workers = 2 };
    assert_int_equal(loader_bytes(&good, &bytes), STATUS_OK);
    loader_options o = good;
    o.batch = 0;
    assert_int_equal(loader_bytes(&o, &bytes), STATUS_INVALID);
    o = good, o.depth = 0;
    assert_int_equal(loader_bytes(&o, &bytes), STATUS_INVALID);
    o = good, o.workers = LOADER_MAX_WORKERS + 1;
    assert_int_equal(loader_bytes(&o, &bytes), STATUS_INVALID);
    o = good, s.field_bytes[1] = UINT64_MAX / 3;
    assert_int_equal(loader_bytes(&o, &bytes), STATUS_INVALID);
    assert_non_null(strstr(status_message(), "2 batches of 4 samples are more than any memory"));
    s.field_bytes[1] = 12, s.samples = 0;
    assert_int_equal(loader_bytes(&o, &bytes), STATUS_INVALID);
}

static void text_is_loaded(void **state) {
    (void)state;
    write_text("t.txt");
    text_source_options t = { .path = "t.txt", .context = T, .vocabulary = 256, .hold_out = true };
    data_source s = opened(&t);
    loader_options o = { .source = &s, .batch = 7, .depth = 2, .workers = 2, .seed = 3 };
    loading x = start(&o);
    for (int b = 0; b < 40; b++) {
        loader_batch batch;
        assert_int_equal(loader_next(x.l, &batch), STATUS_OK);
        assert_int_equal(batch.counted_labels, 7 * T);
        for (uint64_t i = 0; i < 7; i++) {
            uint64_t sample = data_order_sample(3, s.samples, batch.first_sample + i);
            const int32_t *tokens = (int32_t *)batch.fields[0] + i * T,
                          *labels = (int32_t *)batch.fields[1] + i * T;
            for (uint64_t at = 0; at < T; at++) {
                assert_int_equal(tokens[at], text_token(sample * T + at));
                assert_int_equal(labels[at], text_token(sample * T + at + 1));
            }
        }
        loader_done(x.l);
    }
    stop(&x);
    data_source_close(&s);
}

/* Many folders of many files, in a process that may have few open. */
static void many_files_do_not_stay_open(void **state) {
    (void)state;
    enum { FOLDERS = 3, FILES = 130, MOST = 256 };
    struct rlimit before, few;
    data_source s[FOLDERS];
    text_source_options o = { .context = 4, .vocabulary = 256 };
    assert_int_equal(getrlimit(RLIMIT_NOFILE, &before), 0);
    few = before, few.rlim_cur = MOST;
    assert_int_equal(setrlimit(RLIMIT_NOFILE, &few), 0);
    for (int round = 0; round < 2; round++) { /* what is closed makes room again */
        for (int i = 0; i < FOLDERS; i++) {
            char folder[16], path[32], letters[8];
            snprintf(folder, sizeof folder, "many%d", i);
            if (!round) assert_int_equal(mkdir(folder, 0700), 0);
            memset(letters, 'a' + i, sizeof letters);
            for (int f = 0; f < FILES && !round; f++) {
                snprintf(path, sizeof path, "%s/%03d", folder, f);
                scratch_write(path, letters, sizeof letters);
            }
            o.path = folder;
            if (text_source_open(&o, &s[i]) != STATUS_OK) fail_msg("%s", status_message());
        }
        for (int i = 0; i < FOLDERS; i++) {
            int32_t ids[4], labels[4];
            uint8_t scratch[64];
            for (uint64_t k = 0; k < s[i].samples; k++) {
                if (s[i].read(&s[i], k, scratch, (void *[]){ ids, labels }) != STATUS_OK)
                    fail_msg("%s", status_message());
                assert_int_equal(ids[0], 'a' + i);
            }
        }
        for (int i = 0; i < FOLDERS; i++) data_source_close(&s[i]);
    }
    assert_int_equal(setrlimit(RLIMIT_NOFILE, &before), 0);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(order_is_a_permutation),          cmocka_unit_test(order_looks_random),
        cmocka_unit_test(text_is_cut_into_windows),        cmocka_unit_test(token_files_are_read),
        cmocka_unit_test(folders_are_read_through),        cmocka_unit_test(wrong_data_is_refused),
        cmocka_unit_test(wrong_tokens_are_named),          cmocka_unit_test(order_does_not_depend_on_workers),
        cmocka_unit_test(evaluation_goes_through_once),    cmocka_unit_test(several_batches_can_be_out),
        cmocka_unit_test(failures_come_when_they_are_due), cmocka_unit_test(closing_ends_all_waiting),
        cmocka_unit_test(senseless_options_are_refused),   cmocka_unit_test(text_is_loaded),
        cmocka_unit_test(many_files_do_not_stay_open),
    };
    return cmocka_run_group_tests(tests, scratch_open, scratch_close);
}
