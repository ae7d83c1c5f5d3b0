#include "snapshot/writer.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { TEXTS = 1 << 12, MOST_LIVE = 1 << 12, BATCH = 1000 };

typedef struct {
    uint64_t address, bytes;
    uint32_t stack;
    bool before;
} live_block;

typedef struct {
    char action;
    uint64_t address, bytes, time;
    uint32_t stack;
} event;

typedef struct {
    const writer_options *o;
    FILE *out;
    uint64_t random, address, time;
    uint32_t memo;
    char *texts[TEXTS];
    uint32_t text_memo[TEXTS], text_count;
    uint32_t *stack_memo, *frame_memo; /* 0: not written yet, else one more */
    live_block live[MOST_LIVE];
    uint32_t live_count, drawn;
    int64_t level;
    writer_truth *truth;
    event held[3];
    uint32_t held_count, held_at;
} writer;

static uint32_t draw(writer *w, uint32_t below) {
    w->random = w->random * 6364136223846793005u + 1442695040888963407u;
    return below ? (uint32_t)(w->random >> 33) % below : 0;
}

/* ---- opcodes ---- */

static void byte(writer *w, int b) { putc_unlocked(b, w->out); }
static void number_of(writer *w, uint64_t v, int bytes) {
    for (int i = 0; i < bytes; i++) byte(w, (int)(v >> 8 * i & 255));
}

static uint32_t put(writer *w) {
    if (w->o->protocol >= 4) {
        byte(w, 0x94);
    } else if (w->memo < 256) {
        byte(w, 'q'), byte(w, (int)w->memo);
    } else {
        byte(w, 'r'), number_of(w, w->memo, 4);
    }
    return ++w->memo;
}

static void get(writer *w, uint32_t memo) {
    if (memo - 1 < 256)
        byte(w, 'h'), byte(w, (int)(memo - 1));
    else
        byte(w, 'j'), number_of(w, memo - 1, 4);
}

static void text(writer *w, const char *t) {
    size_t length = strlen(t);
    for (uint32_t i = 0; i < w->text_count && !w->o->python; i++)
        if (strcmp(w->texts[i], t) == 0) {
            get(w, w->text_memo[i]);
            return;
        }
    if (w->o->protocol >= 4 && length < 256)
        byte(w, 0x8c), byte(w, (int)length);
    else
        byte(w, 'X'), number_of(w, length, 4);
    fwrite(t, 1, length, w->out);
    uint32_t memo = put(w);
    if (w->o->python || w->text_count == TEXTS) return;
    w->texts[w->text_count] = strdup(t);
    w->text_memo[w->text_count++] = memo;
}

static void number(writer *w, uint64_t v) {
    if (v < 256) {
        byte(w, 'K'), byte(w, (int)v);
    } else if (v < 65536) {
        byte(w, 'M'), number_of(w, v, 2);
    } else if (v < UINT64_C(1) << 31) {
        byte(w, 'J'), number_of(w, v, 4);
    } else {
        int bytes = 5;
        while (bytes < 9 && (bytes == 8 ? v >> 63 : v >> (8 * bytes - 1))) bytes++;
        byte(w, 0x8a), byte(w, bytes);
        for (int i = 0; i < bytes; i++) byte(w, i < 8 ? (int)(v >> 8 * i & 255) : 0);
    }
}

static void open_dict(writer *w) { byte(w, '}'), put(w), byte(w, '('); }
static void key_number(writer *w, const char *key, uint64_t v) { text(w, key), number(w, v); }
static void key_text(writer *w, const char *key, const char *v) { text(w, key), text(w, v); }

/* ---- stacks ---- */

static void frame(writer *w, uint32_t f) {
    char name[64], file[64];
    if (w->frame_memo[f] && !w->o->python) {
        get(w, w->frame_memo[f]);
        return;
    }
    snprintf(name, sizeof name, "function_%u", f);
    snprintf(file, sizeof file, "/home/a/site-packages/torch/nn/modules/module_%u.py", f % 50);
    open_dict(w);
    w->frame_memo[f] = w->memo;
    key_text(w, "name", name), key_text(w, "filename", file), key_number(w, "line", f * 7);
    byte(w, 'u');
}

enum { FRAMES = 2000 };

static void frames(writer *w, uint32_t stack, bool shared) {
    if (shared && w->stack_memo[stack]) {
        get(w, w->stack_memo[stack]);
        return;
    }
    byte(w, ']'), put(w);
    w->stack_memo[stack] = w->memo;
    uint32_t count = w->o->frames, f = stack * 7919u;
    if (!count) return;
    bool one = count == 1 && !w->o->one_batch;
    if (!one) byte(w, '(');
    for (uint32_t i = 0; i < count; i++) frame(w, (f = f * 1103515245u + 12345u) / 65536 % FRAMES);
    byte(w, one ? 'a' : 'e');
}

/* ---- the course of events ---- */

static live_block new_block(writer *w, bool before) {
    live_block b = { .address = w->address,
                     .bytes = draw(w, 4) ? 1 + draw(w, 1 << 20) : UINT64_C(1) << 31 | draw(w, 1 << 20),
                     .stack = draw(w, w->o->stacks),
                     .before = before };
    w->address += (b.bytes + 511) / 512 * 512;
    return b;
}

static void count(writer *w, int64_t bytes) {
    w->level += bytes;
    if (w->level <= (int64_t)w->truth->peak) return;
    w->truth->peak = (uint64_t)w->level;
    w->truth->peak_at = w->truth->events;
    w->truth->peak_time = w->o->no_times ? 0 : w->time;
}

static void hold(writer *w, char action, const live_block *b) {
    w->held[w->held_count++] =
        (event){ .action = action, .address = b->address, .bytes = b->bytes, .stack = b->stack };
}

static bool next_event(writer *w, event *e) {
    if (w->held_at == w->held_count) {
        if (w->drawn >= w->o->events) return false;
        w->held_at = w->held_count = 0;
        bool grows = w->live_count < w->o->most / 2 ? draw(w, 3) > 0 : draw(w, 5) < 2;
        if ((grows || !w->live_count) && w->live_count < w->o->most) {
            live_block b = new_block(w, false);
            w->live[w->live_count++] = b;
            hold(w, 'a', &b);
        } else {
            uint32_t i = draw(w, w->live_count);
            hold(w, 'r', &w->live[i]), hold(w, 'c', &w->live[i]);
            w->live[i] = w->live[--w->live_count];
        }
    }
    *e = w->held[w->held_at++];
    w->drawn++;
    w->truth->events++;
    w->time += draw(w, 100) ? draw(w, 200) : draw(w, 100000);
    e->time = w->time;
    if (e->action == 'a') count(w, (int64_t)e->bytes);
    if (e->action == 'c') count(w, -(int64_t)e->bytes);
    return true;
}

static void write_event(writer *w, const event *e) {
    open_dict(w);
    key_text(w, "action",
             e->action == 'a'   ? "alloc"
             : e->action == 'r' ? "free_requested"
                                : "free_completed");
    key_number(w, "addr", e->address), key_number(w, "size", e->bytes), key_number(w, "stream", 0);
    if (!w->o->no_times) key_number(w, "time_us", e->time);
    if (w->o->more_keys) {
        key_text(w, "compile_context", "N/A"), key_text(w, "user_metadata", "");
        text(w, "pool_id"), number(w, 0), number(w, 0), byte(w, 0x86), put(w);
        text(w, "forward_frames"), byte(w, ']'), put(w);
        text(w, "from_2031"), byte(w, '}'), put(w), text(w, "deep"), byte(w, ']'), put(w), byte(w, 'N'),
            byte(w, 'a'), byte(w, 's');
        text(w, "ratio"), byte(w, 'G'), number_of(w, 0x182d4454fb210940u, 8);
    }
    text(w, "frames"), frames(w, e->stack, e->action != 'a');
    byte(w, 'u');
}

static void write_trace(writer *w) {
    event e;
    uint32_t written = 0;
    byte(w, ']'), put(w);
    bool more = next_event(w, &e);
    if (more && w->o->one_batch) byte(w, '(');
    for (; more; more = next_event(w, &e), written++) {
        if (!w->o->one_batch && written % BATCH == 0) {
            if (written) byte(w, 'e');
            byte(w, '(');
        }
        write_event(w, &e);
    }
    if (written) byte(w, 'e');
}

/* ---- segments ---- */

static void write_block(writer *w, const live_block *b, const char *state) {
    open_dict(w);
    if (!w->o->history) key_number(w, "address", b->address);
    key_number(w, "size", (b->bytes + 511) / 512 * 512);
    if (!w->o->history) key_number(w, "requested_size", b->bytes);
    key_text(w, "state", state);
    if (w->o->history) {
        text(w, "history"), byte(w, ']'), put(w);
        open_dict(w);
        key_number(w, "addr", b->address), key_number(w, "real_size", b->bytes);
        text(w, "frames"), frames(w, b->stack, true), byte(w, 'u'), byte(w, 'a');
    } else {
        text(w, "frames"), frames(w, b->stack, true);
    }
    byte(w, 'u');
}

static void write_segment(writer *w, const live_block *b, int device) {
    live_block free_one = { .address = b->address + (b->bytes + 511) / 512 * 512, .bytes = 512 };
    open_dict(w);
    key_number(w, "device", (uint64_t)device), key_number(w, "address", b->address);
    key_number(w, "total_size", free_one.address + 512 - b->address),
        key_number(w, "allocated_size", b->bytes);
    key_number(w, "active_size", b->bytes), key_number(w, "stream", 0);
    key_text(w, "segment_type", "large");
    text(w, "blocks"), byte(w, ']'), put(w), byte(w, '(');
    write_block(w, b, "active_allocated");
    if (!w->o->history) write_block(w, &free_one, "inactive");
    byte(w, 'e'), byte(w, 'u');
}

static void write_segments(writer *w, const live_block *const *all, const uint32_t *counts) {
    byte(w, ']'), put(w);
    for (int d = 0; d < w->o->devices; d++)
        for (uint32_t i = 0; i < counts[d]; i++) write_segment(w, &all[d][i], d), byte(w, 'a');
}

/* ---- the whole ---- */

static void begin_device(writer *w, writer_truth *truth) {
    *truth = (writer_truth){ 0 };
    w->truth = truth;
    w->live_count = w->drawn = w->held_at = w->held_count = 0;
    w->level = 0;
    w->time = 1748732595041465u;
    w->address = 0x7f0000000000u;
    for (uint32_t i = 0; i < w->o->before; i++) w->live[w->live_count++] = new_block(w, true);
    for (uint32_t i = 0; i < w->live_count; i++) w->level += (int64_t)w->live[i].bytes;
    truth->before = truth->peak = (uint64_t)w->level;
}

enum { MOST_DEVICES = 4 };

/* Writes a run of all devices to `out`; what is alive at the end goes to `ends`. */
static void write_traces(writer *w, writer_truth *truth, live_block *ends[], uint32_t counts[]) {
    byte(w, ']'), put(w);
    for (int d = 0; d < w->o->devices; d++) {
        begin_device(w, &truth[d]);
        write_trace(w), byte(w, 'a');
        truth[d].end = (uint64_t)w->level;
        counts[d] = w->live_count;
        ends[d] = malloc((w->live_count + 1) * sizeof *ends[d]);
        memcpy(ends[d], w->live, w->live_count * sizeof *ends[d]);
    }
}

static void write_notes(writer *w) {
    byte(w, ']'), put(w), byte(w, '(');
    for (int i = 0; i < 2; i++) {
        open_dict(w);
        key_text(w, "stage", i ? "END" : "START"), key_text(w, "name", "Optimizer.step#AdamW.step");
        key_number(w, "device", 0), key_number(w, "time_us", 1748732595041465u + (uint64_t)i), byte(w, 'u');
    }
    byte(w, 'e');
}

static void forget(writer *w) {
    for (uint32_t i = 0; i < w->text_count; i++) free(w->texts[i]);
    w->text_count = w->memo = 0;
    memset(w->stack_memo, 0, w->o->stacks * sizeof *w->stack_memo);
    memset(w->frame_memo, 0, FRAMES * sizeof *w->frame_memo);
}

static void write_all(writer *w, writer_truth *truth) {
    live_block *ends[MOST_DEVICES] = { NULL }, *early[MOST_DEVICES] = { NULL };
    uint32_t counts[MOST_DEVICES];
    byte(w, 0x80), byte(w, w->o->protocol);
    uint64_t random = w->random;
    if (w->o->early_lists || w->o->bare) { /* once for nothing, to know what is alive at the end */
        FILE *real = w->out;
        w->out = fopen("/dev/null", "wb");
        write_traces(w, truth, early, counts);
        fclose(w->out);
        w->out = real, w->random = random;
        forget(w);
    }
    if (w->o->bare) {
        write_segments(w, (const live_block *const *)early, counts);
    } else {
        open_dict(w);
        if (w->o->early_lists)
            text(w, "segments"), write_segments(w, (const live_block *const *)early, counts);
        text(w, "device_traces"), write_traces(w, truth, ends, counts);
        if (!w->o->early_lists)
            text(w, "segments"), write_segments(w, (const live_block *const *)ends, counts);
        if (w->o->more_keys) text(w, "external_annotations"), write_notes(w);
        byte(w, 'u');
    }
    byte(w, '.');
    for (int d = 0; d < w->o->devices; d++) free(ends[d]), free(early[d]);
}

void writer_write(const char *path, const writer_options *o, writer_truth *truth) {
    static writer w;
    w = (writer){ .o = o, .random = o->seed, .out = fopen(path, "wb") };
    w.stack_memo = calloc(o->stacks, sizeof *w.stack_memo);
    w.frame_memo = calloc(FRAMES, sizeof *w.frame_memo);
    if (!w.out || !w.stack_memo || !w.frame_memo || o->devices > MOST_DEVICES || o->most > MOST_LIVE) abort();
    write_all(&w, truth);
    if (fclose(w.out) != 0) abort();
    forget(&w);
    free(w.stack_memo), free(w.frame_memo);
}
