#include "tokenize/tokenize.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/memory.h"
#include "base/threads.h"
#include "base/units.h"
#include "device/device.h"
#include "io/file.h"
#include "io/model_config.h"
#include "language/special_tokens.h"
#include "language/tokenizer_of.h"
#include "text/template/template_json.h"
#include "tokenize/slot.h"
#include "tokenize/source_reader.h"
#include "tokenize/token_writer.h"

enum { MARK_SECONDS = 5, MOST_THREADS = 256 };

struct tokenize {
    tokenize_options options;
    tokenize_plan plan;
    wanted_tokens wanted;
    tokenizer *tokenizer;
    sources data;
    frame frame;
    uint32_t end;                     /* the token that ends a document */
    uint32_t *special, special_count; /* ids that stand for no text, rising */
    /* while it runs */
    slot slots[MOST_THREADS];
    void *reading, *record_room;
    source_reader reader;
    source_place place;   /* of the record that comes next, where `ahead` */
    bool ahead, inside;   /* a record was begun to be read; its text was not read to the end */
    bool over;            /* there are no more */
    document_piece piece; /* text: what of it no slot has taken */
    document_record record;
    uint64_t read, from; /* bytes of text; those of an earlier run */
    double begun;
};

/* What of a chat is rendered: of the identity, since the same data were other tokens before. */
#define CHATS_ARE "tools and all members of messages, null too"
#define ANSWERS_ARE "texts of their own"

/* ---- what is the same for all documents ---- */

/* What the files beside the tokenizer name, else the first end of the model's configuration that the
 * tokenizer has; NONE: nothing. */
static status find_end(tokenize *t) {
    special_tokens named = { 0 };
    families_tokens said;
    size_t bytes;
    t->end = TOKENIZER_NONE;
    status result = special_tokens_read(t->options.model, &named);
    const special_token *end = special_tokens_find(&named, "eos_token");
    if (result == STATUS_OK && end) t->end = tokenizer_id(t->tokenizer, end->text, strlen(end->text));
    special_tokens_close(&named);
    TRY(result);
    if (t->end != TOKENIZER_NONE) return STATUS_OK;
    TRY(model_config_ends(t->options.model, NULL, &said));
    for (uint32_t i = said.ends; i-- > 0;)
        if (tokenizer_token(t->tokenizer, (uint32_t)said.end[i], &bytes)) t->end = (uint32_t)said.end[i];
    return STATUS_OK;
}

static bool is_around(const frame *f, uint32_t id) {
    for (uint32_t i = 0; i < f->before_count; i++)
        if (f->before[i] == id) return true;
    for (uint32_t i = 0; i < f->behind_count; i++)
        if (f->behind[i] == id) return true;
    return false;
}

/* Those that the tokenizer calls so, and what stands around a text. */
static status find_special(tokenize *t) {
    uint32_t size = tokenizer_size(t->tokenizer), count = 0;
    for (int keep = 0; keep < 2; keep++) {
        count = 0;
        for (uint32_t id = 0; id < size; id++) {
            if (!tokenizer_is_special(t->tokenizer, id) && !is_around(&t->frame, id)) continue;
            if (keep) t->special[count] = id;
            count++;
        }
        if (!keep && count && !(t->special = memory_new(count, sizeof *t->special)))
            return status_set(STATUS_NO_FIT, "no memory for the special tokens of %s", t->options.model);
    }
    t->special_count = count;
    return STATUS_OK;
}

/* Files of the directory that decide a token. */
static status add_files(const tokenize *t, digest *d) {
    static const char *const names[] = { "tokenizer.json", "tokenizer_config.json", "special_tokens_map.json",
                                         "chat_template.jinja", "chat_template.json" };
    for (size_t i = 0; i < sizeof names / sizeof *names; i++) {
        char path[4096];
        io_sum sum;
        int length = snprintf(path, sizeof path, "%s/%s", t->options.model, names[i]);
        if (length >= (int)sizeof path || access(path, F_OK) != 0) continue;
        TRY(io_sum_file(path, false, &sum));
        digest_text(d, names[i]);
        digest_add(d, &sum.sum, sizeof sum.sum);
        digest_add(d, &sum.bytes, sizeof sum.bytes);
    }
    return STATUS_OK;
}

static status find_identity(tokenize *t) {
    const source_options *o = &t->options.data;
    const frame *f = &t->frame;
    const uint64_t said[] = { t->plan.kind,          t->options.learn, o->replace,      t->plan.token_bytes,
                              t->plan.counts.digest, f->behind_count,  t->special_count };
    digest d = digest_begin();
    digest_add(&d, said, sizeof said);
    if (t->plan.kind == SOURCE_MESSAGES) digest_text(&d, CHATS_ARE);
    if (f->apart) digest_text(&d, ANSWERS_ARE);
    digest_text(&d, o->columns ? o->columns : "");
    /* that which ends a document is named by files that say much else besides */
    digest_add(&d, f->behind, f->behind_count * sizeof *f->behind);
    if (t->special_count) digest_add(&d, t->special, t->special_count * sizeof *t->special);
    for (uint32_t i = 0; i < t->wanted.count; i++)
        if (t->wanted.items[i].state != WANTED_TOKEN_THERE) digest_text(&d, t->wanted.items[i].text);
    TRY(add_files(t, &d));
    uint64_t templates = t->slots[0].chat ? chat_digest(t->slots[0].chat) : 0;
    digest_add(&d, &templates, sizeof templates);
    t->plan.identity = digest_value(&d);
    return STATUS_OK;
}

/* ---- looking at the data ---- */

static bool asked_to_stop(void *context) {
    const tokenize *t = context;
    return t->options.stop && *t->options.stop;
}

/* `all`: bytes of text, where they are known. */
static void tell(const tokenize *t, const token_mark *at, uint64_t all) {
    if (!t->options.progress) return;
    t->options.progress(t->options.context, &(tokenize_progress){ .read = t->read,
                                                                  .bytes = all,
                                                                  .from = t->from,
                                                                  .documents = at->documents,
                                                                  .tokens = at->tokens,
                                                                  .seconds = clock_seconds() - t->begun });
}

static void seen(void *context, uint64_t bytes) {
    enum { EVERY = 16 << 20 };
    tokenize *t = context;
    if (bytes / EVERY == t->read / EVERY) return;
    t->read = bytes;
    tell(t, &(token_mark){ 0 }, 0);
}

static status look(tokenize *t) {
    source_watch watch = { asked_to_stop, seen, t };
    t->begun = clock_seconds();
    TRY(sources_open(&t->options.data, &t->data));
    t->reading = memory_room(units_align(t->data.reader_bytes, 64) + 64, 1);
    if (!t->reading) return status_set(STATUS_NO_FIT, "no memory to read the data");
    t->plan.kind = t->data.kind;
    status result =
        sources_look(&t->data, (void *)units_align((uintptr_t)t->reading, 64), &watch, &t->plan.counts);
    t->read = 0;
    if (result != STATUS_OK || t->plan.counts.records) return result;
    return status_set(STATUS_INVALID, "%s holds no record; there is nothing to make tokens of",
                      t->options.data.paths[0]);
}

/* ---- the plan ---- */

static status open_work(tokenize *t, slot *s) {
    bool there;
    TRY(tokenizer_work_open(t->tokenizer, &s->work));
    s->work_bytes = slot_work_bytes(&t->frame, s->work, t->plan.counts.longest);
    tokenizer_work_limit(s->work, s->work_bytes);
    if (t->plan.kind != SOURCE_MESSAGES) return STATUS_OK;
    TRY(chat_open(t->options.model, &s->chat, &there));
    template_options rendering = slot_rendering(&t->frame, t->plan.counts.longest);
    if (there) chat_reserve(s->chat, &rendering);
    if (there) return STATUS_OK;
    return status_set(STATUS_INVALID,
                      "the data are chats, and %s has no chat template (chat_template.jinja, or the "
                      "chat_template of a tokenizer_config.json)",
                      t->options.model);
}

/* Of a slot, `working` of them the tokenizer's. */
static uint64_t slot_memory(const tokenize *t, const slot *s, uint64_t working) {
    return slot_bytes(&t->frame, t->plan.counts.longest) + working + (s->chat ? chat_bytes(s->chat) : 0);
}

/* A record is gathered here; what is said of its strings is aligned. */
static uint64_t record_bytes(const tokenize *t) {
    return t->plan.kind == SOURCE_TEXT ? 0 : units_align(t->plan.counts.longest, 8);
}

/* What is taken whatever the number of threads. */
static uint64_t shared_memory(const tokenize *t) {
    uint64_t record = record_bytes(t) + t->special_count * sizeof *t->special;
    return sizeof *t + t->wanted.bytes + tokenizer_bytes(t->tokenizer) + t->data.reader_bytes +
           t->data.held_bytes + record;
}

/* Of the program itself: its code, and its threads' stacks. */
static uint64_t own_memory(int threads) {
    device_runtime own = device_runtime_reserve(threads);
    return own.code + own.threads;
}

/* Threads give way to --memory, and without it to what the machine has free. */
static status plan_threads(tokenize *t) {
    const tokenize_options *o = &t->options;
    uint64_t each = slot_memory(t, &t->slots[0], t->slots[0].work_bytes), shared = shared_memory(t);
    uint64_t most = o->memory ? o->memory : device_available();
    char have[UNITS_TEXT_BYTES], want[UNITS_TEXT_BYTES];
    int threads = o->threads ? o->threads : threads_available();
    if (threads > MOST_THREADS) threads = MOST_THREADS;
    while (threads > 1 && own_memory(threads) + shared + (uint64_t)threads * each > most) threads--;
    t->plan.threads = threads;
    t->plan.bytes = own_memory(threads) + shared + (uint64_t)threads * each;
    t->plan.tokenizer = tokenizer_bytes(t->tokenizer);
    if (t->plan.bytes <= most) return STATUS_OK;
    return status_set(STATUS_NO_FIT,
                      "making tokens with one thread takes %s (%" PRIu64 " bytes: %" PRIu64
                      " of them the tokenizer's, %" PRIu64 " the program's own), and %s %s",
                      units_bytes_text(t->plan.bytes, want), t->plan.bytes, t->plan.tokenizer,
                      own_memory(threads), o->memory ? "--memory is" : "the machine has",
                      units_bytes_text(most, have));
}

static void plan_disk(tokenize *t) {
    const source_counts *c = &t->plan.counts;
    uint64_t around = (uint64_t)(t->frame.before_count + t->frame.behind_count) * (t->frame.apart ? 2 : 1);
    token_mark most = { .tokens = c->bytes + c->records * around, .documents = c->records };
    t->plan.disk = token_writer_disk(&most, t->plan.token_bytes, t->frame.masks, t->special_count);
}

/* A model that answers texts reads a prompt by its encoder and writes the completion by its decoder. */
static status find_answers(tokenize *t) {
    const tokenize_options *o = &t->options;
    TRY(model_config_answers(o->model, &t->frame.apart));
    if (!t->frame.apart) return STATUS_OK;
    if (t->plan.kind != SOURCE_PAIR)
        return status_set(STATUS_INVALID,
                          "%s holds %s, and %s answers texts: it learns from records with a prompt and a "
                          "completion, both texts; --columns says other names",
                          o->data.paths[0], t->plan.kind == SOURCE_TEXT ? "texts" : "messages", o->model);
    if (o->learn == TOKENIZE_LEARN_ALL)
        return status_set(
            STATUS_INVALID,
            "--learn all: %s answers texts, and its decoder never writes a prompt; leave it out", o->model);
    return STATUS_OK;
}

static status open_frame(tokenize *t) {
    bool all = t->options.learn == TOKENIZE_LEARN_ALL;
    t->plan.token_bytes = tokenizer_size(t->tokenizer) <= 1 << 16 ? 2 : 4;
    t->frame = (frame){ .tokenizer = t->tokenizer,
                        .data = &t->data,
                        .masks = t->plan.kind != SOURCE_TEXT && !all,
                        .width = t->plan.token_bytes,
                        .scale = 1 };
    TRY(find_answers(t));
    if (t->plan.counts.values) t->frame.values = t->plan.counts.values + TEMPLATE_JSON_READING;
    TRY(open_work(t, &t->slots[0]));
    TRY(find_end(t));
    /* what a template writes has its special tokens in it */
    return t->plan.kind == SOURCE_MESSAGES ? STATUS_OK : frame_open(&t->frame, t->end);
}

static status open_all(tokenize *t) {
    bool there;
    TRY(wanted_tokens_find(t->options.model, &t->options.add, &t->wanted));
    t->plan.wanted = &t->wanted;
    TRY(tokenizer_of_open_with(t->options.model, &t->wanted, &t->tokenizer, &there));
    if (!there)
        return status_set(STATUS_INVALID,
                          "%s has no tokenizer.json, so nothing says how text becomes tokens; name the "
                          "directory of a model that has one",
                          t->options.model);
    TRY(tokenizer_take_whole(t->tokenizer));
    TRY(look(t));
    TRY(open_frame(t));
    TRY(find_special(t));
    TRY(find_identity(t));
    TRY(plan_threads(t));
    plan_disk(t);
    return STATUS_OK;
}

status tokenize_open(const tokenize_options *o, tokenize **out) {
    tokenize *t = *out = memory_new(1, sizeof *t);
    if (!t) return status_set(STATUS_NO_FIT, "no memory to make tokens");
    t->options = *o;
    return open_all(t);
}

const tokenize_plan *tokenize_planned(const tokenize *t) { return &t->plan; }

void tokenize_close(tokenize *t) {
    if (!t) return;
    source_reader_close(&t->reader);
    for (int i = 0; i < MOST_THREADS; i++) slot_close(&t->slots[i]);
    sources_close(&t->data);
    tokenizer_close(t->tokenizer);
    memory_free(t->special);
    wanted_tokens_close(&t->wanted);
    memory_free(t->reading);
    memory_free(t->record_room);
    memory_free(t);
}

/* ---- filling slots ---- */

static status next_piece(tokenize *t) {
    TRY(source_reader_next(&t->reader, &t->piece));
    if (t->piece.event == DOCUMENT_STRING) t->read += t->piece.count;
    return STATUS_OK;
}

/* Where the next record begins, unless one has been begun: its place is in `place`. */
static status look_ahead(tokenize *t) {
    bool more;
    if (t->ahead || t->inside || t->over) return STATUS_OK;
    if (t->plan.kind == SOURCE_TEXT) {
        TRY(next_piece(t));
        more = t->piece.event == DOCUMENT_RECORD;
        t->place = source_reader_place(&t->reader);
    } else {
        TRY(source_reader_gather(&t->reader, t->record_room, record_bytes(t), &t->record, &more));
        t->place = (source_place){ t->reader.file, t->record.place };
    }
    t->ahead = more, t->over = !more;
    return STATUS_OK;
}

/* The rest of a text, as far as there is room. */
static status fill_text(tokenize *t, slot *s) {
    for (;;) {
        if (t->piece.event == DOCUMENT_STRING && t->piece.count) {
            uint32_t n = slot_add(s, t->piece.bytes, t->piece.count);
            t->piece.bytes += n, t->piece.count -= n;
            if (t->piece.count) return STATUS_OK;
        }
        if (t->piece.event == DOCUMENT_RECORD_END) {
            t->inside = false;
            return STATUS_OK;
        }
        TRY(next_piece(t));
    }
}

static status fill_record(tokenize *t, slot *s) {
    for (uint32_t i = 0; i < t->record.count; i++) t->read += t->record.strings[i].count;
    slot_add_record(s, &t->record, t->place);
    return STATUS_OK;
}

static uint64_t bytes_ahead(const tokenize *t) {
    return t->plan.kind == SOURCE_TEXT ? 1 : slot_record_bytes(&t->record);
}

static status fill(tokenize *t, slot *s) {
    bool is_text = t->plan.kind == SOURCE_TEXT;
    if (t->inside) TRY(fill_text(t, s));
    for (;;) {
        TRY(look_ahead(t));
        if (t->inside || t->over || !slot_takes(s, bytes_ahead(t))) return STATUS_OK;
        if (is_text) slot_add_document(s, t->place);
        t->ahead = false, t->inside = is_text;
        TRY(is_text ? fill_text(t, s) : fill_record(t, s));
    }
}

/* How many slots were filled; the last of them may have a text that goes on. */
static status fill_round(tokenize *t, const slot *before, int *count) {
    *count = 0;
    for (int i = 0; i < t->plan.threads; i++) {
        TRY(slot_begin(&t->slots[i], i == 0 ? before : NULL));
        TRY(fill(t, &t->slots[i]));
        if (!t->slots[i].count) break;
        ++*count;
        if (t->inside) break;
    }
    return STATUS_OK;
}

/* ---- rounds ---- */

static void make_one(void *context, int64_t tile, int thread) {
    tokenize *t = context;
    (void)thread;
    slot_make(&t->slots[tile]);
}

static status write_made(token_writer *w, slot *s) {
    for (uint32_t i = 0; i < s->ended; i++) s->ends[i] += w->at.tokens;
    TRY(token_writer_add(w, &(token_batch){ s->tokens, s->learned, s->made, s->ends, s->ended }));
    slot_written(s);
    return STATUS_OK;
}

/* A slot whose tokens found no room goes on behind the others, when what was made before it is written. */
static status write_slot(tokenize *t, token_writer *w, slot *s) {
    for (;;) {
        if (s->result != STATUS_OK) return status_set(s->result, "%s", s->sentence);
        TRY(write_made(w, s));
        if (s->done) break;
        slot_make(s);
    }
    w->at.empty += s->empty;
    if (w->at.longest < s->longest) w->at.longest = s->longest;
    tell(t, &w->at, t->plan.counts.bytes);
    return STATUS_OK;
}

static status run_rounds(tokenize *t, token_writer *w) {
    double marked = -MARK_SECONDS; /* the first round is marked at once: what is short is gone over soon */
    const slot *before = NULL;
    for (int count;;) {
        TRY(look_ahead(t));
        bool edge = !t->inside && w->at.documents + w->at.empty > 0, stop = asked_to_stop(t);
        if (edge && (stop || clock_seconds() - marked > MARK_SECONDS)) {
            w->at.read = t->read;
            TRY(token_writer_mark(w, t->place));
            marked = clock_seconds();
        }
        if (stop) return status_set(STATUS_INTERRUPTED, "stopped; the same command goes on from there");
        TRY(fill_round(t, before, &count));
        if (count == 0) return STATUS_OK;
        threads_for(count, make_one, t);
        for (int i = 0; i < count; i++) TRY(write_slot(t, w, &t->slots[i]));
        before = t->inside ? &t->slots[count - 1] : NULL;
    }
}

/* ---- the whole ---- */

static status open_slots(tokenize *t) {
    if (record_bytes(t)) t->record_room = memory_room(record_bytes(t), 1);
    if (record_bytes(t) && !t->record_room)
        return status_set(STATUS_NO_FIT, "no memory for a record of %" PRIu64 " bytes",
                          t->plan.counts.longest);
    for (int i = 0; i < t->plan.threads; i++) {
        if (i > 0) TRY(open_work(t, &t->slots[i]));
        TRY(slot_open(&t->frame, t->plan.counts.longest, &t->slots[i]));
    }
    t->reader = source_reader_begin(&t->data, (void *)units_align((uintptr_t)t->reading, 64));
    return STATUS_OK;
}

/* The data of the first reading, all of them. */
static status check_all(const tokenize *t, const token_writer *w) {
    if (w->at.documents + w->at.empty == t->plan.counts.records) return STATUS_OK;
    return status_set(STATUS_FAILED,
                      "the data have changed while they were read: there were %" PRIu64
                      " documents, and then %" PRIu64,
                      t->plan.counts.records, w->at.documents + w->at.empty);
}

static uint64_t memory_taken(const tokenize *t) {
    uint64_t bytes = own_memory(t->plan.threads) + shared_memory(t);
    for (int i = 0; i < t->plan.threads; i++)
        bytes += slot_memory(t, &t->slots[i], tokenizer_work_bytes(t->slots[i].work));
    return bytes;
}

static tokenize_result result_of(const token_mark *at) {
    return (tokenize_result){ .documents = at->documents,
                              .tokens = at->tokens,
                              .learned = at->learned,
                              .empty = at->empty,
                              .longest = at->longest };
}

static status finish(tokenize *t, token_writer *w, tokenize_result *r) {
    static const char *const kinds[] = { "text", "prompts and completions", "messages" };
    char digest_digits[DIGEST_TEXT_BYTES], files[24], records[24];
    const source_counts *c = &t->plan.counts;
    snprintf(files, sizeof files, "%" PRIu64, c->files);
    snprintf(records, sizeof records, "%" PRIu64, c->records);
    const char *about[] = { "data",    digest_text_of(c->digest, digest_digits),
                            "files",   files,
                            "records", records,
                            "kind",    kinds[t->plan.kind],
                            "learn",   t->options.learn == TOKENIZE_LEARN_ALL ? "all" : "answers",
                            NULL };
    uint64_t resumed = r->resumed;
    *r = result_of(&w->at);
    r->resumed = resumed, r->peak_bytes = memory_taken(t), r->seconds = clock_seconds() - t->begun;
    w->special = t->special, w->special_count = t->special_count;
    return token_writer_finish(w, about, &r->file_bytes);
}

static status run_in(tokenize *t, token_writer *w) {
    if (w->at.documents + w->at.empty) TRY(source_reader_seek(&t->reader, w->at.next));
    t->read = w->at.read;
    if (!t->plan.grown) t->from = t->read;
    TRY(run_rounds(t, w));
    TRY(check_all(t, w));
    if (w->at.tokens) return STATUS_OK;
    return status_set(STATUS_INVALID, "there is no token in all of the data");
}

static status run_once(tokenize *t, tokenize_result *r) {
    token_writer w;
    threads_set(t->plan.threads);
    TRY(token_writer_open(&w, t->options.out, t->plan.token_bytes, t->frame.masks, t->plan.identity));
    if (!t->plan.grown) r->resumed = w.at.documents;
    status result = run_in(t, &w);
    if (result == STATUS_OK) return finish(t, &w, r);
    if (result == STATUS_INVALID)
        token_writer_discard(&w);
    else
        token_writer_keep(&w);
    return result;
}

/* As it was before the first slot was filled, but for the plan. */
static void forget_run(tokenize *t) {
    source_reader_close(&t->reader);
    for (int i = 0; i < MOST_THREADS; i++) slot_close(&t->slots[i]);
    memory_free(t->record_room);
    t->record_room = NULL;
    t->ahead = t->inside = t->over = false;
    t->piece = (document_piece){ 0 };
}

/* A text had no room: plans for four times as much. The sentence of the text stays in front where that does
 * not fit. */
static status plan_more(tokenize *t) {
    enum { MOST_SCALE = 1 << 14, STEP = 4 };
    char why[STATUS_SENTENCE];
    snprintf(why, sizeof why, "%s", status_message());
    if (t->frame.scale >= MOST_SCALE) return STATUS_NO_FIT;
    forget_run(t);
    t->frame.scale *= STEP;
    TRY(open_work(t, &t->slots[0]));
    if (plan_threads(t) != STATUS_OK) {
        char need[STATUS_SENTENCE];
        snprintf(need, sizeof need, "%s", status_message());
        return status_set(STATUS_NO_FIT, "%s; %s", why, need);
    }
    t->plan.grown++;
    if (t->options.grown) t->options.grown(t->options.context, &t->plan, why);
    return STATUS_OK;
}

/* What a text takes is known when it is reached. One that has no room in what was planned is planned for
 * anew, and the run goes on from its last mark. */
status tokenize_run(tokenize *t, tokenize_result *r) {
    *r = (tokenize_result){ 0 };
    t->begun = clock_seconds();
    for (;;) {
        TRY(open_slots(t));
        status result = run_once(t, r);
        if (result != STATUS_NO_FIT) return result;
        TRY(plan_more(t));
    }
}

bool tokenize_is_made(const char *path, uint64_t identity, tokenize_result *r) {
    token_made m;
    *r = (tokenize_result){ 0 };
    if (!token_writer_made(path, &m) || !m.whole || m.identity != identity) return false;
    *r = result_of(&m.at);
    r->resumed = m.at.documents, r->file_bytes = m.bytes;
    return true;
}

void tokenize_tidy(const char *path, uint64_t identity) { token_writer_tidy(path, identity); }
