#include "estimate/small.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

void small_open(small *x, torch_settings s) {
    *x = (small){ .s = s };
    assert_int_equal(tape_open(&x->t), STATUS_OK);
    x->r = (torch_reading){ .s = &x->s, .t = &x->t, .cast = x->cast, .cast_room = SMALL_CASTS, .site = -1 };
}

tape_value small_source(small *x, int64_t elements, double width, tape_term term, bool wants) {
    return tape_add_source(
        &x->t, &(tape_item){ .elements = elements, .width = width, .term = term, .wants = wants });
}
