/* Blocks: what is found has been compared id by id, what was given up first goes first, and the beginnings
 * of texts go last. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include "infer/blocks.h"

static const int32_t *ids_of(int32_t kind) {
    static int32_t ids[CACHE_BLOCK];
    for (int i = 0; i < CACHE_BLOCK; i++) ids[i] = kind * 100 + i;
    return ids;
}

static void open_blocks(int64_t count, blocks *b) { assert_int_equal(blocks_open(count, b), STATUS_OK); }

/* A text of n blocks of the given kinds, the last of which is given up first. */
static void write_and_leave(blocks *b, const int32_t *kinds, int n) {
    int32_t line[8];
    uint64_t chain = 0;
    for (int i = 0; i < n; i++) {
        line[i] = blocks_find(b, chain, 0, ids_of(kinds[i]));
        if (line[i] == BLOCKS_NONE)
            line[i] = blocks_take(b);
        else
            blocks_use(b, line[i]);
        chain = blocks_know(b, line[i], chain, 0, ids_of(kinds[i]));
    }
    while (n-- > 0) blocks_give(b, line[n]);
}

static int found(const blocks *b, const int32_t *kinds, int n) {
    uint64_t chain = 0;
    for (int i = 0; i < n; i++) {
        int32_t at = blocks_find(b, chain, 0, ids_of(kinds[i]));
        if (at == BLOCKS_NONE) return i;
        chain = b->all[at].chain;
    }
    return n;
}

static void what_is_found_was_compared(void **state) {
    (void)state;
    blocks b;
    open_blocks(1, &b); /* one bucket: every hash is the same */
    int32_t at = blocks_take(&b), ids[CACHE_BLOCK];
    assert_int_equal(blocks_left(&b), 0);
    memcpy(ids, ids_of(1), sizeof ids);
    uint64_t chain = blocks_know(&b, at, 0, 3, ids);
    assert_int_equal(blocks_know(&b, at, 0, 3, ids), chain);
    assert_int_equal(blocks_find(&b, 0, 3, ids), at);
    assert_int_equal(blocks_find(&b, 0, 4, ids), BLOCKS_NONE);
    assert_int_equal(blocks_find(&b, chain, 3, ids), BLOCKS_NONE);
    for (int i = 0; i < CACHE_BLOCK; i++) {
        ids[i]++;
        assert_int_equal(blocks_find(&b, 0, 3, ids), BLOCKS_NONE);
        ids[i]--;
    }
    blocks_give(&b, at);
    assert_int_equal(b.kept, 1);
    assert_int_equal(blocks_find(&b, 0, 3, ids), at);
    assert_int_equal(blocks_take(&b), at);
    assert_int_equal(blocks_find(&b, 0, 3, ids), BLOCKS_NONE);
    assert_int_not_equal(blocks_know(&b, at, 0, 3, ids), chain); /* what stood behind it is not behind this */
    blocks_forget(&b, at);
    blocks_forget(&b, at);
    assert_int_equal(blocks_find(&b, 0, 3, ids), BLOCKS_NONE);
    blocks_give(&b, at);
    assert_int_equal(b.free, 1);
    blocks_close(&b);
}

static void the_same_is_known_once(void **state) {
    (void)state;
    blocks b;
    open_blocks(4, &b);
    int32_t one = blocks_take(&b), other = blocks_take(&b);
    uint64_t chain = blocks_know(&b, one, 0, 0, ids_of(1));
    assert_int_equal(blocks_know(&b, other, 0, 0, ids_of(1)), chain);
    assert_int_equal(b.all[other].chain, 0);
    blocks_give(&b, other);
    assert_int_equal(b.free, 3);
    blocks_use(&b, one);
    blocks_give(&b, one);
    assert_int_equal(b.kept, 0);
    blocks_give(&b, one);
    assert_int_equal(b.kept, 1);
    blocks_close(&b);
}

static void the_longest_unused_goes_first(void **state) {
    (void)state;
    static const int32_t first[] = { 1, 2, 3 }, second[] = { 1, 4 }, third[] = { 5, 6 };
    blocks b;
    open_blocks(6, &b);
    write_and_leave(&b, first, 3);
    write_and_leave(&b, third, 2);
    write_and_leave(&b, second, 2); /* 1 was used again */
    assert_int_equal(b.kept, 6);
    static const struct {
        int first, second, third;
    } left[] = { { 2, 2, 2 }, { 1, 2, 2 }, { 1, 2, 1 }, { 1, 2, 0 }, { 1, 1, 0 }, { 0, 0, 0 } };
    for (int i = 0; i < 6; i++) {
        assert_int_not_equal(blocks_take(&b), BLOCKS_NONE);
        assert_int_equal(found(&b, first, 3), left[i].first);
        assert_int_equal(found(&b, second, 2), left[i].second);
        assert_int_equal(found(&b, third, 2), left[i].third);
    }
    assert_int_equal(blocks_left(&b), 0);
    blocks_close(&b);
}

int main(void) {
    const struct CMUnitTest tests[] = { cmocka_unit_test(what_is_found_was_compared),
                                        cmocka_unit_test(the_same_is_known_once),
                                        cmocka_unit_test(the_longest_unused_goes_first) };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
