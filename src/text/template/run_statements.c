/* Statements: what writes, sets and repeats. */
#include <stdio.h>
#include <string.h>

#include "text/template/filter.h"
#include "text/template/run.h"
#include "text/template/stream.h"

static const node *at(const run *r, uint32_t n) { return &r->t->nodes[n]; }

static status new_frame(run *r, frame *outer, frame **out) {
    TRY(run_take(r, sizeof **out, out));
    **out = (frame){ .outer = outer };
    return STATUS_OK;
}

/* What is written of other messages than the one that is gone through is quoted, and what was before it is
 * not said again. */
static void quote_others(run *r, uint32_t first) {
    uint32_t turn = r->turn >> ORIGIN_SHIFT;
    for (uint32_t i = first; turn && i < r->out->span_count; i++) {
        value_span *s = &r->out->spans[i];
        uint32_t message = s->origin >> ORIGIN_SHIFT;
        if (!message || message == turn) continue;
        s->origin |= ORIGIN_QUOTED;
        if (message < turn) s->origin = (s->origin & ~(value_origin)ORIGIN_PART) | ORIGIN_ROLE;
    }
}

static status write_value(run *r, const value *v) {
    size_t before = r->out->length;
    uint32_t spans = r->out->closed = r->out->span_count;
    r->out->turn = r->turn;
    TRY(value_add_shown(r, r->out, v));
    quote_others(r, spans);
    r->written += r->out->length - before;
    if (r->written > r->limits.output)
        return status_set(run_bounded(r), "it writes more than %zu bytes", r->limits.output);
    return STATUS_OK;
}

static status run_data(run *r, const node *n) {
    value text;
    TRY(value_text_lend(r, n->name, n->length, &text));
    return write_value(r, &text);
}

/* ---- assignments ---- */

static status assign_field(run *r, const node *n, const value *v) {
    const node *name = at(r, n->a);
    const value *of = run_find(r, name->name, name->length);
    value key;
    if (!of || of->kind != VALUE_NAMESPACE)
        return status_set(STATUS_INVALID, "only a namespace's attributes can be set");
    TRY(value_text_lend(r, n->name, n->length, &key));
    return value_dict_set(r, of->dict, &key, v);
}

static status assign_tuple(run *r, const node *n, const value *v) {
    stream *s;
    value item;
    bool more;
    TRY(stream_open(r, v, &s));
    for (uint32_t i = n->a; i; i = at(r, i)->next) {
        TRY(stream_next(r, s, &item, &more));
        if (!more) return status_set(STATUS_INVALID, "fewer values than there are names to set");
        TRY(run_assign(r, i, &item));
    }
    TRY(stream_next(r, s, &item, &more));
    return more ? status_set(STATUS_INVALID, "more values than there are names to set") : STATUS_OK;
}

status run_assign(run *r, uint32_t target, const value *v) {
    const node *n = at(r, target);
    if (n->kind == NODE_FIELD) return assign_field(r, n, v);
    if (n->kind == NODE_TUPLE) return assign_tuple(r, n, v);
    return run_set(r, r->frame, n->name, n->length, v);
}

static status run_set_block(run *r, const node *n) {
    value text;
    TRY(run_capture(r, n->d, &text));
    if (r->leaving != LEAVING_NOT) return STATUS_OK;
    if (n->b) {
        const value *before = r->filtered;
        r->filtered = &text;
        value changed;
        TRY(run_evaluate(r, n->b, &changed));
        r->filtered = before;
        text = changed;
    }
    return run_assign(r, n->a, &text);
}

static status run_filter_block(run *r, const node *n) {
    value text, changed;
    TRY(run_capture(r, n->d, &text));
    const value *before = r->filtered;
    r->filtered = &text;
    TRY(run_evaluate(r, n->b, &changed));
    r->filtered = before;
    return write_value(r, &changed);
}

static status run_with(run *r, const node *n) {
    frame *f, *outer = r->frame;
    TRY(new_frame(r, outer, &f));
    for (uint32_t t = n->a, v = n->b; t; t = at(r, t)->next, v = at(r, v)->next) {
        value item;
        r->frame = outer;
        TRY(run_evaluate(r, v, &item));
        r->frame = f;
        TRY(run_assign(r, t, &item));
    }
    r->frame = f;
    TRY(run_body(r, n->d));
    r->frame = outer;
    return STATUS_OK;
}

/* ---- branches and loops ---- */

static status run_if(run *r, const node *n) {
    for (;;) {
        value yes;
        TRY(run_steps(r, 1));
        TRY(run_evaluate(r, n->a, &yes));
        if (value_true(&yes)) return run_body(r, n->b);
        if (!n->c) return STATUS_OK;
        if (at(r, n->c)->kind != NODE_IF || at(r, n->c)->next) return run_body(r, n->c);
        n = at(r, n->c);
    }
}

static status next_item(run *r, loop *l, value *item, bool *more) {
    *more = true;
    if (l->has_after)
        *item = l->after;
    else
        TRY(stream_next(r, l->from, item, more));
    l->has_after = false;
    if (!*more) return STATUS_OK;
    l->index++;
    l->before = l->current;
    l->current = *item;
    return STATUS_OK;
}

static status run_iteration(run *r, const node *n, loop *l, const value *item) {
    frame *f;
    value_origin turn = r->turn;
    TRY(run_steps(r, 1));
    TRY(new_frame(r, l->frame, &f));
    r->frame = f;
    if (item->kind == VALUE_DICT && item->dict->message) r->turn = item->dict->message;
    TRY(run_assign(r, n->a, item));
    value self = { .kind = VALUE_LOOP, .loop = l };
    TRY(run_set(r, f, "loop", 4, &self));
    TRY(run_body(r, n->d));
    r->frame = l->frame;
    r->turn = turn;
    return STATUS_OK;
}

static status open_loop(run *r, uint32_t place, const value *of, loop **out) {
    const node *n = at(r, place);
    loop *l;
    TRY(run_take(r, sizeof *l, &l));
    *l = (loop){ .node = place, .index = -1, .length = -1, .frame = r->frame, .recursive = n->flag };
    TRY(stream_open(r, of, &l->from));
    int64_t count;
    if (n->c) {
        stream *all = l->from;
        TRY(run_take(r, sizeof *l->from, &l->from));
        *l->from = (stream){ .kind = STREAM_FOR, .from = all, .node = place, .frame = r->frame };
    } else if (of->kind != VALUE_STREAM && value_length(of, &count))
        l->length = count;
    *out = l;
    return STATUS_OK;
}

/* Else is for loops of which no round came to its end, as Jinja has it. */
static status go_through(run *r, uint32_t place, loop *l) {
    const node *n = at(r, place);
    bool none = true, more;
    value item;
    for (;;) {
        TRY(next_item(r, l, &item, &more));
        if (!more) break;
        TRY(run_iteration(r, n, l, &item));
        leaving how = r->leaving;
        r->leaving = LEAVING_NOT;
        if (how == LEAVING_NOT) none = false;
        if (how == LEAVING_BREAK) break;
    }
    if (!none || !n->e) return STATUS_OK;
    frame *outer = r->frame, *f;
    TRY(new_frame(r, outer, &f));
    r->frame = f;
    TRY(run_body(r, n->e));
    r->frame = outer;
    return STATUS_OK;
}

static status run_for(run *r, uint32_t place) {
    value of;
    loop *l;
    TRY(run_evaluate(r, at(r, place)->b, &of));
    TRY(open_loop(r, place, &of, &l));
    return go_through(r, place, l);
}

status run_call_loop(run *r, loop *l, const arguments *a, value *out) {
    value of;
    if (!l->recursive) return status_set(STATUS_INVALID, "a loop is called that is not marked as recursive");
    TRY(run_bind(a, "iterable", &of));
    frame *before = r->frame;
    builder text = { 0 }, *around = r->out;
    loop *inner;
    r->frame = l->frame;
    r->out = &text;
    TRY(open_loop(r, l->node, &of, &inner));
    inner->depth = l->depth + 1;
    TRY(go_through(r, l->node, inner));
    r->out = around;
    r->frame = before;
    return builder_value(r, &text, out);
}

/* ---- macros and their kin ---- */

static status make_macro(run *r, uint32_t place, value *out) {
    const node *n = at(r, place);
    macro *m;
    TRY(run_take(r, sizeof *m, &m));
    *m = (macro){ .node = place, .frame = r->frame, .name = n->name, .length = n->name ? n->length : 0 };
    *out = (value){ .kind = VALUE_MACRO, .macro = m };
    return STATUS_OK;
}

static status run_macro(run *r, uint32_t place) {
    value m;
    TRY(make_macro(r, place, &m));
    return run_set(r, r->frame, at(r, place)->name, at(r, place)->length, &m);
}

static status run_call_block(run *r, uint32_t place) {
    const node *call = at(r, at(r, place)->c);
    value callee, result, caller;
    arguments a;
    TRY(run_evaluate(r, call->a, &callee));
    TRY(run_arguments(r, call->b, &a));
    TRY(make_macro(r, place, &caller));
    const value **names;
    value *named, word;
    TRY(run_take(r, (a.named_count + 1) * sizeof *names, &names));
    TRY(run_take(r, (a.named_count + 1) * sizeof *named, &named));
    for (uint32_t i = 0; i < a.named_count; i++) names[i] = a.names[i], named[i] = a.named[i];
    TRY(value_text_lend(r, "caller", 6, &word));
    value *kept;
    TRY(run_take(r, sizeof *kept, &kept));
    *kept = word;
    names[a.named_count] = kept;
    named[a.named_count] = caller;
    a.names = names, a.named = named, a.named_count++;
    TRY(run_call(r, &callee, &a, &result));
    return write_value(r, &result);
}

static status run_generation(run *r, const node *n) {
    value text, marked;
    TRY(run_capture(r, n->d, &text));
    const value_text *t = text.text;
    builder b = { .turn = r->turn | ORIGIN_MARKED };
    for (size_t i = 0, end; i < t->length; i = end) {
        value_origin origin = value_origin_at(&text, i);
        end = t->length;
        for (uint32_t k = 0; t->spans && k < t->span_count; k++) {
            if (i >= t->spans[k].begin && i < t->spans[k].end) end = t->spans[k].end;
            if (i < t->spans[k].begin && t->spans[k].begin < end) end = t->spans[k].begin;
        }
        TRY(builder_add(r, &b, t->bytes + i, end - i, origin | ORIGIN_MARKED));
    }
    TRY(builder_value(r, &b, &marked));
    return write_value(r, &marked);
}

/* A block sees what is set at the top, and what is around it only when it is scoped. */
static status run_named_block(run *r, const node *n) {
    frame *before = r->frame, *f;
    TRY(new_frame(r, n->flag ? before : &r->root, &f));
    r->frame = f;
    TRY(run_body(r, n->d));
    r->frame = before;
    return STATUS_OK;
}

static status run_escaping(run *r, const node *n) {
    value yes;
    frame *before = r->frame, *f;
    TRY(run_evaluate(r, n->a, &yes));
    if (value_true(&yes)) return status_set(STATUS_INVALID, "autoescape is for web pages and not supported");
    TRY(new_frame(r, before, &f));
    r->frame = f;
    TRY(run_body(r, n->d));
    r->frame = before;
    return STATUS_OK;
}

static status run_print(run *r, const node *n) {
    value v;
    if (!n->a) return run_body(r, n->b);
    TRY(run_evaluate(r, n->a, &v));
    return write_value(r, &v);
}

static status run_plain_set(run *r, const node *n) {
    value v;
    TRY(run_evaluate(r, n->b, &v));
    return run_assign(r, n->a, &v);
}

static status run_statement(run *r, uint32_t place) {
    const node *n = at(r, place);
    switch (n->kind) {
    case NODE_DATA: return run_data(r, n);
    case NODE_PRINT: return run_print(r, n);
    case NODE_FOR: return run_for(r, place);
    case NODE_IF: return run_if(r, n);
    case NODE_SET: return run_plain_set(r, n);
    case NODE_SET_BLOCK: return run_set_block(r, n);
    case NODE_WITH: return run_with(r, n);
    case NODE_MACRO: return run_macro(r, place);
    case NODE_CALL_BLOCK: return run_call_block(r, place);
    case NODE_FILTER_BLOCK: return run_filter_block(r, n);
    case NODE_GENERATION: return run_generation(r, n);
    case NODE_BLOCK: return run_named_block(r, n);
    case NODE_ESCAPING: return run_escaping(r, n);
    case NODE_BREAK: r->leaving = LEAVING_BREAK; return STATUS_OK;
    case NODE_CONTINUE: r->leaving = LEAVING_CONTINUE; return STATUS_OK;
    default: return status_set(STATUS_INVALID, "it asks for another template, and there is none");
    }
}

status run_body(run *r, uint32_t first) {
    for (uint32_t i = first; i && r->leaving == LEAVING_NOT; i = at(r, i)->next) {
        status result = run_deeper(r);
        if (result == STATUS_OK) result = run_steps(r, 1);
        if (result == STATUS_OK) result = run_statement(r, i);
        if (result == STATUS_OK) {
            r->depth--;
            continue;
        }
        if (r->located) return result;
        r->located = true;
        return node_wrong(r->t, at(r, i)->at, result);
    }
    return STATUS_OK;
}

status run_capture(run *r, uint32_t first, value *out) {
    builder text = { 0 }, *around = r->out;
    frame *before = r->frame, *f;
    TRY(new_frame(r, before, &f));
    r->frame = f;
    r->out = &text;
    TRY(run_body(r, first));
    r->out = around;
    r->frame = before;
    return builder_value(r, &text, out);
}
