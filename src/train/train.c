#define _GNU_SOURCE
#include "train/train.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

#include "base/clock.h"
#include "base/memory.h"
#include "base/threads.h"
#include "comm/comm.h"
#include "comm/presence.h"
#include "io/weight_files.h"
#include "lower/measure.h"
#include "run/loader_plan.h"
#include "run/weights.h"
#include "train/fault.h"
#include "train/history.h"
#include "train/journal.h"
#include "train/model_save.h"
#include "train/one_folder.h"
#include "train/pace.h"
#include "train/room.h"
#include "train/together.h"
#include "train/train_report.h"

/* ---- a run in progress ---- */

typedef struct {
    const setup *s;
    const decision *d;
    resume *from;
    const train_observer *observer;
    train_result *result;
    exec *exec;
    loader *loader;
    feed feed;
    journal *journal;
    pace pace;
    pace_watch watch;
    double asked;   /* processors that a step asks for; 0: a device apart computes */
    double *times;  /* seconds by step */
    uint32_t room;  /* for validations in `result` */
    double least;   /* seconds of a step's arithmetic at the peak rate */
    double started; /* when the steps of this start began */
    int64_t saved;  /* step of the last checkpoint in options.out; 0: there is none */
    bool stopped;   /* some rank was asked to stop */
} training;

static double learning_rate(const setup_options *o, int64_t step) {
    if (step < o->warmup) return o->learning_rate * (double)(step + 1) / (double)o->warmup;
    double span = (double)(o->steps - o->warmup), part = span > 0 ? (double)(step - o->warmup) / span : 1;
    double low = o->minimum_rate, height = 1;
    if (o->schedule == SCHEDULE_COSINE) height = low + (1 - low) * 0.5 * (1 + cos(M_PI * part));
    if (o->schedule == SCHEDULE_LINEAR) height = low + (1 - low) * (1 - part);
    return o->learning_rate * height;
}

/* Of one process at once; of several ranks any may be asked, and all learn of it before a step. */
static bool asked_to_stop(const training *t) {
    return t->stopped || (t->s->comm.world < 2 && t->observer->stop && *t->observer->stop);
}

/* ---- beginning ---- */

static status make_room(training *t) {
    const setup_options *o = &t->s->options;
    size_t steps = (size_t)o->steps;
    train_result *r = t->result;
    t->room = o->eval_every ? (uint32_t)(o->steps / o->eval_every) + 1 : 1;
    r->losses = memory_new(steps, sizeof *r->losses);
    r->evaluations = memory_new(t->room, sizeof *r->evaluations);
    t->times = memory_new(steps, sizeof *t->times);
    if (!r->losses || !r->evaluations || !t->times) return status_set(STATUS_FAILED, "no memory for a run");
    r->first = r->steps = t->from->step;
    r->best.step = -1, r->accuracy = r->f1 = (double)NAN;
    if (r->first && resume_is_of(t->from, o->out)) t->saved = r->first;
    return r->first ? history_recall(o->out, r->first, t->room, r) : STATUS_OK;
}

static status fill_weights(training *t) {
    const setup *s = t->s;
    if (t->from->step) return checkpoint_load(t->exec, s, t->d, t->from->folder, &t->from->state);
    return weights_begin(t->exec, s);
}

/* An adapter is worth nothing without the weights that it was trained beside. Their digest goes into
 * checkpoints, so that a resume can ask for the same. */
static status sum_base(const training *t) {
    adapter_files_about about = weights_adapter(t->s, t->d, &t->from->run);
    if (!t->s->options.out || !about.pass || !t->s->weights) return STATUS_OK;
    TRY(weight_files_digest(t->s->weights, &t->from->run.base_digest));
    return weight_files_sum(t->s->weights, false, &t->from->run.base);
}

/* What belongs to this rank alone. */
static status begin_here(training *t) {
    const setup *s = t->s;
    TRY(sum_base(t));
    if (!s->train.samples)
        return status_set(STATUS_INVALID, "nothing to train on; name a file or folder with --data");
    TRY(data_source_check(&s->train));
    TRY(data_source_check(&s->validation));
    TRY(make_room(t));
    TRY(room_check(s, t->d, t->from));
    TRY(exec_open(&t->d->plan, EXEC_OBSERVE, &t->exec));
    TRY(fill_weights(t));
    TRY(loader_plan_open(s, t->d, exec_buffer(t->exec, "loader"), t->from->state.samples, &t->loader));
    return feed_open(&t->feed, s, t->d, t->exec);
}

/* What stands in the way of a file of the end is found before the first step. */
static status hold(training *t) {
    TRY(model_save_check(t->s, t->d, &t->from->run));
    return resume_hold(t->s, t->from);
}

/* Last: what is refused leaves an earlier run's files alone. */
static status claim(training *t) {
    TRY(comm_agree(t->s->comm.rank ? STATUS_OK : hold(t)));
    TRY(comm_agree(one_folder_check(t->s->options.out)));
    TRY(presence_in(t->s->options.out));
    if (t->s->comm.rank) return STATUS_OK;
    TRY(resume_claim(t->s, t->from));
    return journal_open(t->s, t->d, &t->from->run, t->from->step, &t->journal);
}

/* What earlier starts have validated decides when a run is over, and what is the best of it: all take what
 * rank 0 has read, since a folder of the network may lag on some host. */
static status share_history(training *t) {
    train_result *r = t->result;
    if (!r->first) return STATUS_OK;
    TRY(comm_tell(&r->evaluation_count, sizeof r->evaluation_count));
    TRY(comm_tell(&r->best, sizeof r->best));
    return comm_tell(r->evaluations, r->evaluation_count * sizeof *r->evaluations);
}

/* No rank changes a file before all have read theirs. */
static status begin(training *t) {
    TRY(comm_agree(begin_here(t)));
    TRY(share_history(t));
    exec_rehearse(t->exec);
    TRY(comm_agree(exec_check_reserve(t->exec, &t->result->runtime_bytes)));
    t->least = train_report_least(t->s, t->d);
    t->asked = t->d->plan.device->apart ? 0 : measure_processors(t->s->request.run.lower.threads);
    t->started = clock_seconds();
    return comm_agree(claim(t));
}

/* ---- steps ---- */

/* What step `step` took, by the clock and of processors. */
static void note_pace(training *t, int64_t step, double seconds, double processors) {
    pace_fall fall;
    pace_note(&t->pace, seconds, processors, t->asked);
    if (pace_falls(&t->watch, step, seconds, processors, t->asked, &fall) && t->observer->slowed)
        t->observer->slowed(t->observer->context, step, &fall);
}

static status one_step(training *t, int64_t step, const loader_batch *from, double began) {
    double rate = learning_rate(&t->s->options, step);
    loader_batch batch = *from;
    double at = clock_seconds(), processors = threads_seconds();
    TRY(feed_step(&t->feed, &batch, step, rate));
    const runner *done = &t->feed.run;
    double loss = done->loss, norm = done->last_norm;
    note_pace(t, step + 1, clock_seconds() - at, threads_seconds() - processors);
    status failed = exec_failed(t->exec);
    t->result->losses[step] = loss;
    bool skipped = done->scale.bytes && isfinite(loss) && !isfinite(norm); /* the scale is halved, and on */
    bool wrong = !skipped && (!isfinite(loss) || (done->norm.bytes && !isfinite(norm)));
    TRY(wrong ? comm_agree(failed) : failed); /* what is wrong all ranks see alike, and look for together */
    if (wrong) return fault_of_step(&t->feed, &t->d->plan, &batch, step, rate);
    loader_done(t->loader);
    t->result->steps = step + 1;
    t->times[step] = clock_seconds() - began;
    train_progress p = { .step = step + 1,
                         .loss = loss,
                         .norm = skipped ? NAN : norm,
                         .learning_rate = rate,
                         .loss_scale = done->last_scale,
                         .seconds = t->times[step] };
    train_report_step(t->s, t->d, t->least, t->result->first, clock_seconds() - t->started, &p);
    if (t->observer->stepped) t->observer->stepped(t->observer->context, &p);
    return journal_step(t->journal, &p);
}

/* All learn how that went: none goes on to what others don't come to. Files refuse numbers that are not
 * finite; if an update has made them, on whichever rank, the sentence names that update. */
static status write_out(training *t, status (*write)(training *t, int64_t done), int64_t done) {
    if (!t->s->options.out) return STATUS_OK;
    status result = comm_agree(write(t, done));
    if (result != STATUS_FAILED || comm_is_broken()) return result;
    char sentence[STATUS_SENTENCE];
    snprintf(sentence, sizeof sentence, "%s", status_message());
    TRY(comm_agree(fault_of_update(t->exec, &t->d->plan, done)));
    return status_set(result, "%s", sentence);
}

static status write_checkpoint(training *t, int64_t done) {
    TRY(comm_agree(journal_flush(t->journal))); /* a resumed run counts on its lines */
    return checkpoint_save(t->exec, t->s, t->d, &t->from->run, done);
}

static status save_checkpoint(training *t, int64_t done) {
    if (!t->s->options.out || !done || t->saved == done) return STATUS_OK;
    TRY(write_out(t, write_checkpoint, done));
    t->saved = done;
    return STATUS_OK;
}

/* After so many steps. */
static status save_model_to(training *t, const char *folder, int64_t done) {
    return model_save(&(model_saved){ t->exec, t->s, t->d, &t->from->run, done }, folder);
}

static status write_model(training *t, int64_t done) { return save_model_to(t, t->s->options.out, done); }

static status save_model(training *t) { return write_out(t, write_model, t->result->steps); }

static status write_best(training *t, int64_t done) {
    char folder[CHECKPOINT_PATH_BYTES];
    const setup_options *o = &t->s->options;
    if (snprintf(folder, sizeof folder, "%s/%s", o->out, TRAIN_BEST) >= (int)sizeof folder)
        return status_set(STATUS_INVALID, "the path '%.60s...' is too long", o->out);
    return save_model_to(t, folder, done);
}

static status save_best(training *t) {
    return t->s->options.keep_best ? write_out(t, write_best, t->result->best.step) : STATUS_OK;
}

/* Validates after step `done`, unless an earlier start has. Where it is interrupted it leaves nothing. */
static status evaluate(training *t, int64_t done) {
    if (!t->d->split.eval_calls && !t->d->split.eval_rest) return STATUS_OK;
    train_result *r = t->result;
    uint32_t known = r->evaluation_count;
    if (known && r->evaluations[known - 1].step == done) return STATUS_OK;
    runner_verdict v;
    TRY(feed_evaluate(&t->feed, t->observer->stop, &v));
    if (!v.whole) return STATUS_OK;
    if (!isfinite(v.loss))
        return status_set(STATUS_FAILED,
                          "the loss of the validation samples is not finite after step %lld, though every "
                          "weight is; try a smaller --lr, a longer --warmup or --clip 1",
                          (long long)done);
    history_add(r, t->room, done, v.loss);
    r->accuracy = v.accuracy, r->f1 = v.f1;
    if (r->best.step == done) TRY(save_best(t)); /* before anything says that it was the best */
    if (t->observer->evaluated)
        t->observer->evaluated(t->observer->context, done, &v, t->s->request.run.eval_samples);
    return journal_evaluated(t->journal, done, v.loss);
}

static bool saves_after(const training *t, int64_t done) {
    const setup_options *o = &t->s->options;
    return o->save_every && (done % o->save_every == 0 || (done == o->steps && done > o->save_every));
}

static bool validates_after(const training *t, int64_t done) {
    const setup_options *o = &t->s->options;
    return done == o->steps || (o->eval_every && done && done % o->eval_every == 0);
}

static status save_after(training *t, int64_t done) {
    bool last = done == t->s->options.steps;
    if (saves_after(t, done)) TRY(save_checkpoint(t, done));
    if (last) TRY(comm_agree(fault_of_update(t->exec, &t->d->plan, done))); /* no step behind would show it */
    return last ? save_model(t) : STATUS_OK;
}

/* Between steps. What must not be lost is saved before validation, which may fail. All ranks do that or none
 * of them: so they agree before each on how it went so far. */
static status after_step(training *t, int64_t done, status so_far) {
    bool saves = saves_after(t, done), validates = validates_after(t, done);
    if (saves || validates) so_far = comm_agree(so_far);
    TRY(so_far);
    status saving = save_after(t, done);
    if (!validates) return saving;
    TRY(comm_agree(saving));
    return evaluate(t, done);
}

/* Has nothing become better for as long as the user has patience? */
static bool is_over(const training *t) {
    const setup_options *o = &t->s->options;
    return o->patience && t->result->best.since >= o->patience && t->result->steps < o->steps;
}

/* What the last step is followed by, where it is not the last that was asked for. Validated it is already. */
static status stop_early(training *t) {
    train_result *r = t->result;
    r->stopped_early = true;
    TRY(comm_agree(fault_of_update(t->exec, &t->d->plan, r->steps)));
    if (t->s->options.save_every) TRY(save_checkpoint(t, r->steps));
    return save_model(t);
}

/* The labels of all ranks count, and where one is asked to stop all do. */
static status agree(training *t, status so_far, loader_batch *batch) {
    together_note note = { batch->counted_labels, t->observer->stop && *t->observer->stop };
    TRY(together_agree(so_far, &note));
    batch->counted_labels = note.labels;
    t->stopped |= note.stops;
    return STATUS_OK;
}

static status all_steps(training *t) {
    train_result *r = t->result;
    status so_far = after_step(t, r->steps, STATUS_OK); /* what an earlier start did not come to any more */
    for (;;) {
        double began = clock_seconds();
        loader_batch batch = { 0 };
        bool over = r->steps >= t->s->options.steps || is_over(t) || asked_to_stop(t);
        if (so_far == STATUS_OK && !over) so_far = loader_next(t->loader, &batch);
        TRY(agree(t, so_far, &batch));
        if (over || asked_to_stop(t)) break;
        int64_t step = r->steps;
        so_far = after_step(t, step + 1, one_step(t, step, &batch, began));
    }
    TRY(together_measure(t->exec, t->d, r));
    if (!asked_to_stop(t)) return is_over(t) ? stop_early(t) : STATUS_OK;
    TRY(save_checkpoint(t, r->steps));
    return r->steps > r->first && r->steps < t->s->options.steps ? save_model(t) : STATUS_OK;
}

/* The sentence of a run that was stopped. */
static status interrupted(const training *t) {
    long long done = (long long)t->result->steps, steps = (long long)t->s->options.steps;
    if (!done)
        return status_set(STATUS_INTERRUPTED, "stopped before the first step; there is nothing to save");
    return status_set(STATUS_INTERRUPTED, "stopped after step %lld of %lld; %s", done, steps,
                      t->s->options.out ? "--resume goes on from there" : "without a folder to save to");
}

static status ending(const training *t, status result) {
    const char *out = t->s->options.out;
    if (result == STATUS_OK && asked_to_stop(t)) return interrupted(t);
    if (result != STATUS_FAILED || !t->saved) return result;
    char sentence[1024];
    snprintf(sentence, sizeof sentence, "%s", status_message());
    return status_set(result, "%s; --resume goes on from %s/checkpoint-%lld", sentence, out,
                      (long long)t->saved);
}

/* Tells the observer. A failure of the run itself goes before one of the observer. */
static status tell_end(const training *t, status result) {
    char sentence[1024];
    if (!t->observer->ended) return result;
    snprintf(sentence, sizeof sentence, "%s", result == STATUS_OK ? "" : status_message());
    status told = t->observer->ended(t->observer->context, t->result);
    return result == STATUS_OK ? told : status_set(result, "%s", sentence);
}

status train_run(const setup *s, const decision *d, resume *from, const train_observer *o, train_result *r) {
    TRY(model_computes(&s->model));
    *r = (train_result){ 0 };
    training t = { .s = s, .d = d, .from = from, .observer = o, .result = r };
    status result = begin(&t);
    bool begun = result == STATUS_OK;
    if (begun && o->started) o->started(o->context, s, d);
    if (begun) result = ending(&t, all_steps(&t));
    r->undisturbed_seconds = pace_seconds(&t.pace);
    r->own_seconds = pace_own_seconds(&t.pace, t.asked);
    r->processor_share = pace_share(&t.pace, t.asked);
    status reported = train_report_end(o, s, t.exec, t.times, clock_seconds() - t.started, r);
    if (result == STATUS_OK) result = reported;
    if (begun) result = tell_end(&t, result);
    result = together_end(journal_close(t.journal, result, r->steps));
    loader_close(t.loader);
    feed_close(&t.feed);
    exec_close(t.exec);
    memory_free(t.times);
    return result;
}

void train_result_close(train_result *r) {
    memory_free(r->losses);
    memory_free(r->evaluations);
    memory_free(r->ranks);
    memory_free(r->lives);
    *r = (train_result){ 0 };
}
