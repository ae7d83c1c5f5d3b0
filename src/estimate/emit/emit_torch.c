/* Plain PyTorch: what is set around a model of one's own, in Python. */
#include "estimate/emit/emit.h"
#include "io/json.h"

static const char *half(const emit_request *q) {
    return q->subject->hardware->no_bf16 ? "torch.float16" : "torch.bfloat16";
}

static const char *backend(const emit_request *q) { return q->subject->hardware->mps ? "mps" : "cuda"; }

/* Gradients of f16 vanish unless the loss is made larger; torch's scaler takes those of f32 weights alone. */
static bool is_scaled(const emit_request *q) {
    return q->settings->torch.types == TORCH_AUTOCAST && q->subject->hardware->no_bf16;
}

static status check(const emit_request *q) {
    const torch_settings *s = &q->settings->torch;
    if (q->subject->hardware->mps && s->gpus > 1)
        return status_set(STATUS_INVALID, "--emit torch: torch has no collectives on mps; leave --gpus out");
    if (s->adapter_rank)
        return status_set(STATUS_INVALID, "--emit torch: adapters are PEFT's; take --emit hf");
    if (emit_zero_stage(s->shard))
        return status_set(STATUS_INVALID, "--emit torch: ZeRO is DeepSpeed's; take --emit deepspeed, or "
                                          "--shard fsdp");
    return STATUS_OK;
}

static void add_imports(const torch_settings *s, text *out) {
    bool codes = s->state_bits == 8 || s->optimizer == OPTIMIZER_LION;
    if (codes) text_add(out, "import bitsandbytes\n");
    text_add(out, "import torch\n");
    if (s->fused_loss)
        text_add(out, "from liger_kernel.transformers import LigerFusedLinearCrossEntropyLoss\n");
    if (s->shard == TORCH_FSDP)
        text_add(out, "from torch.distributed.fsdp import MixedPrecisionPolicy, fully_shard\n");
    text_add(out, "from torch.nn.attention import SDPBackend, sdpa_kernel\n");
    if (s->shard == TORCH_DDP) text_add(out, "from torch.nn.parallel import DistributedDataParallel\n");
    if (s->checkpointing) text_add(out, "from torch.utils.checkpoint import checkpoint\n");
}

static void add_constants(const emit_request *q, text *out) {
    const torch_settings *s = &q->settings->torch;
    text_add(out, "\nMICRO_BATCH = %lld  # samples at once, on each of %lld\n", (long long)s->batch,
             (long long)s->gpus);
    text_add(out, "ACCUMULATE = %lld  # micro-batches before the optimizer's step\n",
             (long long)torch_accumulation(&q->settings->torch));
    text_add(out, "CLIP = 1.0  # the largest norm of all gradients together\n");
    if (s->context) text_add(out, "CONTEXT = %lld  # tokens of a sample, at most\n", (long long)s->context);
    text_add(out, "ATTENTION = [%s]\n",
             s->attention == TORCH_FLASH && !q->subject->hardware->no_fused
                 ? "SDPBackend.FLASH_ATTENTION, SDPBackend.EFFICIENT_ATTENTION"
                 : "SDPBackend.MATH");
    if (is_scaled(q)) text_add(out, "scaler = torch.amp.GradScaler(\"%s\")\n", backend(q));
    if (s->types == TORCH_HALF && q->subject->hardware->no_bf16)
        text_add(
            out,
            "# weights of fp16 have no loss scale, and small gradients vanish: --dtype autocast has one\n");
    if (s->fused_loss)
        text_add(out, "loss_of = LigerFusedLinearCrossEntropyLoss()  # weight, states, labels\n");
}

static void add_prepare(const emit_request *q, text *out) {
    const torch_settings *s = &q->settings->torch;
    const char *policy = s->types == TORCH_F32 ? "MixedPrecisionPolicy()" : NULL;
    text_add(out, "\n\ndef prepare(model, blocks):\n    model = model.to(\"%s\", %s)\n", backend(q),
             s->types == TORCH_HALF ? half(q) : "torch.float32");
    if (s->checkpointing)
        text_add(out, "    for block in blocks:\n"
                      "        block.forward = checkpointed(block.forward)\n");
    if (s->shard == TORCH_DDP) text_add(out, "    return DistributedDataParallel(model)\n");
    if (s->shard == TORCH_FSDP) {
        text_add(out, "    policy = ");
        if (policy)
            text_add(out, "%s\n", policy);
        else
            text_add(out, "MixedPrecisionPolicy(param_dtype=%s)\n", half(q));
        text_add(out, "    for block in blocks:\n"
                      "        fully_shard(block, mp_policy=policy, reshard_after_forward=True)\n"
                      "    fully_shard(model, mp_policy=policy)\n");
    }
    if (s->shard != TORCH_DDP) text_add(out, "    return model\n");
    if (s->checkpointing)
        text_add(out, "\n\ndef checkpointed(forward):\n"
                      "    def run(*values, **named):\n"
                      "        return checkpoint(forward, *values, use_reentrant=False, **named)\n\n"
                      "    return run\n");
}

static void add_optimizer(const torch_settings *s, text *out) {
    const char *how = s->update == TORCH_FUSED     ? "fused=True"
                      : s->update == TORCH_FOREACH ? "foreach=True"
                                                   : "foreach=False";
    text_add(out, "\n\ndef make_optimizer(model, lr):\n    trained = [p for p in model.parameters() if "
                  "p.requires_grad]\n    return ");
    if (s->optimizer == OPTIMIZER_LION)
        text_add(out, "bitsandbytes.optim.Lion%s(trained, lr=lr)\n", s->state_bits == 8 ? "8bit" : "32bit");
    else if (s->state_bits == 8)
        text_add(out, "bitsandbytes.optim.AdamW8bit(trained, lr=lr)\n");
    else if (s->optimizer == OPTIMIZER_SGD)
        text_add(out, "torch.optim.SGD(trained, lr=lr, momentum=%g, %s)\n", s->momentum, how);
    else if (s->optimizer == OPTIMIZER_ADAFACTOR)
        text_add(out, "torch.optim.Adafactor(trained, lr=lr)\n");
    else
        text_add(out, "torch.optim.AdamW(trained, lr=lr, %s)\n", how);
}

/* `compute(model, batch)` is the caller's: it returns the loss of one micro-batch. */
static void add_step(const emit_request *q, text *out) {
    const torch_settings *s = &q->settings->torch;
    text_add(out, "\n\ndef step(model, optimizer, batches, compute):\n"
                  "    for batch in batches:  # ACCUMULATE of them\n"
                  "        with sdpa_kernel(ATTENTION)");
    if (s->types == TORCH_AUTOCAST) text_add(out, ", torch.autocast(\"%s\", dtype=%s)", backend(q), half(q));
    bool scaled = is_scaled(q);
    text_add(out,
             ":\n"
             "            loss = compute(model, batch) / ACCUMULATE\n"
             "        %s.backward()\n",
             scaled ? "scaler.scale(loss)" : "loss");
    if (scaled) text_add(out, "    scaler.unscale_(optimizer)\n");
    text_add(out, "    torch.nn.utils.clip_grad_norm_(model.parameters(), CLIP)\n");
    text_add(out, scaled ? "    scaler.step(optimizer)  # which leaves out a step that overflowed\n"
                           "    scaler.update()\n"
                         : "    optimizer.step()\n");
    text_add(out, "    optimizer.zero_grad(set_to_none=True)\n");
}

static status write(const emit_request *q, text *out) {
    const torch_settings *s = &q->settings->torch;
    const char *unused;
    TRY(check(q));
    TRY(emit_optimizer(q, &unused)); /* what has no name there exists nowhere */
    emit_comment(out, q);
    if (s->gpus > 1) text_add(out, "# torchrun --nproc_per_node %lld ...\n", (long long)s->gpus);
    add_imports(s, out);
    add_constants(q, out);
    add_prepare(q, out);
    add_optimizer(s, out);
    add_step(q, out);
    return STATUS_OK;
}

const emitter emit_torch = { "torch", "pytorch, hf", write };
