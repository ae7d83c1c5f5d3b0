#include "estimate/recorded/recorded_chunks.h"

#include <math.h>
#include <string.h>

#include "base/memory.h"

/* ---- where head and loss are ---- */

static bool is_forward(const recorded_edit *e, uint32_t call) {
    return call && e->calls[call].phase == RECORDING_FORWARD;
}

static uint32_t maker_of(const recorded_edit *e, uint32_t storage) {
    uint32_t born = storage ? edit_at(e, storage)->born : 0;
    return is_forward(e, born) ? born : 0;
}

/* Calls of a stranger's file may read or make nothing. */
static bool has_operands(const recorded_edit *e, uint32_t call) {
    return call && e->calls[call].reads && e->calls[call].makes;
}

/* A weight, or autocast's copy of one. */
static bool is_weight(const recorded_edit *e, uint32_t storage) {
    uint32_t call = maker_of(e, storage);
    if (edit_at(e, storage)->role == RECORDING_PARAMETER) return true;
    return call && edit_is_call(e, call, "_to_copy") && e->calls[call].reads == 1 &&
           edit_at(e, edit_reads(e, call)[0])->role == RECORDING_PARAMETER;
}

static status no_head(const recorded_edit *e, const char *why, const char *what) {
    return status_set(STATUS_INVALID, "--loss-chunks: %s of %s%s; leave it out", why, e->r->model, what);
}

static status find_loss(const recorded_edit *e, recorded_head *h) {
    for (uint32_t call = edit_first(e); call; call = edit_next(e, call)) {
        bool loss = edit_is_call(e, call, "nll_loss_forward") || edit_is_call(e, call, "nll_loss2d_forward");
        if (!is_forward(e, call) || !loss || !has_operands(e, call)) continue;
        if (h->loss) return no_head(e, "forward", " has several losses over classes");
        h->loss = call;
    }
    if (!h->loss) return no_head(e, "forward", " has no loss over classes (F.cross_entropy)");
    for (uint32_t k = 0; k < e->calls[h->loss].reads; k++) {
        uint32_t s = edit_reads(e, h->loss)[k], by = maker_of(e, s);
        bool casts = has_operands(e, by) && edit_is_call(e, by, "_to_copy");
        uint32_t of = casts ? maker_of(e, edit_reads(e, by)[0]) : by;
        if (has_operands(e, of) && edit_is_call(e, of, "_log_softmax"))
            h->softmax = of, h->recasts = casts ? by : 0;
        else if (!h->target)
            h->target = s;
    }
    if (!h->softmax || !h->target) return no_head(e, "the loss", " is not of a log_softmax");
    if (e->calls[h->loss].reads > 2) return no_head(e, "the loss", " weighs its classes");
    if (edit_numbers(e, edit_makes(e, h->loss)[0]) > 1.5)
        return no_head(e, "the loss", " is a number of each row and not of all");
    return STATUS_OK;
}

enum { MOST_COPIES = 16 }; /* between head and loss */

/* From the loss back to the product that makes logits. */
static status find_product(const recorded_edit *e, recorded_head *h) {
    uint32_t call = maker_of(e, edit_reads(e, h->softmax)[0]);
    for (int steps = 0;; steps++) {
        if (!has_operands(e, call) || steps == MOST_COPIES)
            return no_head(e, "what the loss", " reads is made by no product");
        const char *name = edit_call_name(e, call);
        if (edit_is_call(e, call, "mm") || edit_is_call(e, call, "addmm")) {
            h->product = call, h->module = e->calls[call].module;
            return STATUS_OK;
        }
        bool copies = edit_is_call(e, call, "clone"), casts = edit_is_call(e, call, "_to_copy");
        if (!copies && !(casts && !h->widens))
            return status_set(
                STATUS_INVALID,
                "--loss-chunks: between head and loss of %s there is %s, which has no rule; leave it "
                "out",
                e->r->model, name);
        if (casts) h->widens = call;
        h->gathers |= copies;
        call = maker_of(e, edit_reads(e, call)[0]);
    }
}

static void find_operands(const recorded_edit *e, recorded_head *h) {
    for (uint32_t k = 0; k < e->calls[h->product].reads; k++) {
        uint32_t s = edit_reads(e, h->product)[k];
        if (!is_weight(e, s)) {
            h->given = s;
        } else if (!h->weight || edit_numbers(e, s) > edit_numbers(e, h->weight)) {
            h->bias = h->weight, h->weight = s;
        } else {
            h->bias = s;
        }
    }
    uint32_t call = maker_of(e, h->given);
    bool narrows = has_operands(e, call) && edit_is_call(e, call, "_to_copy") &&
                   e->calls[call].module == h->module &&
                   edit_width(edit_dtype(e, h->given)) < edit_width(edit_dtype(e, edit_reads(e, call)[0]));
    if (narrows) h->narrows = call, h->given = edit_reads(e, call)[0];
}

/* The product has 2 * rows * width * classes operations. */
static bool find_sizes(const recorded_edit *e, recorded_head *h) {
    double weight = edit_numbers(e, h->weight), logits = edit_numbers(e, edit_makes(e, h->product)[0]);
    h->of = floor((double)e->calls[h->product].operations / 2 / weight + 0.5);
    if (!(h->of >= 1)) return false;
    h->classes = floor(logits / h->of + 0.5), h->width = floor(weight / h->classes + 0.5);
    h->rows = floor(edit_numbers(e, edit_makes(e, h->softmax)[0]) / h->classes + 0.5);
    bool whole = fabs(h->classes * h->width - weight) < 0.5 && fabs(h->of * h->classes - logits) < 0.5;
    h->gathers &= h->rows < h->of;
    return whole && h->rows >= 1 && h->rows <= h->of;
}

static bool is_of(const recorded_head *h, uint32_t call) {
    return call == h->product || call == h->widens || call == h->softmax || call == h->recasts ||
           call == h->loss;
}

/* A copy between logits and loss. */
static bool leads_to_loss(const recorded_edit *e, const recorded_head *h, uint32_t call) {
    for (uint32_t c = maker_of(e, edit_reads(e, h->softmax)[0]); c && c != h->product;
         c = maker_of(e, edit_reads(e, c)[0]))
        if (c == call) return true;
    return is_of(h, call);
}

/* What nobody else may read: then it would be there as a whole. */
static status check_readers(const recorded_edit *e, const recorded_head *h) {
    for (uint32_t call = edit_first(e); call; call = edit_next(e, call)) {
        if (!is_forward(e, call) || leads_to_loss(e, h, call)) continue;
        for (uint32_t k = 0; k < e->calls[call].reads; k++) {
            uint32_t by = maker_of(e, edit_reads(e, call)[k]);
            if (by && leads_to_loss(e, h, by) && by != h->loss)
                return status_set(STATUS_INVALID,
                                  "--loss-chunks: %s reads the logits of %s beside the loss; leave it out",
                                  edit_call_name(e, call), e->r->model);
        }
    }
    return STATUS_OK;
}

status recorded_head_find(const recorded_edit *e, recorded_head *h) {
    *h = (recorded_head){ 0 };
    TRY(find_loss(e, h));
    TRY(find_product(e, h));
    find_operands(e, h);
    if (!h->module) return no_head(e, "the head", " is no module of its own");
    if (!h->weight || !h->given || !find_sizes(e, h))
        return no_head(e, "the product before the loss", " is not of rows and a weight");
    return check_readers(e, h);
}

/* ---- what is taken out ---- */

/* What backward of the product makes: of its rows, its weight, its bias. */
typedef enum { OF_ROWS, OF_WEIGHT, OF_BIAS } gradient_of;
enum { MOST_GRADIENTS = 4 };

typedef struct {
    recorded_edit *e;
    const recorded_head *h;
    uint32_t module, at; /* of the loss; the last call that was put in */
    uint32_t gradient;   /* of the loss itself; 0: nobody has made one */
    uint32_t outer;      /* of the rows that the head was given */
    gradient_of order[MOST_GRADIENTS];
    uint32_t made[MOST_GRADIENTS];    /* what is made so; of the rows what comes before a cast */
    uint32_t partial[MOST_GRADIENTS]; /* ... by the first piece */
    const char
        *narrow[MOST_GRADIENTS]; /* the product's own type where each is cast before it is added; NULL */
    uint32_t gradients;          /* how many there are; more than that: the product is none of ours */
    uint32_t pieces;
    const char *given_type, *row_type, *logit_type, *wide_type,
        *loss_type;         /* narrow and wide ones are the same without casts */
    bool *flows;            /* by storage: lies in backward between loss and product */
    uint32_t logits, total; /* the recorded ones: logits, and the loss */
} chunking;

/* Takes a call out with what it had within itself. */
static void take_out(chunking *c, uint32_t call) {
    recorded_edit *e = c->e;
    for (uint32_t i = 1; i <= e->storage_count; i++)
        if (edit_at(e, i)->born == call) edit_drop(e, i);
    edit_remove(e, call);
}

/* Takes a call out; what it made is for another to make. */
static void take_maker(chunking *c, uint32_t call, uint32_t made) {
    edit_storage as = *edit_at(c->e, made);
    take_out(c, call);
    as.gone = as.loose = true;
    *edit_at(c->e, made) = as;
}

static bool reads_flow(const chunking *c, uint32_t call) {
    for (uint32_t k = 0; k < c->e->calls[call].reads; k++)
        if (c->flows[edit_reads(c->e, call)[k]]) return true;
    return false;
}

static void note_gradient(chunking *c, uint32_t call) {
    const recorded_edit *e = c->e;
    uint32_t made = edit_makes(e, call)[0];
    bool of_rows = false;
    for (uint32_t k = 0; k < e->calls[call].reads; k++) of_rows |= edit_reads(e, call)[k] == c->h->weight;
    if (c->gradients++ >= MOST_GRADIENTS) return;
    bool of_weight = edit_numbers(e, made) > 1.5 * c->h->classes;
    c->order[c->gradients - 1] = of_rows ? OF_ROWS : of_weight ? OF_WEIGHT : OF_BIAS;
    c->made[c->gradients - 1] = made;
}

/* Beside FSDP in 16 bits each piece's gradient of a parameter is cast to f32 before it is added. */
static void widen_gradients(chunking *c) {
    recorded_edit *e = c->e;
    for (uint32_t i = 0; i < c->gradients; i++) {
        bool narrow = edit_width(edit_dtype(e, c->made[i])) == 2;
        if (c->order[i] == OF_ROWS || !narrow) continue;
        c->narrow[i] = edit_dtype(e, c->made[i]);
        edit_retype(e, c->made[i], "float32");
    }
}

/* Marks what lies between the loss and the product in backward, and notes what the product's backward makes.
 * Returns the first call of it; 0: nothing is trained below. */
static uint32_t follow_backward(chunking *c) {
    const recorded_edit *e = c->e;
    uint32_t first = 0;
    for (uint32_t call = edit_first(e); call; call = edit_next(e, call)) {
        const edit_call *x = edit_call_at(e, call);
        if (x->phase != RECORDING_BACKWARD || !x->makes) continue;
        if (x->of == c->h->loss && !first) {
            first = call;
            uint32_t read = x->reads ? edit_reads(e, call)[0] : 0;
            bool made = read && edit_at(e, read)->born && !maker_of(e, read);
            c->gradient = made ? read : 0;
        } else if (!first || !reads_flow(c, call)) {
            continue;
        }
        if (x->of == c->h->product)
            note_gradient(c, call);
        else
            for (uint32_t k = 0; k < x->makes; k++) c->flows[edit_makes(e, call)[k]] = true;
    }
    return first;
}

/* Of the rows: behind a cast what that makes. */
static void find_outer(chunking *c) {
    const recorded_edit *e = c->e;
    for (uint32_t i = 0; i < c->gradients; i++)
        if (c->order[i] == OF_ROWS) c->outer = c->made[i];
    for (uint32_t call = edit_first(e); c->h->narrows && call; call = edit_next(e, call))
        if (e->calls[call].phase == RECORDING_BACKWARD && e->calls[call].of == c->h->narrows &&
            has_operands(e, call))
            c->outer = edit_makes(e, call)[0];
}

static bool makes_flow(const chunking *c, uint32_t call) {
    for (uint32_t k = 0; k < c->e->calls[call].makes; k++)
        if (c->flows[edit_makes(c->e, call)[k]]) return true;
    return false;
}

/* All but the first call. Gradients of weights are for the pieces to make, and that of the rows. */
static void take_backward(chunking *c, uint32_t first) {
    recorded_edit *e = c->e;
    for (uint32_t call = first, next; call; call = next) {
        const edit_call *x = edit_call_at(e, call);
        next = x->next;
        if (x->phase != RECORDING_BACKWARD || !x->makes || call == first) continue;
        uint32_t made = edit_makes(e, call)[0];
        bool casts = c->h->narrows && x->of == c->h->narrows;
        if (casts || (x->of == c->h->product && !c->flows[made]))
            take_maker(c, call, made);
        else if (makes_flow(c, call))
            take_out(c, call);
    }
}

/* Returns the call behind which the pieces of forward come. */
static uint32_t take_forward(chunking *c) {
    recorded_edit *e = c->e;
    const recorded_head *h = c->h;
    for (uint32_t call = maker_of(e, edit_reads(e, h->softmax)[0]), next; call; call = next) {
        next = call == h->product ? 0 : maker_of(e, edit_reads(e, call)[0]);
        take_out(c, call);
    }
    if (h->narrows) take_out(c, h->narrows);
    if (h->recasts) take_out(c, h->recasts);
    take_out(c, h->softmax);
    uint32_t at = e->calls[h->loss].before;
    take_maker(c, h->loss, c->total);
    return at;
}

/* ---- pieces ---- */

/* Calls of forward of one piece. */
typedef struct {
    double rows;
    uint32_t narrows, product, widens, softmax, recasts, loss;
} piece;

static uint32_t made_of(chunking *c, const char *type, double rows, double columns) {
    return edit_add(c->e,
                    &(edit_new){ .dtype = type, .role = RECORDING_MADE, .rows = rows, .columns = columns });
}

static uint32_t put(chunking *c, edit_new_call call) {
    call.module = c->module;
    c->at = edit_insert(c->e, c->at, &call);
    return c->at;
}

static void count_operations(chunking *c, const piece *x, uint32_t call) {
    edit_call_at(c->e, call)->operations = (int64_t)fmin(2 * x->rows * c->h->width * c->h->classes, 0x1p62);
}

/* What a piece has computed; `judged`: the probabilities as the loss reads them. */
typedef struct {
    uint32_t rows, weight, probabilities, judged, count;
} computed;

/* Forward of a piece, or in backward once more: then `of` names the calls of forward, which keep what they
 * are given. */
static computed compute(chunking *c, piece *x, uint32_t given, uint32_t weight, const piece *of) {
    const recorded_head *h = c->h;
    recording_phase when = of ? RECORDING_BACKWARD : RECORDING_FORWARD;
    computed y = { .rows = given, .weight = weight };
    if (h->narrows) {
        y.rows = made_of(c, c->row_type, x->rows, h->width);
        x->narrows = put(
            c, (edit_new_call){ "_to_copy.default", when, 0, of ? of->narrows : 0, { given }, { y.rows } });
    }
    uint32_t logits = made_of(c, c->logit_type, x->rows, h->classes);
    x->product = put(c, (edit_new_call){ "mm.default",
                                         when,
                                         0,
                                         of && !h->narrows ? of->product : 0,
                                         { y.rows, weight, h->bias },
                                         { logits } });
    count_operations(c, x, x->product);
    if (h->widens) {
        uint32_t wide = made_of(c, c->wide_type, x->rows, h->classes);
        x->widens = put(c, (edit_new_call){ "_to_copy.default", when, 0, 0, { logits }, { wide } });
        logits = wide;
    }
    y.probabilities = made_of(c, c->wide_type, x->rows, h->classes);
    x->softmax =
        put(c, (edit_new_call){ "_log_softmax.default", when, 0, 0, { logits }, { y.probabilities } });
    y.judged = y.probabilities;
    if (h->recasts) {
        y.judged = made_of(c, c->loss_type, x->rows, h->classes);
        x->recasts =
            put(c, (edit_new_call){ "_to_copy.default", when, 0, 0, { y.probabilities }, { y.judged } });
    }
    uint32_t loss = made_of(c, c->loss_type, 1, 0);
    y.count = made_of(c, c->loss_type, 1, 0);
    x->loss =
        put(c, (edit_new_call){
                   "nll_loss_forward.default", when, 0, 0, { y.judged, h->target }, { loss, y.count } });
    return y;
}

/* The gradient of logits. */
static uint32_t put_loss_backward(chunking *c, const piece *x, const computed *y) {
    const recorded_head *h = c->h;
    uint32_t g = made_of(c, c->loss_type, x->rows, h->classes),
             logits = made_of(c, c->wide_type, x->rows, h->classes);
    edit_new_call of_loss = {
        "nll_loss_backward.default", RECORDING_BACKWARD, 0, x->loss, { y->judged, h->target, y->count }, { g }
    };
    if (c->gradient) of_loss.reads[3] = c->gradient;
    put(c, of_loss);
    if (h->recasts) {
        uint32_t as_softmax = made_of(c, c->wide_type, x->rows, h->classes);
        put(c,
            (edit_new_call){ "_to_copy.default", RECORDING_BACKWARD, 0, x->recasts, { g }, { as_softmax } });
        g = as_softmax;
    }
    put(c, (edit_new_call){ "_log_softmax_backward_data.default",
                            RECORDING_BACKWARD,
                            0,
                            x->softmax,
                            { g, y->probabilities },
                            { logits } });
    if (!h->widens) return logits;
    uint32_t narrow = made_of(c, c->logit_type, x->rows, h->classes);
    put(c, (edit_new_call){ "_to_copy.default", RECORDING_BACKWARD, 0, x->widens, { logits }, { narrow } });
    return narrow;
}

/* A gradient of the weight or bias, of the piece that is `turn`th. What the first has made of a weight is a
 * view to autograd, so the second is not added in place; all else is, a cast too. */
static void add_up(chunking *c, uint32_t i, uint32_t made, uint32_t turn) {
    bool view = c->order[i] == OF_WEIGHT && !c->narrow[i];
    if (view && turn == 1)
        put(c, (edit_new_call){
                   "add.Tensor", RECORDING_BACKWARD, 0, 0, { c->partial[i], made }, { c->made[i] } });
    else if (turn)
        put(c,
            (edit_new_call){ "add_.Tensor", RECORDING_BACKWARD, 0, 0, { c->made[i], made }, { c->made[i] } });
}

/* What pieces were given is parts of the whole, so it is there until torch.utils.checkpoint lets go of the
 * last one's: when its product is differentiated. */
static void let_go(chunking *c, uint32_t given) {
    put(c, (edit_new_call){ "checkpoint", RECORDING_BACKWARD, 0, 0, { given, c->h->target }, { 0 } });
}

/* The product's backward; pieces take turns from the last one on. Returns the gradient of the piece's rows;
 * 0: nobody wants it. */
static uint32_t put_product_backward(chunking *c, const piece *x, const computed *y, uint32_t g,
                                     uint32_t given, uint32_t turn) {
    const recorded_head *h = c->h;
    uint32_t rows = 0, made[MOST_GRADIENTS] = { 0 }, narrow[MOST_GRADIENTS] = { 0 };
    for (uint32_t i = 0; i < c->gradients; i++) {
        edit_new_call call = { "mm.default", RECORDING_BACKWARD, 0, x->product, { g, y->weight }, { 0 } };
        if (c->order[i] == OF_ROWS) {
            made[i] = rows = made_of(c, c->row_type, x->rows, h->width);
        } else {
            bool alone = c->pieces == 1 || ((c->order[i] == OF_BIAS || c->narrow[i]) && !turn);
            made[i] = alone ? c->made[i]
                            : made_of(c, edit_dtype(c->e, c->made[i]), edit_numbers(c->e, c->made[i]), 0);
            if (!turn) c->partial[i] = made[i];
            call.reads[1] = c->order[i] == OF_WEIGHT ? y->rows : 0;
            if (c->order[i] == OF_BIAS) call.name = "sum.dim_IntList";
        }
        const char *own = c->narrow[i];
        uint32_t product = own ? made_of(c, own, edit_numbers(c->e, made[i]), 0) : made[i];
        if (own) narrow[i] = product;
        call.makes[0] = product;
        uint32_t at = put(c, call);
        if (c->order[i] != OF_BIAS) count_operations(c, x, at);
    }
    if (turn + 1 == c->pieces) let_go(c, given);
    for (uint32_t i = 0; i < c->gradients; i++)
        if (narrow[i])
            put(c,
                (edit_new_call){ "_to_copy.default", RECORDING_BACKWARD, 0, 0, { narrow[i] }, { made[i] } });
    for (gradient_of which = OF_BIAS; which >= OF_WEIGHT; which--) /* as addmm's node hands them on */
        for (uint32_t i = 0; i < c->gradients; i++)
            if (c->order[i] == which) add_up(c, i, made[i], turn);
    if (!rows || !h->narrows) return rows;
    uint32_t wide = made_of(c, c->given_type, x->rows, h->width);
    put(c, (edit_new_call){ "_to_copy.default", RECORDING_BACKWARD, 0, x->narrows, { rows }, { wide } });
    return wide;
}

static uint32_t piece_backward(chunking *c, const piece *x, uint32_t given, uint32_t turn) {
    const recorded_head *h = c->h;
    bool is_copy = edit_at(c->e, h->weight)->role != RECORDING_PARAMETER;
    uint32_t weight = h->weight, copy = is_copy ? maker_of(c->e, h->weight) : 0;
    if (copy) { /* autocast's, anew */
        weight = made_of(c, edit_dtype(c->e, h->weight), h->classes, h->width);
        put(c, (edit_new_call){
                   "_to_copy.default", RECORDING_BACKWARD, 0, 0, { edit_reads(c->e, copy)[0] }, { weight } });
    }
    piece again = *x;
    computed y = compute(c, &again, given, weight, x);
    uint32_t g = put_loss_backward(c, x, &y);
    return put_product_backward(c, x, &y, g, given, turn);
}

/* Gradients of the pieces' rows wait for each other, and are joined then; where rows were cut off, with zeros
 * for these. */
static void join_rows(chunking *c, const uint32_t *rows, uint32_t count) {
    const recorded_head *h = c->h;
    bool cut = h->rows < h->of;
    uint32_t whole = cut ? made_of(c, c->given_type, h->rows, h->width) : c->outer;
    uint32_t at = put(c, (edit_new_call){ "cat.default", RECORDING_BACKWARD, 0, 0, { rows[0] }, { whole } });
    for (uint32_t i = 0; i < count; i++)
        edit_at(c->e, rows[i])->held = true, edit_at(c->e, rows[i])->died = at;
    if (cut)
        put(c,
            (edit_new_call){ "slice_backward.default", RECORDING_BACKWARD, 0, 0, { whole }, { c->outer } });
}

/* Autograd's sum of the weight's gradient and of another that a tied table has: as recorded it is made anew,
 * since the first was a view. That of several pieces is none, so it is added to in place. */
static void add_tied_in_place(chunking *c, uint32_t weight) {
    recorded_edit *e = c->e;
    uint32_t sum = 0, *by = memory_new((size_t)e->storage_count + 1, sizeof *by);
    if (!by) e->failed = true;
    for (uint32_t call = edit_first(e); call && !sum; call = edit_next(e, call)) {
        const edit_call *x = edit_call_at(e, call);
        bool adds = call <= e->from->call_name.count && x->phase == RECORDING_BACKWARD &&
                    edit_is_call(e, call, "add") && x->makes == 1;
        for (uint32_t k = 0; adds && k < x->reads; k++)
            if (edit_reads(e, call)[k] == weight) sum = edit_makes(e, call)[0];
    }
    for (uint32_t i = 0; by && i <= e->storage_count; i++) by[i] = i == sum && sum ? weight : i;
    if (by && sum && sum != weight) edit_replace(e, by);
    memory_free(by);
}

/* What code or autocast let go of when the loss was there, copies of weights above all, stays to the last
 * piece's. */
static void stay_to_the_last(chunking *c) {
    recorded_edit *e = c->e;
    for (uint32_t i = 1; i <= recording_storages(e->from); i++) {
        edit_storage *s = edit_at(e, i);
        if (s->gone || s->left != c->h->loss) continue;
        s->left = c->at;
        if (s->died == c->h->loss) s->loose = true;
    }
}

/* `forward`: behind which call; `backward`: in whose place, 0: nothing is trained. */
static void put_pieces(chunking *c, piece *pieces, uint32_t *rows, uint32_t count, uint32_t forward,
                       uint32_t backward) {
    const recorded_head *h = c->h;
    double each = ceil(h->rows / (double)count);
    uint32_t given = h->given, used = 0, joined = 0;
    c->at = forward;
    if (h->gathers) {
        given = made_of(c, c->given_type, h->rows, h->width);
        put(c, (edit_new_call){ "clone.default", RECORDING_FORWARD, 0, 0, { h->given }, { given } });
    }
    for (double left = h->rows; left > 0.5 && used < count; left -= each) {
        pieces[used].rows = fmin(each, left);
        compute(c, &pieces[used++], given, h->weight, NULL);
    }
    uint32_t last = edit_makes(c->e, pieces[used - 1].loss)[0];
    put(c, (edit_new_call){ "div.Tensor", RECORDING_FORWARD, 0, 0, { last }, { c->total } });
    stay_to_the_last(c);
    if (!backward) return;
    c->at = c->e->calls[backward].before, c->pieces = used;
    take_out(c, backward);
    for (uint32_t i = used; i-- > 0;) {
        uint32_t of_rows = piece_backward(c, &pieces[i], given, used - 1 - i);
        if (of_rows) rows[joined++] = of_rows;
    }
    if (joined && c->outer) join_rows(c, rows, joined);
    for (uint32_t i = 0; used > 1 && i < c->gradients; i++)
        if (c->order[i] == OF_WEIGHT) add_tied_in_place(c, c->made[i]);
}

/* ---- the whole ---- */

static void note_types(chunking *c) {
    const recorded_edit *e = c->e;
    c->logits = edit_makes(e, c->h->product)[0], c->total = edit_makes(e, c->h->loss)[0];
    c->given_type = edit_dtype(e, c->h->given);
    c->row_type = c->h->narrows ? edit_dtype(e, edit_makes(e, c->h->narrows)[0]) : c->given_type;
    c->logit_type = edit_dtype(e, c->logits);
    c->wide_type = edit_dtype(e, edit_makes(e, c->h->softmax)[0]);
    c->loss_type = edit_dtype(e, edit_reads(e, c->h->loss)[0]); /* what one number has is never retyped */
}

status recorded_chunk(recorded_edit *e, const recorded_head *h, int64_t chunks, bool wide_gradients) {
    double most = fmin((double)chunks, fmin(h->rows, RECORDED_MOST_CHUNKS));
    uint32_t count = (uint32_t)fmax(most, 1);
    chunking c = { .e = e, .h = h, .module = e->calls[h->loss].module };
    piece *pieces = memory_new(count, sizeof *pieces);
    uint32_t *rows = memory_new(count, sizeof *rows);
    c.flows = memory_new((size_t)e->storage_count + 1, sizeof *c.flows);
    bool made = pieces && rows && c.flows;
    uint32_t first = made ? follow_backward(&c) : 0;
    bool known = c.gradients <= MOST_GRADIENTS;
    if (made && known) {
        note_types(&c);
        find_outer(&c);
        if (wide_gradients) widen_gradients(&c);
        if (first) take_backward(&c, first);
        uint32_t forward = take_forward(&c);
        put_pieces(&c, pieces, rows, count, forward, first);
    }
    memory_free(pieces);
    memory_free(rows);
    memory_free(c.flows);
    if (!known) return no_head(e, "the product before the loss", " has too many gradients");
    return made ? STATUS_OK : status_set(STATUS_FAILED, "no memory to estimate");
}
