/* A tokenizer for scripts: tools/tokenizer_compare.py asks it for ids and texts and compares them with those
 * of the tokenizers library, bench/tokenizer for how long it takes.
 *
 *   bench-tokenizer FILE ids      reads texts, each behind its length in 4 bytes, and writes their ids so
 *   bench-tokenizer FILE special  the same with what the post-processor puts around them
 *   bench-tokenizer FILE spans    the same as special, and behind each id where its bytes begin and end
 *   bench-tokenizer FILE windows  the same as ids, but the text comes in windows of some bytes
 *   bench-tokenizer FILE text     reads lists of ids and writes their texts, without special tokens
 *   bench-tokenizer FILE all      and with them
 *   bench-tokenizer FILE stream   the same as all, id by id
 *   bench-tokenizer FILE time TEXT [ROUNDS]
 *                                 a text's lines: the processor's best seconds of the rounds, and what memory
 * it took
 *   bench-tokenizer FILE document TEXT [MIB]
 *                                 a file as one document, in windows of so many MiB (1): processor's seconds,
 * memory
 *
 * A text that is refused has the length 0xffffffff, and its sentence goes to stderr. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <time.h>
#include <unistd.h>

#include "base/clock.h"
#include "io/file.h"
#include "io/json_file.h"
#include "text/tokenizer/tokenizer.h"

static int fail(void) {
    fprintf(stderr, "%s\n", status_message());
    return 2;
}

static void write_block(const void *data, size_t count, size_t size) {
    uint32_t n = (uint32_t)count;
    fwrite(&n, sizeof n, 1, stdout);
    fwrite(data, size, count, stdout);
}

static void refuse(void) {
    uint32_t none = UINT32_MAX;
    fprintf(stderr, "%s\n", status_message());
    fwrite(&none, sizeof none, 1, stdout);
}

/* Windows of 1 to 40 bytes more than what was left of the last one. */
static status encode_windows(const tokenizer *t, tokenizer_work *w, tokenizer_text text, uint32_t **all,
                             size_t *count) {
    tokenizer_document d = { 0 };
    tokenizer_ids ids;
    uint32_t state = (uint32_t)text.bytes;
    size_t at = 0, held = 0;
    for (bool last = false; !last;) {
        state = state * 1664525u + 1013904223u;
        held += 1 + (state >> 16) % 40;
        last = held >= text.bytes - at;
        if (last) held = text.bytes - at;
        TRY(tokenizer_encode_window(t, w, &d, (tokenizer_window){ text.data + at, held, last }, &ids));
        *all = realloc(*all, (*count + ids.count + 1) * sizeof **all);
        if (!*all) return status_set(STATUS_NO_FIT, "no memory");
        if (ids.count) memcpy(*all + *count, ids.id, ids.count * sizeof **all);
        *count += ids.count;
        at += d.used, held -= d.used;
    }
    return STATUS_OK;
}

static int answer_windows(const tokenizer *t, tokenizer_work *w) {
    static char *text;
    uint32_t n, *all = NULL;
    while (fread(&n, sizeof n, 1, stdin) == 1) {
        size_t count = 0;
        text = realloc(text, (size_t)n + 1);
        if (!text || fread(text, 1, n, stdin) != n) return 1;
        if (encode_windows(t, w, (tokenizer_text){ text, n }, &all, &count) == STATUS_OK)
            write_block(all, count, sizeof *all);
        else
            refuse();
        fflush(stdout);
    }
    free(all);
    return 0;
}

static int answer_ids(const tokenizer *t, tokenizer_work *w, bool special) {
    static char *text;
    uint32_t n;
    while (fread(&n, sizeof n, 1, stdin) == 1) {
        tokenizer_ids ids;
        text = realloc(text, (size_t)n + 1);
        if (!text || fread(text, 1, n, stdin) != n) return 1;
        if (tokenizer_encode(t, w, text, n, special, &ids) == STATUS_OK)
            write_block(ids.id, ids.count, sizeof *ids.id);
        else
            refuse();
        fflush(stdout);
    }
    return 0;
}

static int answer_spans(const tokenizer *t, tokenizer_work *w) {
    static char *text;
    static uint32_t *all;
    uint32_t n;
    while (fread(&n, sizeof n, 1, stdin) == 1) {
        tokenizer_ids ids;
        const tokenizer_span *spans;
        text = realloc(text, (size_t)n + 1);
        if (!text || fread(text, 1, n, stdin) != n) return 1;
        if (tokenizer_encode_spans(t, w, (tokenizer_text){ text, n }, true, &ids, &spans) == STATUS_OK) {
            all = realloc(all, (3 * ids.count + 1) * sizeof *all);
            if (!all) return 1;
            for (size_t i = 0; i < ids.count; i++) {
                all[3 * i] = ids.id[i];
                all[3 * i + 1] = (uint32_t)spans[i].begin, all[3 * i + 2] = (uint32_t)spans[i].end;
            }
            write_block(all, 3 * ids.count, sizeof *all);
        } else {
            refuse();
        }
        fflush(stdout);
    }
    return 0;
}

static status stream_text(const tokenizer *t, tokenizer_work *w, tokenizer_ids ids, char **out,
                          size_t *used) {
    tokenizer_stream s = { .special = true };
    tokenizer_text text;
    for (size_t i = 0; i <= ids.count; i++) {
        if (i < ids.count)
            TRY(tokenizer_stream_add(t, w, &s, ids.id[i], &text));
        else
            TRY(tokenizer_stream_end(t, w, &s, &text));
        *out = realloc(*out, *used + text.bytes + 1);
        if (!*out) return status_set(STATUS_NO_FIT, "no memory");
        memcpy(*out + *used, text.data, text.bytes);
        *used += text.bytes;
    }
    return STATUS_OK;
}

static int answer_text(const tokenizer *t, tokenizer_work *w, bool special, bool stream) {
    static uint32_t *ids;
    uint32_t n;
    while (fread(&n, sizeof n, 1, stdin) == 1) {
        ids = realloc(ids, ((size_t)n + 1) * sizeof *ids);
        if (!ids || fread(ids, sizeof *ids, n, stdin) != n) return 1;
        tokenizer_ids list = { ids, n };
        tokenizer_text text = { 0 };
        char *streamed = NULL;
        size_t used = 0;
        status result =
            stream ? stream_text(t, w, list, &streamed, &used) : tokenizer_decode(t, w, list, special, &text);
        if (result == STATUS_OK)
            write_block(stream ? streamed : text.data, stream ? used : text.bytes, 1);
        else
            refuse();
        free(streamed);
        fflush(stdout);
    }
    return 0;
}

/* Of the processor, for this process: other work on the machine does not count. */
static double own_seconds(void) {
    struct timespec t;
    clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &t);
    return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}

static int measure(const tokenizer *t, tokenizer_work *w, const char *path, int rounds) {
    char *text;
    uint64_t bytes, tokens = 0;
    double best = 1e9;
    if (io_read_file(path, (uint64_t)4 << 30, &text, &bytes) != STATUS_OK) return fail();
    for (int i = 0; i < rounds; i++) {
        double begin = own_seconds();
        tokens = 0;
        for (uint64_t at = 0, end; at < bytes; at = end) {
            tokenizer_ids ids;
            const char *line = memchr(text + at, '\n', bytes - at);
            end = line ? (uint64_t)(line - text) + 1 : bytes;
            if (tokenizer_encode(t, w, text + at, end - at, false, &ids) != STATUS_OK) return fail();
            tokens += ids.count;
        }
        double seconds = own_seconds() - begin;
        if (seconds < best) best = seconds;
    }
    printf("%.6f s, %.2f MB/s, %llu tokens, %llu bytes of tables, %llu of work\n", best,
           1e-6 * (double)bytes / best, (unsigned long long)tokens, (unsigned long long)tokenizer_bytes(t),
           (unsigned long long)tokenizer_work_bytes(w));
    return 0;
}

/* Windows of a fixed buffer, which grows where nothing of it can be used. */
static int measure_document(const tokenizer *t, tokenizer_work *w, const char *path, size_t room) {
    tokenizer_document d = { 0 };
    tokenizer_ids ids;
    uint64_t bytes, tokens = 0, read = 0;
    size_t held = 0;
    int file;
    char *window = malloc(room);
    if (!window || io_open(path, &file, &bytes) != STATUS_OK) return fail();
    double begin = own_seconds();
    while (held > 0 || read < bytes) {
        uint64_t more = bytes - read < room - held ? bytes - read : room - held;
        if (io_read_at(file, path, read, window + held, more) != STATUS_OK) return fail();
        read += more, held += more;
        tokenizer_window part = { window, held, read == bytes };
        if (tokenizer_encode_window(t, w, &d, part, &ids) != STATUS_OK) return fail();
        tokens += ids.count;
        memmove(window, window + d.used, held - d.used);
        held -= d.used;
        if (held == room && !(window = realloc(window, room *= 2))) return 1;
    }
    double seconds = own_seconds() - begin;
    struct rusage usage;
    getrusage(RUSAGE_SELF, &usage);
    printf("%.2f s, %.2f MB/s, %llu tokens, window %zu KiB, work %llu KiB, resident peak %ld KiB\n", seconds,
           1e-6 * (double)bytes / seconds, (unsigned long long)tokens, room >> 10,
           (unsigned long long)tokenizer_work_bytes(w) >> 10, usage.ru_maxrss);
    free(window);
    close(file);
    return 0;
}

static int answer(const tokenizer *t, tokenizer_work *w, int count, char **arguments) {
    const char *mode = arguments[2];
    if (strcmp(mode, "ids") == 0) return answer_ids(t, w, false);
    if (strcmp(mode, "special") == 0) return answer_ids(t, w, true);
    if (strcmp(mode, "spans") == 0) return answer_spans(t, w);
    if (strcmp(mode, "windows") == 0) return answer_windows(t, w);
    if (strcmp(mode, "text") == 0) return answer_text(t, w, false, false);
    if (strcmp(mode, "all") == 0) return answer_text(t, w, true, false);
    if (strcmp(mode, "stream") == 0) return answer_text(t, w, true, true);
    if (strcmp(mode, "time") == 0 && count > 3)
        return measure(t, w, arguments[3], count > 4 ? atoi(arguments[4]) : 5);
    if (strcmp(mode, "document") == 0 && count > 3)
        return measure_document(t, w, arguments[3], (size_t)(count > 4 ? atoi(arguments[4]) : 1) << 20);
    fprintf(stderr, "unknown: %s\n", mode);
    return 2;
}

int main(int count, char **arguments) {
    int file;
    uint64_t bytes;
    tokenizer_counted *c;
    tokenizer *t;
    tokenizer_work *w;
    if (count < 3) return 2;
    double begin = clock_seconds();
    if (io_open(arguments[1], &file, &bytes) != STATUS_OK) return fail();
    json_source source = json_file_source(&file, arguments[1], "the tokenizer", 0, bytes);
    if (tokenizer_count(&source, &c) != STATUS_OK) return fail();
    double middle = clock_seconds();
    if (tokenizer_open_counted(c, &t) != STATUS_OK) return fail();
    double end = clock_seconds();
    close(file);
    if (tokenizer_bytes(t) != tokenizer_counted_bytes(c)) {
        fprintf(stderr, "planned %llu bytes, took %llu\n", (unsigned long long)tokenizer_counted_bytes(c),
                (unsigned long long)tokenizer_bytes(t));
        return 1;
    }
    tokenizer_counted_close(c);
    if (strcmp(arguments[2], "time") == 0)
        printf("counted in %.3f s, opened in %.3f s; ", middle - begin, end - middle);
    if (tokenizer_work_open(t, &w) != STATUS_OK) return fail();
    int result = answer(t, w, count, arguments);
    tokenizer_work_close(w);
    tokenizer_close(t);
    return result;
}
