/* The allocator's twin and the gaps it leaves: where a recording is changed, the twin says where. */
#define _GNU_SOURCE
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <string.h>
#include <time.h>

#include "io/scratch.h"
#include "sanitized.h"
#include "snapshot/gaps.h"
#include "snapshot/play.h"
#include "snapshot/twin.h"

#define RECORDED SNUG_ROOT "/bench/snapshots/"

static snapshot_trace *open_recording(const char *name, snapshot *s) {
    char path[256];
    snprintf(path, sizeof path, RECORDED "%s.pickle.gz", name);
    if (snapshot_open(path, s) != STATUS_OK) fail_msg("%s", status_message());
    for (uint32_t i = 0; i < s->trace_count; i++)
        if (s->traces[i].events) return &s->traces[i];
    fail_msg("%s has no events", name);
    return NULL;
}

static void a_segment_of_another_size_is_found(void **state) {
    (void)state;
    snapshot s;
    twin w;
    snapshot_trace *t = open_recording("plain", &s);
    for (uint32_t i = 0; i < snapshot_count(&t->turns); i++) {
        snapshot_turn *x = snapshot_turn_at(t, i);
        x->bytes += 2 << 20;
        assert_int_equal(twin_play(&s, t, t->top_at, &w), STATUS_OK);
        assert_null(w.why);
        assert_int_equal(w.equal, i);
        assert_true(w.differs_at > x->at && w.differs_at <= x->at + 2);
        assert_int_equal(w.recorded, w.made + (2 << 20));
        x->bytes -= 2 << 20;
    }
    assert_int_equal(twin_play(&s, t, t->top_at, &w), STATUS_OK);
    assert_int_equal(w.equal, w.turns);
    snapshot_close(&s);
}

static void a_segment_that_was_not_given_back_is_found(void **state) {
    (void)state;
    snapshot s;
    twin w;
    snapshot_trace *t = open_recording("oom", &s);
    uint32_t first = 0;
    while (snapshot_turn_at(t, first)->kind != SNAPSHOT_SEGMENT_FREE) first++;
    snapshot_turn_at(t, first)->bytes = 0;
    assert_int_equal(twin_play(&s, t, t->top_at, &w), STATUS_OK);
    assert_int_equal(w.equal, first);
    assert_int_equal(w.made, w.recorded + (2 << 20));
    snapshot_close(&s);
}

static void what_it_does_not_know_it_does_not_play(void **state) {
    (void)state;
    snapshot s;
    twin w;
    snapshot_trace *t = open_recording("plain", &s);
    assert_int_equal(play_before(t, 512), STATUS_OK);
    assert_int_equal(twin_play(&s, t, 0, &w), STATUS_OK);
    assert_non_null(strstr(w.why, "memory is in use"));
    t->base = 0, t->before.count = 1, snapshot_turn_at(t, 0)->kind = SNAPSHOT_SEGMENT_UNMAP;
    assert_int_equal(twin_play(&s, t, 0, &w), STATUS_OK);
    assert_non_null(strstr(w.why, "pages"));
    snapshot_close(&s);
}

/* At every event: segments are what was taken and not given back, and pieces lie in them, beside what is
 * alive.
 */
static void gaps_fill_segments_up(void **state) {
    (void)state;
    static const char *const names[] = { "oom", "expandable", "streams" };
    for (int n = 0; n < 3; n++) {
        snapshot s;
        snapshot_trace *t = open_recording(names[n], &s);
        uint64_t most = 0;
        for (uint32_t at = 0; at <= t->events; at += 7) {
            alive a;
            gaps g;
            uint64_t reserved = 0, rounded = 0;
            for (uint32_t i = 0; i < snapshot_count(&t->turns) && snapshot_turn_at(t, i)->at <= at; i++) {
                const snapshot_turn *x = snapshot_turn_at(t, i);
                if (x->kind == SNAPSHOT_OOM) continue;
                reserved += x->kind == SNAPSHOT_SEGMENT_FREE ? -x->bytes : x->bytes;
            }
            assert_int_equal(alive_at(t, at, &a), STATUS_OK);
            assert_int_equal(gaps_at(&s, t, at, &a, &g), STATUS_OK);
            for (uint32_t i = 0; i < a.count; i++) rounded += (a.pieces[i]->bytes + 511) / 512 * 512;
            assert_int_equal(g.reserved, reserved);
            assert_int_equal(g.free, reserved - rounded);
            if (reserved > most) most = reserved;
            gaps_close(&g);
            alive_close(&a);
        }
        assert_true(gaps_course_of(t).most >= most);
        snapshot_close(&s);
    }
}

/* As many as a program makes that empties the cache in each step, looked at from before all of them. */
static void many_turns_are_gone_through_once(void **state) {
    (void)state;
    enum { SEGMENTS = 200000 };
    snapshot s = { .form = SNAPSHOT_PICKLE };
    snapshot_trace t = { .type = SNAPSHOT_UNTOLD };
    uint32_t lane;
    alive a = { 0 };
    gaps g;
    assert_int_equal(array_open(&s.lanes, sizeof(snapshot_lane), 2), STATUS_OK);
    assert_int_equal(snapshot_add(&s.lanes, &lane), STATUS_OK);
    assert_int_equal(play_open(&t), STATUS_OK);
    for (uint64_t i = 0; i < 2 * SEGMENTS; i++) {
        uint64_t at = i < SEGMENTS ? i : (i * 7919) % SEGMENTS;
        assert_int_equal(
            play_add(&t, &(play_event){ .action = i < SEGMENTS ? PLAY_SEGMENT_ALLOC : PLAY_SEGMENT_FREE,
                                        .address = (1 + at) << 21,
                                        .bytes = 2 << 20 }),
            STATUS_OK);
    }
    clock_t before = clock();
    for (uint32_t at = 0; at <= 2 * SEGMENTS; at += SEGMENTS) {
        assert_int_equal(gaps_at(&s, &t, at, &a, &g), STATUS_OK);
        assert_int_equal(g.reserved, at == SEGMENTS ? (uint64_t)SEGMENTS << 21 : 0);
        assert_int_equal(g.segment_count, at == SEGMENTS ? SEGMENTS : 0);
        gaps_close(&g);
    }
    if (clock() - before > (SANITIZED ? 20 : 2) * CLOCKS_PER_SEC) fail_msg("it takes too long");
    play_close(&t);
    array_close(&s.lanes);
}

static void a_request_meets_its_own_pool_and_stream(void **state) {
    (void)state;
    gaps_range pieces[] = { { 0, 700, 0, true, 0 },
                            { 4096, 3 << 20, 0, false, 0 },
                            { 1 << 30, 5 << 20, 1, false, 0 },
                            { 1u << 31, 9 << 20, 2, false, 7 } };
    gaps g = { .pieces = pieces, .piece_count = 4 };
    gaps_request r = gaps_meet(&g, (4 << 20) - 3, 0, 0);
    assert_int_equal(r.rounded, 4 << 20);
    assert_int_equal(r.own, 3 << 20);
    assert_int_equal(r.largest, 3 << 20);
    assert_int_equal(r.other_streams, 5 << 20);
    assert_int_equal(r.other_pool, 700);
    assert_int_equal(r.private_pools, 9 << 20);
    r = gaps_meet(&g, 4 << 20, 2, 7);
    assert_true(r.is_private);
    assert_int_equal(r.own, 9 << 20);
    assert_int_equal(r.private_pools, 700 + (3 << 20) + (5 << 20));
    assert_int_equal(r.other_streams + r.other_pool, 0);
    r = gaps_meet(&g, 100, 1, 0);
    assert_int_equal(r.own, 0);
    assert_int_equal(r.other_streams, 700);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_segment_of_another_size_is_found),
        cmocka_unit_test(a_segment_that_was_not_given_back_is_found),
        cmocka_unit_test(what_it_does_not_know_it_does_not_play),
        cmocka_unit_test(gaps_fill_segments_up),
        cmocka_unit_test(many_turns_are_gone_through_once),
        cmocka_unit_test(a_request_meets_its_own_pool_and_stream),
    };
    return cmocka_run_group_tests(tests, scratch_open, scratch_close);
}
