/* Connections that have said nothing: at random they come, speak and end, beside a list of those who are
 * there. Who speaks or ends is told once, who is silent for too long in the order in which they came, and
 * nobody else. */
#define _GNU_SOURCE
#include "server/silent.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include <cmocka.h>

#include "base/philox.h"

enum { PLACES = 90, TURNS = 4000, SECONDS = 10 };

typedef struct {
    int here, there; /* the two ends; here -1: nobody */
    double since;
    bool spoke;
} one;

typedef struct {
    silent_set *set;
    one all[PLACES];
    int count;
    one gone[PLACES]; /* since it was looked last: they are open yet */
    int gone_count;
    uint64_t seed, told, aged;
} crowd;

static uint32_t drawn(const crowd *c, uint32_t turn, uint32_t what, uint32_t below) {
    return philox_draw(c->seed, (philox_block){ { turn, what } }).word[0] % below;
}

static void come(crowd *c, double now) {
    int ends[2], i = 0;
    assert_int_equal(socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, ends), 0);
    if (c->count == PLACES) {
        assert_false(silent_add(c->set, ends[0], now));
        close(ends[0]), close(ends[1]);
        return;
    }
    while (c->all[i].here >= 0) i++;
    assert_true(silent_add(c->set, ends[0], now));
    c->all[i] = (one){ ends[0], ends[1], now, false };
    c->count++;
}

/* It was told: nobody has it any more. */
static one *leave(crowd *c, int socket) {
    for (int i = 0; i < PLACES; i++) {
        one *x = &c->all[i];
        if (x->here != socket) continue;
        c->gone[c->gone_count++] = *x;
        x->here = -1, c->count--;
        return x;
    }
    fail_msg("socket %d was told, and is not there", socket);
    return NULL;
}

static void speak(one *x, bool ends) {
    if (x->here < 0 || x->spoke) return;
    x->spoke = true;
    if (ends)
        close(x->there), x->there = -1;
    else
        assert_int_equal(write(x->there, "x", 1), 1);
}

static void look(crowd *c, double now) {
    int waiting = 0;
    for (int i = 0; i < PLACES; i++) waiting += c->all[i].here >= 0 && c->all[i].spoke;
    for (int socket; (socket = silent_spoken(c->set)) >= 0; waiting--, c->told++)
        assert_true(leave(c, socket)->spoke);
    assert_int_equal(waiting, 0);
    assert_int_equal(silent_spoken(c->set), -1); /* none of those again */
    double last = 0;
    for (int socket; (socket = silent_since(c->set, now - SECONDS)) >= 0; c->aged++) {
        const one *x = leave(c, socket);
        assert_true(x->since <= now - SECONDS && x->since >= last);
        last = x->since;
    }
    while (c->gone_count > 0) {
        const one *x = &c->gone[--c->gone_count];
        close(x->here);
        if (x->there >= 0) close(x->there);
    }
    for (int i = 0; i < PLACES; i++) assert_true(c->all[i].here < 0 || c->all[i].since > now - SECONDS);
}

static void each_is_told_once(void **state) {
    (void)state;
    crowd c = { .seed = 5 };
    double now = 1;
    for (int i = 0; i < PLACES; i++) c.all[i].here = -1;
    assert_int_equal(silent_open(PLACES, &c.set), STATUS_OK);
    assert_true(silent_bytes(PLACES) >= PLACES * 16);
    for (uint32_t turn = 0; turn < TURNS; turn++, now += 0.1 * drawn(&c, turn, 0, 4)) {
        uint32_t crowds = turn % 500 < 60 ? 12 : 2; /* now and then more than there are places */
        for (uint32_t n = drawn(&c, turn, 1, crowds); n > 0; n--) come(&c, now);
        for (uint32_t n = drawn(&c, turn, 2, turn % 700 == 0 ? PLACES * 3 : 3); n > 0; n--)
            speak(&c.all[drawn(&c, turn, 10 + n, PLACES)], drawn(&c, turn, 500 + n, 2));
        if (drawn(&c, turn, 3, 3)) look(&c, now);
    }
    assert_true(c.told > 500 && c.aged > 500);
    for (int i = 0; i < PLACES; i++)
        if (c.all[i].here >= 0 && c.all[i].there >= 0) close(c.all[i].there);
    silent_close(c.set);
    silent_close(NULL);
}

int main(void) {
    const struct CMUnitTest tests[] = { cmocka_unit_test(each_is_told_once) };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
