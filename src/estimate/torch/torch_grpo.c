#include "estimate/torch/torch_grpo.h"

#include <math.h>
#include <stdio.h>

#include "estimate/torch/torch_besides.h"

/* ---- what is asked ---- */

int64_t torch_grpo_passes(const torch_settings *s) {
    return s->grpo.passes ? s->grpo.passes : torch_accumulation(s);
}

int64_t torch_grpo_texts(const torch_settings *s) { return s->batch * torch_grpo_passes(s); }

static bool by_vllm(const torch_settings *s) { return s->grpo.rollouts != TORCH_GENERATES; }

bool torch_grpo_has_old(const torch_settings *s) {
    return by_vllm(s) || torch_accumulation(s) % (torch_grpo_passes(s) * s->grpo.iterations) != 0;
}

bool torch_grpo_has_reference(const torch_settings *s) { return s->grpo.beta > 0 && !s->adapter_rank; }

/* Texts are made every so many micro-batches, which may be in the middle of an optimizer step. */
static bool makes_within(const torch_settings *s) {
    return torch_grpo_passes(s) * s->grpo.iterations % torch_accumulation(s) != 0;
}

static bool shares_weights(const torch_settings *s) {
    return torch_is_shared(s) && (s->shard == TORCH_ZERO3 || s->shard == TORCH_FSDP);
}

/* ---- what lies beside the model ---- */

static void add_beside(torch_reading *r, double bytes, tape_term term) {
    if (bytes >= 1)
        tape_add_source(r->t, &(tape_item){ .elements = (int64_t)bytes, .width = 1, .term = term });
}

/* The reference is loaded in the type of the model. ZeRO-3 and FSDP share it out as the model's weights, of
 * which FSDP has shares in f32. */
static void add_reference(torch_reading *r) {
    double numbers = 0;
    for (tensor_id t = 1; t < r->g->tensors.count; t++) {
        const tensor *x = graph_tensor(r->g, t);
        if (x->role == ROLE_PARAMETER && !x->producer) numbers += (double)shape_elements(&x->shape);
    }
    double width = r->s->types == TORCH_HALF ? 2 : 4, share = 1;
    if (shares_weights(r->s)) share = 1.0 / (double)r->s->gpus;
    if (r->s->shard == TORCH_FSDP && r->s->masters) share *= 2;
    add_beside(r, numbers * width * share, TAPE_REFERENCE);
}

/* Of texts that wait for their pass: tokens and masks of 64 bits, and a number of each kind of chance. */
static double waiting_bytes(const torch_settings *s) {
    double texts = (double)torch_grpo_texts(s);
    double chances = (torch_grpo_has_old(s) ? 4 : 0) + (s->grpo.beta > 0 ? 4 : 0) + (by_vllm(s) ? 4 : 0);
    return texts * (16 * (double)s->context + chances * (double)s->grpo.completion);
}

/* While texts are made they are a token each longer, with their masks, and nothing waits yet. */
static double growing_bytes(const torch_settings *s) {
    return 16.0 * (double)s->batch * (double)s->pass.cached;
}

void torch_grpo_beside(torch_reading *r) {
    const torch_settings *s = r->s;
    if (!s->grpo.asked) return;
    if (torch_grpo_has_reference(s)) add_reference(r);
    uint64_t cache = s->pass.makes ? torch_cache_bytes(s, s->pass.cached, s->context == 1) : 0;
    add_beside(r, (double)cache, TAPE_CACHE);
    add_beside(r, s->pass.makes ? growing_bytes(s) : waiting_bytes(s), TAPE_INPUTS);
    add_beside(r, (double)(s->grpo.rollouts == TORCH_SLEEPS ? s->grpo.asleep : s->grpo.awake), TAPE_ENGINE);
}

/* ---- the head ---- */

/* Of kernels/chunked_logprob.py: tokens and columns of a tile, whose buffer is as wide whatever the
 * vocabulary. */
enum { TILE_ROWS = 4096, TILE_COLUMNS = 32768 };

typedef struct {
    double rows, width, vocabulary;         /* that are scored; of the model; of the head */
    double tile_rows, tile_columns, number; /* number: bytes of what products have */
    bool widens_rows, widens_weight;        /* they are copied to it */
} tiles;

static tiles tiles_of(const torch_reading *r, tape_value x, tape_value w, int64_t vocabulary) {
    double number = r->s->types == TORCH_F32 ? 4 : 2, columns = (double)vocabulary;
    double width = (double)(torch_elements(r, w) / vocabulary), rows = (double)torch_elements(r, x) / width;
    return (tiles){ .rows = rows,
                    .width = width,
                    .vocabulary = columns,
                    .tile_rows = fmin(rows, TILE_ROWS),
                    .tile_columns = fmin(columns, TILE_COLUMNS),
                    .number = number,
                    .widens_rows = torch_width(r, x) > number,
                    .widens_weight = torch_width(r, w) > number };
}

static double row_copy(const tiles *z) { return z->widens_rows ? z->tile_rows * z->width * z->number : 0; }
static double weight_copy(const tiles *z) {
    return z->widens_weight ? z->tile_columns * z->width * z->number : 0;
}
static double buffer(const tiles *z) { return z->tile_rows * TILE_COLUMNS * z->number; }

/* Seven sums of each row; on a GPU a kernel folds the tile into them. Elsewhere a tile in f32, less its
 * maximum, and the exponential of that stand beside each other. */
static double forward_bytes(const tiles *z, bool cuda) {
    double folding = cuda ? 0 : 3 * 4 * z->tile_rows * z->tile_columns;
    return buffer(z) + row_copy(z) + fmax(weight_copy(z), folding) + 7 * 4 * z->rows;
}

/* Gradients are summed in f32, and are copied where they are to have 16 bits. On a GPU the tile becomes its
 * own gradient; elsewhere seven tiles of f32 and one of truth values do that, and operands of 16 bits are
 * widened for their products. */
static double backward_bytes(const torch_reading *r, const tiles *z, tape_value x, tape_value w) {
    double sums = torch_width(r, x) < 4 ? 4 * z->rows * z->width : 0, cells = z->tile_rows * z->tile_columns;
    if (torch_wants(r, w) && torch_width(r, w) < 4) sums += 4 * z->vocabulary * z->width;
    double folding = (7 * 4 + 1) * cells,
           widened = 4 * (cells + fmax(z->tile_rows, z->tile_columns) * z->width);
    double turning = r->s->cuda ? 0 : fmax(folding, z->number < 4 ? widened : 0);
    return buffer(z) + row_copy(z) + weight_copy(z) + sums + turning;
}

/* A text's last token alone has logits, which are copied to f32; chances and what is drawn by are as large.
 * Under autocast the copies of all weights are gone by then, which are more. */
static void draw(torch_reading *r, tape_value x, tape_value w, int64_t vocabulary) {
    int64_t width = torch_elements(r, w) / vocabulary, texts = torch_elements(r, x) / width / r->s->context;
    tape_value last = torch_call(r, (tape_call){ .what = "last", .in = { x }, .view = true }, texts * width,
                                 torch_width(r, x));
    tape_value logits = torch_linear(r, last, w, 0, vocabulary);
    tape_at(r->t, logits)->term = TAPE_LOGITS;
    double drawn = r->s->types == TORCH_AUTOCAST ? 0 : 12 * (double)(texts * vocabulary);
    torch_call(r, (tape_call){ .what = "draw", .in = { logits }, .forward = (uint64_t)drawn }, texts, 8);
}

/* The ratio of chances, clipped, times advantages: three numbers a token are kept, and variables of the
 * function hold five more. */
static void clipped_loss(torch_reading *r, tape_value chances) {
    double tokens = (double)(r->s->batch * r->s->grpo.completion);
    torch_call(
        r,
        (tape_call){
            .what = "clipped loss", .in = { chances }, .keeps_in = 1, .kept = (uint64_t)(8 * 4 * tokens) },
        1, 4);
}

/* Where Triton runs, on a GPU, only completions are scored, elsewhere every token but the last; their rows
 * are copied, unless the only text's lie side by side. */
void torch_grpo_loss(torch_reading *r, tape_value x, tape_value w, int64_t vocabulary) {
    const torch_settings *s = r->s;
    if (s->pass.makes) {
        draw(r, x, w, vocabulary);
        return;
    }
    int64_t width = torch_elements(r, w) / vocabulary, scored = s->cuda ? s->grpo.completion : s->context - 1;
    tape_at(r->t, x)->held = true; /* by what the model's body has returned */
    tape_value all = torch_call(r, (tape_call){ .what = "slice", .in = { x }, .view = true },
                                s->batch * (s->context - 1) * width, torch_width(r, x));
    tape_call select = { .what = s->cuda ? "index" : "reshape",
                         .in = { all },
                         .view = !s->cuda && s->batch == 1,
                         .passes = !s->cuda,
                         .kept = s->cuda ? (uint64_t)(16 * s->batch * scored) : 0 };
    tape_value rows = torch_call(r, select, s->batch * scored * width, torch_width(r, x));
    tiles z = tiles_of(r, rows, w, vocabulary);
    tape_value chances = torch_call(r,
                                    (tape_call){ .what = "chances, by tiles",
                                                 .in = { rows, w },
                                                 .keeps_in = 3,
                                                 .kept = (uint64_t)(16 * z.rows),
                                                 .forward = (uint64_t)forward_bytes(&z, s->cuda),
                                                 .backward = (uint64_t)backward_bytes(r, &z, rows, w),
                                                 .multiplies = true },
                                    s->batch * scored, 4);
    clipped_loss(r, chances);
}

/* ---- phases ---- */

static uint64_t larger(uint64_t a, uint64_t b) { return a > b ? a : b; }

static void raise(interval *to, const interval *by) {
    *to = (interval){ larger(to->low, by->low), larger(to->likely, by->likely), larger(to->high, by->high) };
}

/* What `p` needs besides counts where it is the most. */
static void join(torch_result *r, const torch_result *p, const char *name) {
    if (p->live.likely > r->live.likely) {
        for (int k = 0; k < TAPE_TERMS; k++) r->by_term[k] = p->by_term[k];
        r->peak_in = name;
    }
    raise(&r->live, &p->live);
    raise(&r->reserved, &p->reserved);
    r->held = larger(r->held, p->held);
}

static status play_pass(const model *m, const torch_settings *s, const torch_pass *as, torch_result *out) {
    torch_settings with = *s;
    with.pass = *as;
    with.pass.asked = true;
    with.shortest = 0;
    return torch_estimate(m, &with, out);
}

/* accelerate puts autocast around the forward of what it prepares. generate of PEFT's model calls that of the
 * model within, which has none: all is in the type of the base. */
static torch_types types_of_texts(const torch_settings *s) {
    if (!s->adapter_rank || s->types != TORCH_AUTOCAST || s->base_bits == 4) return s->types;
    return s->base_bits == 32 ? TORCH_F32 : TORCH_HALF;
}

/* Prompts are seen at once, then the texts grow by a token at a time: the longer of both counts. Prompts of
 * one group are equal, and have no mask then. DeepSpeed gathers all weights for it; FSDP those of the root
 * and, as in each forward, those of one block. */
static status play_generating(const model *m, const torch_settings *s, torch_result *out) {
    torch_settings with = *s;
    torch_result last;
    int64_t texts = torch_grpo_texts(s), prompt = s->context - s->grpo.completion;
    with.batch = texts;
    with.padded = s->padded && texts > s->grpo.generations;
    with.step = 0;
    with.types = types_of_texts(s);
    torch_pass as = { .makes = true, .within = makes_within(s) };
    as.whole = torch_is_shared(s) && s->shard == TORCH_ZERO3;
    as.cached = with.context = prompt;
    TRY(play_pass(m, &with, &as, out));
    with.context = 1, with.padded = false, as.cached = s->context;
    TRY(play_pass(m, &with, &as, &last));
    join(out, &last, "generating");
    return STATUS_OK;
}

/* Training's weights and state, vLLM awake, and the largest weight in 16 bits on its way there, or, of
 * adapters, what is added to it for the time being. The trained model computes nothing. */
static status play_engine(const model *m, const torch_settings *s, torch_result *out) {
    torch_settings with = *s;
    uint64_t whole = 0, sent = 0;
    with.grpo.asleep = s->grpo.awake;
    TRY(play_pass(m, &with, &(torch_pass){ .within = makes_within(s) }, out));
    sent = out->largest * (s->adapter_rank && s->base_bits == 32 ? 4 : 2);
    out->by_term[TAPE_ACTIVATIONS] = out->by_term[TAPE_LOGITS] = 0;
    out->by_term[TAPE_TEMPORARIES] = sent + 2 * s->workspace;
    for (int k = 0; k < TAPE_TERMS; k++) whole += out->by_term[k];
    out->live = (interval){ whole - sent, whole, whole + whole / 20 };
    out->reserved = out->live, out->held = whole;
    return STATUS_OK;
}

static status play_phase(const model *m, const torch_settings *s, torch_phase which, const char *name,
                         torch_result *r) {
    torch_result p = { 0 };
    torch_pass as = { .within = makes_within(s) };
    as.bare = which == TORCH_PHASE_REFERENCE;
    if (which == TORCH_PHASE_GENERATING)
        TRY(by_vllm(s) ? play_engine(m, s, &p) : play_generating(m, s, &p));
    else
        TRY(play_pass(m, s, &as, &p));
    r->phases[which] = p.live;
    join(r, &p, name);
    return STATUS_OK;
}

status torch_grpo_phases(const model *m, const torch_settings *s, torch_result *r) {
    r->phases[TORCH_PHASE_TRAINING] = r->live;
    if (s->grpo.rollouts != TORCH_ELSEWHERE) TRY(play_phase(m, s, TORCH_PHASE_GENERATING, "generating", r));
    if (torch_grpo_has_old(s)) TRY(play_phase(m, s, TORCH_PHASE_OLD, "the model's chances", r));
    if (s->grpo.beta > 0) TRY(play_phase(m, s, TORCH_PHASE_REFERENCE, "the reference's chances", r));
    return STATUS_OK;
}

/* ---- what is said ---- */

void torch_grpo_describe(const torch_settings *s, text *out) {
    static const char *const by[] = { "by transformers' generate", "by vLLM, which stays on the device",
                                      "by vLLM, which sleeps between", "by vLLM elsewhere" };
    const torch_grpo *g = &s->grpo;
    if (!g->asked) return;
    text_add(out, "GRPO as TRL has it: %lld texts of %lld tokens and %lld more are made at once, %s",
             (long long)torch_grpo_texts(s), (long long)(s->context - g->completion),
             (long long)g->completion, by[g->rollouts]);
    text_add(out, g->beta > 0 && s->adapter_rank ? "; the reference is the base\n"
                  : g->beta > 0                  ? "; a reference stands beside the model\n"
                                                 : "; no reference (--beta)\n");
    if (s->padded && s->attention == TORCH_FLASH)
        text_add(out,
                 "texts end at different places, so attention gets a mask and keys of shared heads are "
                 "repeated (--shortest %lld: none does)\n",
                 (long long)s->context);
}

/* ---- what is refused ---- */

static status check_settings(const torch_settings *s) {
    const char *said = s->fused_loss ? "--loss fused: TRL makes logits tile by tile by itself"
                       : s->older    ? "--libraries 2023: no rule is of TRL's trainer of then"
                       : s->host_keeps
                           ? "--host-keeps: rollouts with weights or state on the host have no rule"
                       : s->holds_output    ? "--keeps-output is of loops of one's own"
                       : s->keeps_gradients ? "--keeps-gradients is of loops of one's own"
                                            : NULL;
    return said ? status_set(STATUS_INVALID, "--trainer grpo and %s; leave it out", said) : STATUS_OK;
}

/* TRL's own rules on sizes (GRPOConfig.__post_init__). */
static status check_sizes(const torch_settings *s) {
    const torch_grpo *g = &s->grpo;
    int64_t devices = s->gpus > 1 ? s->gpus : 1, all = torch_grpo_texts(s) * devices;
    if (g->completion >= s->context)
        return status_set(STATUS_INVALID,
                          "--completion %lld: of the %lld tokens of --context some are the prompt; say fewer",
                          (long long)g->completion, (long long)s->context);
    if (g->generations < 2)
        return status_set(STATUS_INVALID,
                          "--generations %lld: advantages are relative to other texts of the prompt, so it "
                          "takes at least 2",
                          (long long)g->generations);
    if (all % g->generations)
        return status_set(STATUS_INVALID,
                          "--generations %lld: %lld texts are made at once, which are no whole number of "
                          "groups; say another --batch or --steps-per-generation",
                          (long long)g->generations, (long long)all);
    return STATUS_OK;
}

status torch_grpo_check(const model *m, const torch_settings *s, bool decodes) {
    const torch_grpo *g = &s->grpo;
    if (!g->asked) return STATUS_OK;
    if (!s->transformers || !decodes)
        return status_set(STATUS_INVALID,
                          "--trainer grpo is TRL's for decoders of transformers, and here it is %s%s",
                          m->name, s->transformers ? "" : " of another framework; leave --framework out");
    TRY(check_settings(s));
    TRY(check_sizes(s));
    if (!s->cuda && (g->rollouts == TORCH_COLOCATES || g->rollouts == TORCH_SLEEPS))
        return status_set(STATUS_INVALID, "--rollouts: vLLM beside the trainer is for GPUs, and here it is "
                                          "--device cpu; say --rollouts generate");
    return STATUS_OK;
}
