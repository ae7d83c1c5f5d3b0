/* The machine-readable results: `snug plan --json`, `snug profile --json` and DIR/run.json share these keys.
 */
#include <math.h>
#include <string.h>

#include "io/json.h"
#include "report/places.h"
#include "run/course.h"
#include "run/texts.h"
#include "run/unconfirmed.h"

static void put_categories(json_writer *w, const uint64_t by_category[CATEGORY_COUNT]) {
    json_begin_object(w, "by_category");
    for (int c = 0; c < CATEGORY_COUNT; c++) json_put_unsigned(w, category_name((category)c), by_category[c]);
    json_end_object(w);
}

/* Of a step; null where none is taken. */
static void put_step_seconds(json_writer *w, const setup *s, double seconds) {
    if (s->request.run.training)
        json_put_number(w, "step_seconds", seconds);
    else
        json_put_null(w, "step_seconds");
}

static void put_parameters(json_writer *w, const setup *s, const decision *d) {
    parts_parameters n = parts_parameters_of(s, d);
    json_put_unsigned(w, "parameters", n.all);
    json_put_unsigned(w, "trained", n.trained);
}

/* Of --add-token, where that was said. */
static void put_added_tokens(json_writer *w, const setup *s) {
    static const char *const states[] = {
        [WANTED_TOKEN_NEW] = "new", [WANTED_TOKEN_WORD] = "word", [WANTED_TOKEN_THERE] = "there"
    };
    if (!s->wanted.count) return;
    json_put_integer(w, "vocabulary", s->model.vocabulary);
    json_begin_array(w, "added_tokens");
    for (uint32_t i = 0; i < s->wanted.count; i++) {
        const wanted_token *t = &s->wanted.items[i];
        json_begin_object(w, NULL);
        json_put_string(w, "token", t->text);
        json_put_unsigned(w, "id", t->id);
        json_put_string(w, "state", states[t->state]);
        json_end_object(w);
    }
    json_end_array(w);
}

static void put_plain(json_writer *w, const setup *s, const search_point *plain) {
    json_begin_object(w, "plain");
    if (plain->peak_bytes) {
        json_put_unsigned(w, "peak_bytes", plain->peak_bytes);
        put_step_seconds(w, s, plain->seconds);
    } else {
        json_put_null(w, "peak_bytes");
        json_put_null(w, "step_seconds");
    }
    json_end_object(w);
}

static void put_predicted(json_writer *w, const setup *s, const decision *d) {
    const plan *p = &d->plan;
    json_begin_object(w, "predicted");
    json_put_unsigned(w, "peak_bytes", p->peak_bytes);
    json_put_unsigned(w, "arena_bytes", p->pools[POOL_MEMORY].arena_bytes);
    json_put_unsigned(w, "lower_bound_bytes", p->lower_bound_bytes);
    json_put_unsigned(w, "persistent_bytes", p->pools[POOL_MEMORY].persistent_bytes);
    put_step_seconds(w, s, d->point.seconds);
    if (s->request.run.ranks > 1) json_put_number(w, "waiting_seconds", compose_waiting(&s->request.run, p));
    put_categories(w, p->by_category);
    json_end_object(w);
}

static void put_measured(json_writer *w, const setup *s, const parts_measured *m, const train_result *r) {
    if (!r) {
        json_put_null(w, "measured");
        return;
    }
    json_begin_object(w, "measured");
    json_put_unsigned(w, "peak_bytes", m->peak_bytes);
    json_put_unsigned(w, "arena_bytes", m->arena_bytes);
    json_put_unsigned(w, "lower_bound_bytes", m->live_bytes);
    json_put_unsigned(w, "persistent_bytes", m->persistent_bytes);
    put_step_seconds(w, s, r->step_seconds);
    put_categories(w, m->by_category);
    json_end_object(w);
}

/* Of a profile: what a rank held, and what it did in the step that is shown. */
static void put_rank_profile(json_writer *w, const profile_rank *x) {
    put_categories(w, x->by_category);
    json_put_number(w, "seconds", x->step.end - x->step.begin);
    json_put_number(w, "kernels", x->step.kernels);
    json_put_number(w, "links", x->step.links);
    json_put_number(w, "waiting", x->step.data);
    json_put_number(w, "meeting", x->step.meeting);
    json_put_number(w, "copying", x->step.hand_in);
    json_put_number(w, "loop", x->step.rest);
    json_put_unsigned(w, "movements", x->step.moved.movements);
    json_put_unsigned(w, "moved_bytes", x->step.moved.bytes);
    json_put_unsigned(w, "sent_bytes", x->step.moved.sent);
    json_put_number(w, "moving", x->step.moved.seconds);
}

static void put_ranks(json_writer *w, const train_result *r, const profile_rank *profiles) {
    json_begin_array(w, "ranks");
    for (int i = 0; i < r->rank_count; i++) {
        const train_rank *x = &r->ranks[i];
        json_begin_object(w, NULL);
        json_put_integer(w, "rank", i);
        json_put_string(w, "host", x->host);
        json_put_unsigned(w, "predicted_bytes", x->planned_bytes);
        json_put_unsigned(w, "measured_bytes", x->peak_bytes);
        json_put_unsigned(w, "runtime_bytes", x->runtime_bytes);
        json_put_bool(w, "equal", x->equal);
        if (profiles) put_rank_profile(w, &profiles[i]);
        json_end_object(w);
    }
    json_end_array(w);
}

static void put_choices(json_writer *w, const decision *d) {
    json_begin_object(w, "choices");
    json_put_integer(w, "micro_batch", d->point.choice.micro_batch);
    json_put_integer(w, "accumulate", d->split.accumulate + 1);
    json_put_integer(w, "eval_batch", d->split.eval_batch);
    json_begin_array(w, "passes");
    for (uint32_t i = 0; i < d->share_count; i++) {
        const search_share *x = &d->shares[i];
        json_begin_object(w, NULL);
        json_put_string(w, "name", x->name);
        json_put_string(w, "setting", x->setting);
        json_put_string(w, "class", pass_class_name(x->class));
        json_put_integer(w, "bytes", x->bytes);
        json_put_number(w, "seconds", x->seconds);
        json_end_object(w);
    }
    json_end_array(w);
    json_begin_array(w, "declined");
    for (uint32_t i = 0; i < d->declined_count; i++) {
        const search_decline *x = &d->declined[i];
        json_begin_object(w, NULL);
        json_put_string(w, "name", pass_table[x->pass]->name);
        json_put_string(w, "setting", x->setting);
        json_put_string(w, "why", search_why_name(x->why));
        json_put_string(w, "said", x->said);
        json_put_unsigned(w, "peak_bytes", x->peak_bytes);
        json_put_number(w, "seconds", x->seconds);
        json_end_object(w);
    }
    json_end_array(w);
    json_end_object(w);
}

/* A line per list: there may be many. */
static void put_losses(json_writer *w, const train_result *r) {
    json_begin_array(w, "losses");
    w->lines = false;
    for (int64_t i = 0; i < r->steps; i++) json_put_number(w, NULL, r->losses[i]);
    json_end_array(w);
    w->lines = true;
    json_begin_array(w, "eval_losses");
    w->lines = false;
    for (uint32_t i = 0; i < r->evaluation_count; i++) {
        json_begin_object(w, NULL);
        json_put_integer(w, "step", r->evaluations[i].step);
        json_put_number(w, "loss", r->evaluations[i].loss);
        json_end_object(w);
    }
    json_end_array(w);
    w->lines = true;
    json_begin_object(w, "best");
    json_put_integer(w, "step", r->best.step < 0 ? 0 : r->best.step);
    json_put_number(w, "loss", r->best.step < 0 ? NAN : r->best.loss);
    json_end_object(w);
    json_put_bool(w, "stopped_early", r->stopped_early);
    json_put_number(w, "tokens_per_second", r->tokens_per_second);
}

/* What is trained on, part by part; null where it isn't texts out of files. */
static void put_data(json_writer *w, const setup *s) {
    uint32_t parts = texts_parts(s);
    if (!parts) {
        json_put_null(w, "data");
        return;
    }
    json_begin_array(w, "data");
    for (uint32_t i = 0; i < parts; i++) {
        texts_part p = texts_part_of(s, i);
        json_begin_object(w, NULL);
        json_put_string(w, "path", p.name);
        json_put_number(w, "share", p.share);
        json_put_unsigned(w, "samples", p.samples);
        json_put_unsigned(w, "tokens", p.tokens);
        json_put_number(w, "times_an_epoch", p.times);
        json_put_number(w, "times", p.times * course_epochs(s));
        json_end_object(w);
    }
    json_end_array(w);
}

/* What the answer cost: plans made, and the seconds that took. */
static void put_search(json_writer *w, const search_front *f) {
    json_begin_object(w, "search");
    json_put_unsigned(w, "candidates", f->candidates);
    json_put_number(w, "seconds", f->elapsed);
    json_end_object(w);
}

/* ---- the profile ---- */

static void put_sums(json_writer *w, const profile_row *x) {
    json_put_unsigned(w, "calls", x->calls);
    json_put_number(w, "seconds", x->seconds);
    json_put_number(w, "predicted_seconds", x->predicted);
    json_put_number(w, "bound_seconds", x->bound);
    json_put_string(w, "bound", x->compute >= x->traffic ? "compute" : "bandwidth");
    json_put_number(w, "flops", x->flops);
    json_put_number(w, "bytes", x->bytes);
}

static void put_rows(json_writer *w, const char *key, const profile_row *rows, uint32_t count) {
    json_begin_array(w, key);
    for (uint32_t i = 0; i < count; i++) {
        const profile_row *x = &rows[i];
        json_begin_object(w, NULL);
        w->lines = false;
        if (x->op) {
            json_put_string(w, "op", x->op);
            json_put_string(w, "phase", parts_phase_name(x->phase));
        } else {
            x->site >= 0 ? json_put_integer(w, "block", x->site) : json_put_null(w, "block");
            for (int p = PHASE_FORWARD; p <= PHASE_UPDATE; p++)
                json_put_number(w, parts_phase_name((phase)p), x->by_phase[p]);
        }
        put_sums(w, x);
        json_end_object(w);
        w->lines = true;
    }
    json_end_array(w);
}

static void put_step(json_writer *w, const profile_result *r) {
    const profile_step *x = &r->step[r->shown];
    json_begin_object(w, "step");
    json_put_unsigned(w, "number", r->shown + 1u);
    json_put_number(w, "seconds", x->end - x->begin);
    json_put_number(w, "kernels", x->kernels);
    json_put_number(w, "waiting", x->data);
    if (r->ranks) json_put_number(w, "meeting", x->meeting);
    json_put_number(w, "copying", x->hand_in);
    json_put_number(w, "loop", x->rest);
    json_end_object(w);
}

static void put_lives(json_writer *w, const decision *d, const exec_lives *lives) {
    uint64_t apart;
    if (!lives) {
        json_put_null(w, "observed");
        return;
    }
    if (exec_lives_apart(&d->plan, lives, &apart) != STATUS_OK) w->out->failed = true;
    exec_likeness like = exec_lives_like(&d->plan, lives);
    json_begin_object(w, "observed");
    json_put_unsigned(w, "table_bytes", exec_lives_bytes(&d->plan));
    json_put_unsigned(w, "planned", like.planned);
    json_put_unsigned(w, "same", like.same);
    json_put_unsigned(w, "not_planned", like.beside);
    json_put_unsigned(w, "most_apart_bytes", apart);
    json_end_object(w);
}

static void put_profile(json_writer *w, const setup *s, const decision *d, const profile_result *r) {
    const device_rates *rates = &s->request.run.lower.rates;
    json_begin_object(w, "profile");
    json_begin_array(w, "steps");
    w->lines = false;
    for (int64_t i = 0; i < r->steps; i++) json_put_number(w, NULL, r->step[i].end - r->step[i].begin);
    json_end_array(w);
    w->lines = true;
    json_put_number(w, "peak_flops", profile_peak(rates));
    json_put_number(w, "peak_bandwidth", profile_bandwidth(rates));
    json_put_unsigned(w, "table_bytes", r->table_bytes);
    put_lives(w, d, r->run.lives);
    if (r->ranks) json_put_number(w, "predicted_moving", r->moving);
    put_step(w, r);
    json_begin_object(w, "total");
    put_sums(w, &r->total);
    json_end_object(w);
    put_rows(w, "by_op", r->ops, r->op_count);
    put_rows(w, "by_block", r->blocks, r->block_count);
    json_end_object(w);
}

/* ---- validation alone ---- */

static void put_evaluation(json_writer *w, const setup *s, const decision *d, const evaluate_result *r) {
    json_begin_object(w, "evaluation");
    json_put_integer(w, "samples", s->request.run.eval_samples);
    json_put_number(w, "predicted_seconds", d->point.seconds);
    if (r) {
        json_put_number(w, "seconds", r->seconds);
        json_put_number(w, "loss", r->loss);
        if (s->model.head.kind == HEAD_LANGUAGE) json_put_number(w, "perplexity", exp(r->loss));
        if (s->model.head.kind == HEAD_SCORE) json_put_number(w, "mean_squared_error", r->loss);
        if (!isnan(r->accuracy)) json_put_number(w, "accuracy", r->accuracy);
        if (!isnan(r->f1)) json_put_number(w, "f1", r->f1);
        json_put_number(w, "tokens_per_second", r->tokens_per_second);
    }
    json_end_object(w);
}

/* ---- the whole ---- */

/* What was measured: of a run, a profile or a validation alone; NULL where it was none. */
typedef struct {
    const train_result *run;
    const profile_result *profile;
    const evaluate_result *evaluation;
} outcome;

static const train_result *seen_by(const outcome *o) {
    if (o->evaluation) return &o->evaluation->run;
    if (o->profile) return &o->profile->run;
    bool any = o->run && o->run->steps > o->run->first; /* a start with nothing left to do saw nothing */
    return any ? o->run : NULL;
}

static void write_report(text *out, const setup *s, const decision *d, outcome o) {
    json_writer w = { .out = out, .lines = true };
    parts_measured m = { 0 };
    const train_result *seen = seen_by(&o);
    if (seen) m = parts_measured_of(d, seen);
    json_begin_object(&w, NULL);
    json_put_bool(&w, "fits", report_fits(d));
    places_put_budget(&w, "budget_bytes", d->budget);
    json_put_unsigned(&w, "least_budget_bytes", search_least(&d->front));
    put_parameters(&w, s, d);
    put_added_tokens(&w, s);
    json_put_string(&w, "rates", s->request.run.lower.rates.source);
    put_plain(&w, s, &d->front.plain);
    put_search(&w, &d->front);
    put_predicted(&w, s, d);
    put_measured(&w, s, &m, seen);
    places_put_gpu(&w, &d->plan);
    if (d->plan.device->kind != DEVICE_CPU) unconfirmed_put(&w, unconfirmed_of(&d->plan));
    places_put(&w, s, d, seen ? &m : NULL);
    put_choices(&w, d);
    put_data(&w, s);
    json_put_integer(&w, "rank", s->comm.rank);
    json_put_integer(&w, "world", s->comm.world);
    if (s->comm.world > 1) json_put_unsigned(&w, "transport_bytes", d->plan.runtime.ranks);
    const train_result *of_ranks = o.evaluation ? &o.evaluation->run : o.profile ? &o.profile->run : o.run;
    if (of_ranks && of_ranks->ranks) put_ranks(&w, of_ranks, o.profile ? o.profile->ranks : NULL);
    if (!s->request.run.training) put_evaluation(&w, s, d, o.evaluation);
    if (o.profile) put_profile(&w, s, d, o.profile);
    if (o.run) put_losses(&w, o.run);
    json_end_object(&w);
    text_add(out, "\n");
}

void report_plan_json(text *out, const setup *s, const decision *d) {
    write_report(out, s, d, (outcome){ 0 });
}

void report_run_json(text *out, const setup *s, const decision *d, const train_result *r) {
    write_report(out, s, d, (outcome){ .run = r });
}

void report_evaluation_json(text *out, const setup *s, const decision *d, const evaluate_result *r) {
    write_report(out, s, d, (outcome){ .evaluation = r });
}

void report_profile_json(text *out, const setup *s, const decision *d, const profile_result *r) {
    write_report(out, s, d, (outcome){ .profile = r });
}
