#include "ops/attention/attention_head.h"

#include "base/half.h"
#include "base/units.h"

bool attention_head_is_narrow(const attention_view *v) { return dtype_is_half(v->q.arg->dtype); }

uint64_t attention_head_floats(const attention_view *v, int64_t length, int count) {
    return units_align((uint64_t)(length * v->n.size), 16) * (uint64_t)count;
}

static uint16_t *narrow_row(const attention_head *k, const attention_place *p, int64_t row) {
    return (uint16_t *)p->arg->data + attention_element(k->view, p, k->b * k->length + row, k->h);
}

attention_place attention_head_take(attention_head *k, const attention_place *p, bool read) {
    int64_t size = k->view->n.size;
    op_arg *wide = &k->wide[k->count];
    k->narrow[k->count++] = *p;
    *wide = (op_arg){ .data = k->next, .dtype = DTYPE_F32, .shape = SHAPE(k->length, size) };
    for (int64_t r = 0; r < k->length && read; r++)
        half_widen(p->arg->dtype, narrow_row(k, p, r), size, k->next + r * size);
    k->next += attention_head_floats(k->view, k->length, 1);
    return (attention_place){ wide, -(k->b * k->length + k->h) * size, size };
}

void attention_head_give(const attention_head *k, int i) {
    int64_t size = k->view->n.size;
    const attention_place *p = &k->narrow[i];
    for (int64_t r = 0; r < k->length; r++)
        half_narrow(p->arg->dtype, (const float *)k->wide[i].data + r * size, size, narrow_row(k, p, r));
}
