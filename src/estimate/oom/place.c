/* Where a run was when memory ran out: the words of its traceback, and what the log before it shows of
 * growth. */
#include <string.h>

#include "estimate/oom/readers.h"

/* ---- the frames ---- */

/* Of a line the first of these counts. Words that are in another's words stand behind it. */
static const struct {
    const char *words;
    oom_place place;
} frames[] = {
    { "load_state_dict(", OOM_LOADING },
    { "cross_entropy", OOM_LOSS },
    { "CrossEntropyLoss", OOM_LOSS },
    { "ForCausalLMLoss", OOM_LOSS },
    { "loss_function(", OOM_LOSS },
    { "logits.float()", OOM_LOSS },
    { "shift_logits", OOM_LOSS },
    { "log_softmax", OOM_LOSS },
    { "compute_log_probs", OOM_LOSS },
    { "get_batch_logps", OOM_LOSS },
    { "softmax(logits", OOM_LOSS },
    { "initialize_kv_cache", OOM_CACHING },
    { "initialize_cache(", OOM_CACHING },
    { "init_kv_cache", OOM_CACHING },
    { "allocate_kv_cache", OOM_CACHING },
    { "logits.to(torch.float", OOM_LOSS },
    { "= logits", OOM_LOSS }, /* what is computed of them, and not what makes them */
    { "(logits", OOM_LOSS },
    { " logits /", OOM_LOSS },
    { "lm_head(", OOM_LOSS },
    { "compute_logits", OOM_LOSS },
    { "nested_concat", OOM_VALIDATION },
    { "torch_pad_and_concatenate", OOM_VALIDATION },
    { "self.val_", OOM_VALIDATION },
    { "in val_", OOM_VALIDATION },
    { "val_one_epoch", OOM_VALIDATION },
    { "val_epoch", OOM_VALIDATION },
    { "eval_epoch", OOM_VALIDATION },
    { "eval_one_epoch", OOM_VALIDATION },
    { "evaluate_one_epoch", OOM_VALIDATION },
    { "validate(", OOM_VALIDATION },
    { "(val):", OOM_VALIDATION },
    { "(valid):", OOM_VALIDATION },
    { "(validation):", OOM_VALIDATION },
    { "at validation", OOM_VALIDATION },
    { "on validation", OOM_VALIDATION },
    { "validation loop", OOM_VALIDATION },
    { "at evaluation", OOM_VALIDATION },
    { "during eval", OOM_VALIDATION },
    { "evaluation_loop", OOM_VALIDATION },
    { "prediction_loop", OOM_VALIDATION },
    { "prediction_step", OOM_VALIDATION },
    { "validation_step", OOM_VALIDATION },
    { "trainer.evaluate", OOM_VALIDATION },
    { "self.evaluate(", OOM_VALIDATION },
    { "evaluate(model", OOM_VALIDATION },
    { "= evaluate(", OOM_VALIDATION },
    { "in evaluate", OOM_VALIDATION },
    { "trainer.predict", OOM_VALIDATION },
    { "trainer.test(", OOM_VALIDATION },
    { "trainer.validate", OOM_VALIDATION },
    { "test_step", OOM_VALIDATION },
    { "in validate", OOM_VALIDATION },
    { "_run_validation", OOM_VALIDATION },
    { "eval_loop", OOM_VALIDATION },
    { "val_loop", OOM_VALIDATION },
    { "run_eval", OOM_VALIDATION },
    { "in validation", OOM_VALIDATION },
    { "during validation", OOM_VALIDATION },
    { "when evaluating", OOM_VALIDATION },
    { "Evaluation  [", OOM_VALIDATION },
    { "Valid (", OOM_VALIDATION },
    { "Validation:", OOM_VALIDATION },
    { "Validating", OOM_VALIDATION },
    { "EVALUATING", OOM_VALIDATION },
    { "Evaluating on", OOM_VALIDATION },
    { "Evaluating...", OOM_VALIDATION },
    { "Sanity Checking", OOM_VALIDATION },
    { "attn_weights", OOM_ATTENTION },
    { "attention_scores", OOM_ATTENTION },
    { "attention_probs", OOM_ATTENTION },
    { "attn_scores", OOM_ATTENTION },
    { "softmax(attn", OOM_ATTENTION },
    { "attn.softmax", OOM_ATTENTION },
    { "sim.softmax", OOM_ATTENTION },
    { "sim = einsum", OOM_ATTENTION },
    { "b i d, b j d", OOM_ATTENTION },
    { "key_states.transpose", OOM_ATTENTION },
    { "proj_query", OOM_ATTENTION },
    { "q @ k", OOM_ATTENTION },
    { "matmul(query", OOM_ATTENTION },
    { "matmul(q,", OOM_ATTENTION },
    { "softmax(scores", OOM_ATTENTION },
    { "torch.baddbmm(", OOM_ATTENTION },
    { "eager_attention_forward", OOM_ATTENTION },
    { "scaled_dot_product_attention", OOM_ATTENTION },
    { "torch.save(", OOM_SAVING },
    { "save_checkpoint", OOM_SAVING },
    { "save_model", OOM_SAVING },
    { "save_pretrained", OOM_SAVING },
    { "save_ckpt", OOM_SAVING },
    { "fsdp_save", OOM_SAVING },
    { ".state_dict()", OOM_SAVING },
    { "pre_state_dict_hook", OOM_SAVING },
    { "_state_dict_utils", OOM_SAVING },
    { "Failed to clone() tensor", OOM_SAVING },
    { "after returning from state_dict() call", OOM_SAVING },
    { "get_state_dict(", OOM_SAVING },
    { "_save_to_state_dict", OOM_SAVING },
    { "optim_state_dict(", OOM_SAVING },
    { "consolidated_16bit", OOM_SAVING },
    { "save_16bit_model", OOM_SAVING },
    { "dcp.save", OOM_SAVING },
    { "during saving", OOM_SAVING },
    { "while saving", OOM_SAVING },
    { "when saving", OOM_SAVING },
    { "saving checkpoint", OOM_SAVING },
    { "saving a checkpoint", OOM_SAVING },
    { "saving the model", OOM_SAVING },
    { "checkpoint saving", OOM_SAVING },
    { "torch.load(", OOM_LOADING },
    { "_cuda_deserialize", OOM_LOADING },
    { "default_restore_location", OOM_LOADING },
    { "load_checkpoint(", OOM_LOADING },
    { "_move_model_to_device", OOM_LOADING },
    { "model.to(", OOM_LOADING },
    { "module.to(", OOM_LOADING },
    { "net.to(", OOM_LOADING },
    { "pipe.to(", OOM_LOADING },
    { "model.cuda(", OOM_LOADING },
    { "net.cuda(", OOM_LOADING },
    { "prepare_model(", OOM_LOADING },
    { "load_model(", OOM_LOADING },
    { "in load_model", OOM_LOADING },
    { "from_pretrained(", OOM_LOADING },
    { "_load_state_dict_into", OOM_LOADING },
    { "set_module_tensor_to_device", OOM_LOADING },
    { "load_weights", OOM_LOADING },
    { "create_weights", OOM_LOADING },
    { "in convert", OOM_LOADING },
    { "t.to(device, dtype if t.is_floating_point()", OOM_LOADING },
    { "lambda t: t.cuda(device)", OOM_LOADING },
    { "in _apply", OOM_LOADING },
    { "param_applied = fn", OOM_LOADING },
    { "Model.to(self", OOM_LOADING },
    { "Module.to(self", OOM_LOADING },
    { "failed to load", OOM_LOADING },
    { "Failed to load", OOM_LOADING },
    { "load_checkpoint_in_model", OOM_LOADING },
    { "_load_pretrained_model", OOM_LOADING },
    { "load_file(", OOM_LOADING },
    { "trying to load", OOM_LOADING },
    { "Loading a checkpoint", OOM_LOADING },
    { ".backward(", OOM_BACKWARD },
    { "in backward", OOM_BACKWARD },
    { "run_backward", OOM_BACKWARD },
    { "optimizer.step", OOM_OPTIMIZER },
    { "optim.step", OOM_OPTIMIZER },
    { "optimizer'].step", OOM_OPTIMIZER },
    { "optimizer_step", OOM_OPTIMIZER },
    { "_maybe_opt_step", OOM_OPTIMIZER },
    { "_multi_tensor_", OOM_OPTIMIZER },
    { "exp_avg", OOM_OPTIMIZER },
    { "initialize_optimizer_states", OOM_OPTIMIZER },
    { "_configure_optimizer", OOM_OPTIMIZER },
    { "_configure_zero_optimizer", OOM_OPTIMIZER },
    { "_setup_for_real_optimizer", OOM_OPTIMIZER },
    { "ZeroOptimizer_Stage", OOM_OPTIMIZER },
    { "optimizer_update_", OOM_OPTIMIZER },
    { "_single_tensor_", OOM_OPTIMIZER },
    { "bitsandbytes/optim", OOM_OPTIMIZER },
    { ".generate(", OOM_GENERATION },
    { "in forward", OOM_FORWARD },
    { "_call_impl", OOM_FORWARD },
    { "forward_call(", OOM_FORWARD },
    { "training_step", OOM_FORWARD },
    { "run_training_batch", OOM_FORWARD },
};

/* A bar of shards that is not full yet. */
static bool is_loading_shards(span line) {
    return span_behind(line, "Loading checkpoint shards:").at && !span_behind(line, "100%").at;
}

static oom_place place_of(span line) {
    if (is_loading_shards(line)) return OOM_LOADING;
    for (size_t i = 0; i < sizeof frames / sizeof *frames; i++)
        if (span_behind(line, frames[i].words).at) return frames[i].place;
    return oom_place_of_names(line);
}

/* What has been seen, from the outermost frame to the innermost. */
typedef struct {
    oom_place inner;
    bool validates, saves;
} frames_seen;

/* A file is read: whatever was saved before is done. */
static bool reads_file(span line) {
    return span_behind(line, "torch.load(").at || span_behind(line, "_cuda_deserialize").at ||
           span_behind(line, "load_sharded_checkpoint").at;
}

/* A frame that says less does not hide the one around it, but what an optimizer calls back is no update. */
static void see(frames_seen *f, oom_place place) {
    if (place == OOM_VALIDATION) f->validates = true;
    if (place == OOM_SAVING) f->saves = true;
    bool says_more = place != OOM_FORWARD && place != OOM_GENERATION;
    bool hides = says_more || f->inner == OOM_NOWHERE || f->inner == OOM_OPTIMIZER;
    if (place != OOM_NOWHERE && hides) f->inner = place;
}

static oom_place found(const frames_seen *f) {
    bool in_step = f->inner == OOM_BACKWARD || f->inner == OOM_OPTIMIZER;
    if (f->saves && !in_step && f->inner != OOM_ATTENTION && f->inner != OOM_LOSS) return OOM_SAVING;
    if (f->validates && !in_step) return OOM_VALIDATION;
    return f->inner;
}

static oom_place place_in(span s) {
    frames_seen f = { OOM_NOWHERE, false, false };
    bool in_attention = false, is_frame;
    for (span line = span_line(&s); line.at; line = span_line(&s)) {
        bool attention = oom_frame_is_attention(line, &is_frame);
        if (is_frame) in_attention = attention;
        bool scores = in_attention && !is_frame && oom_line_makes_scores(line);
        see(&f, scores ? OOM_ATTENTION : place_of(line));
        if (reads_file(line)) f.saves = false;
    }
    return found(&f);
}

/* ---- all of it ---- */

enum { BEFORE = 24 << 10, AFTER = 6 << 10 };

/* From the last traceback before the message on; where none begins, all that is near. */
static const char *begin_of(span near, const char *mark) {
    static const char head[] = "Traceback (most recent call last)";
    const char *begin = near.at;
    for (span s = span_behind((span){ near.at, mark }, head); s.at; s = span_behind(s, head)) begin = s.at;
    return begin;
}

static const char *end_of_line(const char *at, const char *end) {
    const char *next = memchr(at, '\n', (size_t)(end - at));
    return next ? next : end;
}

static bool says_little(oom_place place) {
    return place == OOM_NOWHERE || place == OOM_FORWARD || place == OOM_GENERATION;
}

void oom_find_place(span all, const char *mark, oom *o) {
    span near = all;
    if (mark - near.at > BEFORE) near.at = mark - BEFORE;
    if (near.end - mark > AFTER) near.end = mark + AFTER;
    span before = { begin_of(near, mark), end_of_line(mark, near.end) }, after = { before.end, near.end };
    o->place = place_in(before);
    if (o->place == OOM_NOWHERE) o->place = place_in((span){ near.at, before.end });
    if (o->place == OOM_NOWHERE) o->place = place_in(after);
    if (says_little(o->place)) {
        oom_place told = oom_place_told(near);
        o->told_place = told != OOM_NOWHERE;
        if (o->told_place) o->place = told;
    }
    o->told_host = oom_told_host(near);
    o->told_library = oom_told_library(near);
    o->each_rank = span_behind(near, "_cuda_deserialize").at || span_behind(near, "torch.load(").at;
    o->fused = span_behind(near, "scaled_dot_product_attention").at != NULL;
    o->pinned = span_behind(near, "pin_memory").at != NULL;
    o->grew = oom_grows(near);
    for (span line = span_line(&near); line.at; line = span_line(&near))
        o->told_leak = o->told_leak || oom_tells_growth(line);
}
