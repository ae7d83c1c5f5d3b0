/* The machine for pickles: what is data is read, and whatever else is refused with its byte. */
#define _GNU_SOURCE
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <stdlib.h>
#include <string.h>

#include "io/pickle.h"
#include "io/pickle_memo.h"
#include "io/scratch.h"

/* ---- a reader that writes down what it sees ---- */

typedef struct {
    const uint8_t *bytes;
    size_t count, at, some; /* at most `some` at once */
} memory_source;

static status read_memory(void *from, void *into, size_t room, size_t *got) {
    memory_source *s = from;
    *got = s->count - s->at < room ? s->count - s->at : room;
    if (s->some && *got > s->some) *got = s->some;
    memcpy(into, s->bytes + s->at, *got);
    s->at += *got;
    return STATUS_OK;
}

typedef struct {
    char said[4096];
    size_t length;
    pickle_texts texts;
    uint64_t items;
    bool quiet;
} witness;

static void say(witness *w, const char *format, ...) {
    va_list list;
    va_start(list, format);
    if (!w->quiet)
        w->length += (size_t)vsnprintf(w->said + w->length, sizeof w->said - w->length, format, list);
    va_end(list);
    if (w->length > sizeof w->said - 128) w->quiet = true;
}

static void say_value(witness *w, const pickle_value *v) {
    double number;
    switch (v->kind) {
    case PICKLE_NONE: say(w, "None "); break;
    case PICKLE_BOOL: say(w, v->bits ? "True " : "False "); break;
    case PICKLE_INTEGER: say(w, "%llu ", (unsigned long long)v->bits); break;
    case PICKLE_NEGATIVE: say(w, "%lld ", (long long)v->bits); break;
    case PICKLE_FLOAT: memcpy(&number, &v->bits, 8), say(w, "%g ", number); break;
    case PICKLE_TEXT: say(w, "'%s' ", pickle_texts_at(&w->texts, (uint32_t)v->bits)); break;
    case PICKLE_TUPLE: say(w, "tuple "); break;
    case PICKLE_LIST: say(w, "list%llu ", (unsigned long long)v->bits); break;
    case PICKLE_DICT: say(w, "dict "); break;
    default: say(w, "own%llu ", (unsigned long long)v->bits);
    }
}

static status see_pairs(void *context, const pickle_value *pairs, size_t count, pickle_value *dict) {
    witness *w = context;
    say(w, "{ ");
    for (size_t i = 0; i < count; i++) say_value(w, &pairs[i]);
    say(w, "} ");
    dict->kind = PICKLE_OWN, dict->bits = count / 2;
    return STATUS_OK;
}

static status see_items(void *context, const pickle_value *items, size_t count, pickle_value *list) {
    witness *w = context;
    (void)list;
    say(w, "[ ");
    for (size_t i = 0; i < count; i++) say_value(w, &items[i]);
    say(w, "] ");
    w->items += count;
    return STATUS_OK;
}

static status read_some(witness *w, const void *bytes, size_t count, size_t some) {
    memory_source from = { .bytes = bytes, .count = count, .some = some };
    pickle_source source = { .read = read_memory, .from = &from, .path = "x" };
    pickle_reader reader = { .pairs = see_pairs, .items = see_items, .context = w, .kept = 1u << PICKLE_OWN };
    pickle_value root;
    w->length = 0, w->said[0] = 0, w->items = 0;
    assert_int_equal(pickle_texts_open(&w->texts), STATUS_OK);
    status result = pickle_read(&source, &reader, &w->texts, &root, NULL);
    if (result == STATUS_OK) say(w, "= "), say_value(w, &root);
    pickle_texts_close(&w->texts);
    return result;
}

#define BYTES(text) (text), sizeof(text) - 1

/* ---- what is data ---- */

static const struct {
    const char *bytes;
    size_t count;
    const char *said;
} data[] = {
    { BYTES("\x80\x02K\x05."), "= 5 " },
    { BYTES("\x80\x04\x95\x02\0\0\0\0\0\0\0K\x05."), "= 5 " },
    { BYTES("\x80\x05M\x01\x02."), "= 513 " },
    { BYTES("\x80\x02J\xff\xff\xff\xff."), "= -1 " },
    { BYTES("\x80\x02J\0\0\0\x7f."), "= 2130706432 " },
    { BYTES("\x80\x02\x8a\0."), "= 0 " },
    { BYTES("\x80\x02\x8a\1\xff."), "= -1 " },
    { BYTES("\x80\x02\x8a\x08\xff\xff\xff\xff\xff\xff\xff\x7f."), "= 9223372036854775807 " },
    { BYTES("\x80\x02\x8a\x09\xff\xff\xff\xff\xff\xff\xff\xff\0."), "= 18446744073709551615 " },
    { BYTES("\x80\x02\x8b\2\0\0\0\0\x80."), "= -32768 " },
    { BYTES("\x80\x02G?\xf8\0\0\0\0\0\0."), "= 1.5 " },
    { BYTES("\x80\x02N."), "= None " },
    { BYTES("\x80\x02\x88."), "= True " },
    { BYTES("\x80\x02(K\1\x89t."), "= tuple " },
    { BYTES("\x80\x02K\1\x85."), "= tuple " },
    { BYTES("\x80\x02K\1K\2\x86."), "= tuple " },
    { BYTES("\x80\x02K\1K\2K\3\x87."), "= tuple " },
    { BYTES("\x80\x02)."), "= tuple " },
    { BYTES("\x80\x02]K\1a."), "[ 1 ] = list1 " },
    { BYTES("\x80\x02](K\1K\2e."), "[ 1 2 ] = list1 " },
    { BYTES("\x80\x02](e."), "= list1 " },
    { BYTES("\x80\x02(K\1K\2l."), "[ 1 2 ] = list1 " },
    { BYTES("\x80\x02}X\1\0\0\0aK\1s."), "{ 'a' 1 } = own1 " },
    { BYTES("\x80\x04}(\x8c\1aK\1\x8c\1bNu."), "{ 'a' 1 'b' None } = own2 " },
    { BYTES("\x80\x04}(u."), "= dict " },
    { BYTES("\x80\x02(X\1\0\0\0aK\1d."), "{ 'a' 1 } = own1 " },
    { BYTES("\x80\x04\x8d\1\0\0\0\0\0\0\0a."), "= 'a' " },
    /* What the memo has is what stands for the dict when it is done. */
    { BYTES("\x80\x04]\x94(}\x94\x8c\1aK\1sh\1e."), "{ 'a' 1 } [ own1 own1 ] = list1 " },
    { BYTES("\x80\x02]q\0(X\1\0\0\0aq\1h\1h\0e."), "[ 'a' 'a' list1 ] = list1 " },
    { BYTES("\x80\x02]r\0\0\0\0j\0\0\0\0a."), "[ list1 ] = list1 " },
};

static void data_are_read_in_pieces_of_any_size(void **state) {
    (void)state;
    for (size_t i = 0; i < sizeof data / sizeof *data; i++)
        for (size_t some = 0; some < 4; some++) {
            witness w = { .quiet = false };
            if (read_some(&w, data[i].bytes, data[i].count, some) != STATUS_OK)
                fail_msg("case %zu: %s", i, status_message());
            assert_string_equal(w.said, data[i].said);
        }
}

/* ---- what is refused ---- */

static const struct {
    const char *bytes;
    size_t count;
    const char *sentence;
} wrong[] = {
    { BYTES(""), "x: byte 0: the file is empty" },
    { BYTES("\x80"), "x: byte 1: the pickle ends in the middle" },
    { BYTES("PK\3\4"), "x: byte 0: a zip archive, as torch.save writes" },
    { BYTES("{\"a\": 1}"), "x: byte 0: text where a pickle" },
    { BYTES("(dp0\n."), "x: byte 0: no pickle of protocols 2 to 5" },
    { BYTES("}q\0."), "x: byte 0: no pickle of protocols 2 to 5" },
    { BYTES("\x80\1."), "x: byte 1: pickles of protocols 2 to 5 are read" },
    { BYTES("\x80\6."), "x: byte 1: pickles of protocols 2 to 5 are read" },
    { BYTES("\x80\2cos\nsystem\n(X\2\0\0\0lstR."), "x: byte 2: it would import a name and run code" },
    { BYTES("\x80\4\x8c\2os\x8c\6system\x93."), "x: byte 14: it would import a name and run code" },
    { BYTES("\x80\2N)R."), "x: byte 4: it would call a function" },
    { BYTES("\x80\2N}b."), "x: byte 4: it would set up an object" },
    { BYTES("\x80\2(ios\nsystem\n."), "x: byte 3: it would make an object" },
    { BYTES("\x80\2(No."), "x: byte 4: it would make an object" },
    { BYTES("\x80\2N)\x81."), "x: byte 4: it would make an object" },
    { BYTES("\x80\4N)}\x92."), "x: byte 5: it would make an object" },
    { BYTES("\x80\2\x82\1."), "x: byte 2: it would import a name of a registry" },
    { BYTES("\x80\2Pstorage\n."), "x: byte 2: it refers to what lies outside" },
    { BYTES("\x80\2NQ."), "x: byte 3: it refers to what lies outside" },
    { BYTES("\x80\5\x97."), "x: byte 2: it refers to a buffer outside" },
    { BYTES("\x80\3C\1a."), "x: byte 2: raw bytes" },
    { BYTES("\x80\4\x8f."), "x: byte 2: a set" },
    { BYTES("\x80\2I1\n."), "x: byte 2: opcode 0x49" },
    { BYTES("\x80\2N2."), "x: byte 3: opcode 0x32" },
    { BYTES("\x80\2\xff."), "x: byte 2: opcode 0xff" },
    { BYTES("\x80\2\x8a\x09\0\0\0\0\0\0\0\0\1."), "x: byte 2: a number of more than 64 bits" },
    { BYTES("\x80\2\x8a\x0a\x6c\xfc\x9c\x46\xf9\x20\x6a\xa8\x50\x19."),
      "x: byte 2: a number of more than 64" },
    { BYTES("\x80\2\x8b\0\0\0\1."), "x: byte 2: a number of more than 64 bits" },
    { BYTES("\x80\2X\xff\xff\xff\xff"
            "abc"),
      "x: byte 2: a text of 4294967295 bytes" },
    { BYTES("\x80\4\x8d\0\0\0\0\1\0\0\0a"), "x: byte 2: a text of 4294967296 bytes" },
    { BYTES("\x80\2h\0."), "x: byte 2: it comes back to what was not there" },
    { BYTES("\x80\2Nq\1."), "x: byte 3: the memo is out of order" },
    { BYTES("\x80\2q\0."), "x: byte 2: nothing is there to be remembered" },
    { BYTES("\x80\2K\1q\0M\0\0\x85."), NULL },
    { BYTES("\x80\2\x8a\x05\0\0\0\0\1q\0h\0\x86."), "x: byte 11: it comes back to what a snapshot has once" },
    { BYTES("\x80\2a."), "x: byte 2: the stack is too short" },
    { BYTES("\x80\2Na."), "x: byte 3: the stack is too short" },
    { BYTES("\x80\2NNa."), "x: byte 4: items for what is no list" },
    { BYTES("\x80\2](]Na."), NULL },
    { BYTES("\x80\2](Na."), "x: byte 5: the stack is too short" },
    { BYTES("\x80\2]NNs."), "x: byte 5: pairs for what is no dict" },
    { BYTES("\x80\2}(Nu."), "x: byte 5: a key without its value" },
    { BYTES("\x80\2}NNe."), "x: byte 5: a mark is missing" },
    { BYTES("\x80\2t."), "x: byte 2: a mark is missing" },
    { BYTES("\x80\2\x85."), "x: byte 2: the stack is too short" },
    { BYTES("\x80\2(N(\x85."), "x: byte 5: the stack is too short" },
    { BYTES("\x80\2."), "x: byte 2: it ends with too little or too much" },
    { BYTES("\x80\2NN."), "x: byte 4: it ends with too little or too much" },
    { BYTES("\x80\2(N."), "x: byte 4: it ends with too little or too much" },
};

static void what_is_no_data_is_refused_with_its_byte(void **state) {
    (void)state;
    for (size_t i = 0; i < sizeof wrong / sizeof *wrong; i++) {
        witness w = { .quiet = false };
        assert_int_equal(read_some(&w, wrong[i].bytes, wrong[i].count, i % 3), STATUS_INVALID);
        const char *sentence = wrong[i].sentence ? wrong[i].sentence : "x: byte ";
        if (strncmp(status_message(), sentence, strlen(sentence)) != 0)
            fail_msg("case %zu: %s", i, status_message());
    }
}

/* ---- bombs ---- */

static uint8_t *bytes_of(size_t count, const char *head, const char *body, size_t width) {
    uint8_t *all = malloc(count + 8);
    memcpy(all, head, 2);
    for (size_t i = 2; i < count; i++) all[i] = (uint8_t)body[(i - 2) % width];
    return all;
}

static void what_grows_without_end_is_refused(void **state) {
    (void)state;
    static const struct {
        const char *body;
        size_t width, count;
        const char *sentence;
    } bombs[] = {
        { "(", 1, 1000, "nested deeper" },
        { "](", 2, 1000, "nested deeper" },
        { "N", 1, 1 << 20, "more values wait" },
        { "}", 1, 1 << 20, "more values wait" },
        { "K\7\x94", 3, 96 << 20, "more memory than" } /* 4 bytes of a table for three of the file */
    };
    for (size_t i = 0; i < sizeof bombs / sizeof *bombs; i++) {
        witness w = { .quiet = true };
        uint8_t *bytes = bytes_of(bombs[i].count, "\x80\4", bombs[i].body, bombs[i].width);
        if (i == 4) memcpy(bytes + 2, "](N", 3); /* in a list, which is shown piece by piece */
        assert_int_equal(read_some(&w, bytes, bombs[i].count, 0), STATUS_INVALID);
        if (!strstr(status_message(), bombs[i].sentence)) fail_msg("case %zu: %s", i, status_message());
        free(bytes);
    }
}

/* A list in one batch, however long, of which each item comes once, and a tuple that long is refused. */
static void long_lists_are_shown_while_they_are_read(void **state) {
    (void)state;
    enum { ITEMS = 1000000 };
    witness w = { .quiet = true };
    uint8_t *bytes = bytes_of(4 + 2 * ITEMS + 2, "\x80\4", "K\7", 2);
    memmove(bytes + 4, bytes + 2, 2 * ITEMS);
    bytes[2] = ']', bytes[3] = '(';
    memcpy(bytes + 4 + 2 * ITEMS, "e.", 2);
    if (read_some(&w, bytes, 4 + 2 * ITEMS + 2, 0) != STATUS_OK) fail_msg("%s", status_message());
    assert_int_equal(w.items, ITEMS);
    memcpy(bytes + 4 + 2 * ITEMS, "t.", 2);
    assert_int_equal(read_some(&w, bytes, 4 + 2 * ITEMS + 2, 0), STATUS_INVALID);
    assert_non_null(strstr(status_message(), "a tuple or dict that long"));
    free(bytes);
}

/* ---- the memo ---- */

static uint32_t any_word(uint64_t *seed) { return scratch_random(seed) % 1000 << 5 | (PICKLE_OWN + 1); }

static void the_memo_forgets_only_what_was_let_go(void **state) {
    (void)state;
    enum { COUNT = 60000 };
    static uint32_t words[COUNT];
    pickle_memo m;
    uint64_t seed = 11;
    assert_int_equal(pickle_memo_open(&m), STATUS_OK);
    for (uint32_t i = 0; i < COUNT; i++) {
        uint32_t what = scratch_random(&seed) % 6;
        words[i] = what < 3 ? 0 : what < 5 ? any_word(&seed) : i << 5 | PICKLE_LIST;
        assert_int_equal(pickle_memo_add(&m, words[i]), STATUS_OK);
        uint32_t k = scratch_random(&seed) % (i + 1), word = any_word(&seed);
        bool near = k / PICKLE_PAGE + PICKLE_LAG > i / PICKLE_PAGE, plain = (words[k] & 31) == PICKLE_LIST;
        pickle_memo_set(&m, k, word);
        if (words[k] && (near || !plain)) words[k] = word;
    }
    for (uint32_t i = 0; i < COUNT; i++) {
        bool near = i / PICKLE_PAGE + PICKLE_LAG > (COUNT - 1) / PICKLE_PAGE;
        bool plain = (words[i] & 31) == PICKLE_LIST && !near;
        assert_int_equal(pickle_memo_at(&m, i), plain ? PICKLE_TUPLE : words[i]);
    }
    assert_true(m.bytes < 4 * COUNT * 3 / 4);
    pickle_memo_close(&m);
}

/* ---- texts ---- */

static void texts_are_held_once(void **state) {
    (void)state;
    pickle_texts t;
    uint32_t number, again;
    assert_int_equal(pickle_texts_open(&t), STATUS_OK);
    for (int round = 0; round < 2; round++)
        for (uint32_t i = 0; i < 20000; i++) {
            char word[32];
            snprintf(word, sizeof word, "%u%c%u", i, round ? 0 : 0, i); /* with a zero byte */
            size_t count = i % 3 ? strlen(word) : strlen(word) + 1;
            assert_int_equal(pickle_texts_add(&t, word, count, &number), STATUS_OK);
            assert_int_equal(number, i + 1);
            assert_int_equal(pickle_texts_length(&t, number), count);
        }
    assert_int_equal(pickle_texts_add(&t, "", 0, &number), STATUS_OK);
    assert_int_equal(pickle_texts_add(&t, "", 0, &again), STATUS_OK);
    assert_int_equal(number, again);
    assert_string_equal(pickle_texts_at(&t, 0), "");
    pickle_texts_close(&t);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(data_are_read_in_pieces_of_any_size),
        cmocka_unit_test(what_is_no_data_is_refused_with_its_byte),
        cmocka_unit_test(what_grows_without_end_is_refused),
        cmocka_unit_test(long_lists_are_shown_while_they_are_read),
        cmocka_unit_test(the_memo_forgets_only_what_was_let_go),
        cmocka_unit_test(texts_are_held_once),
    };
    return cmocka_run_group_tests(tests, scratch_open, scratch_close);
}
