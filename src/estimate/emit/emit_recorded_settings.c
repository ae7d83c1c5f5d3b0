/* Settings of a recorded step's plan in PyTorch's words: types, PEFT's adapters, DDP and FSDP. */
#include <string.h>

#include "base/memory.h"
#include "estimate/emit/emit_recorded.h"
#include "estimate/recorded/recorded_adapters.h"
#include "estimate/recorded/recorded_rewrite.h"
#include "estimate/recorded/recorded_types.h"

static bool shares_by(const torch_settings *s, torch_shard shard) {
    return torch_is_shared(s) && s->shard == shard;
}

status emit_recorded_check(const torch_settings *s) {
    bool zero = torch_is_shared(s) && s->shard != TORCH_DDP && s->shard != TORCH_FSDP;
    if (zero)
        return status_set(STATUS_INVALID,
                          "--emit torch writes DDP and FSDP, and ZeRO is DeepSpeed's to apply; "
                          "say --shard fsdp, or leave --emit out");
    if (s->adapter_rank && s->base_bits == 4)
        return status_set(STATUS_INVALID,
                          "--emit torch: weights of 4 bits are made where the model is loaded; "
                          "leave --base-bits or --emit out");
    return STATUS_OK;
}

void emit_recorded_imports(const torch_settings *s, text *out) {
    if (s->adapter_rank) text_add(out, "from peft import LoraConfig, get_peft_model\n");
    if (shares_by(s, TORCH_FSDP))
        text_add(out, "from torch.distributed.fsdp import %sfully_shard\n",
                 s->masters ? "MixedPrecisionPolicy, " : "");
    if (shares_by(s, TORCH_DDP)) text_add(out, "from torch.nn.parallel import DistributedDataParallel\n");
}

/* ---- lists of modules ---- */

/* The first module of each block: a unit of FSDP. */
static void mark_units(const recording *r, const uint32_t *block_of, uint8_t *marks) {
    uint32_t known = 0;
    for (uint32_t m = 0; m < r->modules.count; m++) {
        marks[m] = block_of[m] > known;
        if (marks[m]) known = block_of[m];
    }
}

status emit_recorded_lists(const emit_recorded_of *q, text *out) {
    const recording *r = q->recording;
    uint8_t *marks = memory_new((size_t)r->modules.count + 1, sizeof *marks);
    uint32_t *block_of = memory_new((size_t)r->modules.count + 1, sizeof *block_of);
    bool made = marks && block_of;
    status result = made ? STATUS_OK : status_set(STATUS_FAILED, "no memory to write what was planned");
    if (made && q->settings->adapter_rank) {
        result = recorded_adapted(r, q->settings, marks);
        const emit_recorded_list list = { "ADAPTED", "have adapters beside them; all else is frozen", marks,
                                          1 };
        if (result == STATUS_OK) result = emit_recorded_names_of(r, &list, out);
    }
    if (result == STATUS_OK && shares_by(q->settings, TORCH_FSDP)) {
        recorded_blocks(r, block_of);
        mark_units(r, block_of, marks);
        const emit_recorded_list list = { "UNITS", "FSDP gathers the weights of one at a time", marks, 1 };
        result = emit_recorded_names_of(r, &list, out);
    }
    memory_free(marks);
    memory_free(block_of);
    return result;
}

/* ---- prepare(model) ---- */

/* Weights of a type other than the model was recorded with. */
static const char *weights_of(const emit_recorded_of *q) {
    bool was = recorded_types_of(q->recording) == TORCH_HALF;
    bool half = q->settings->types == TORCH_HALF && !q->settings->masters;
    return was == half ? NULL : half ? "bfloat16" : "float32";
}

void emit_recorded_before(const emit_recorded_of *q, text *out) {
    const torch_settings *s = q->settings;
    const char *type = weights_of(q);
    if (type)
        text_add(out,
                 "    for p in model.parameters():  # floats of batches are to be torch.%s as well\n"
                 "        p.data = p.data.to(torch.%s)\n",
                 type, type);
    if (s->adapter_rank)
        text_add(out,
                 "    model = get_peft_model(base, LoraConfig(r=%lld, lora_dropout=%g, "
                 "target_modules=ADAPTED))\n",
                 (long long)s->adapter_rank, s->adapter_dropout);
}

void emit_recorded_behind(const emit_recorded_of *q, text *out) {
    const torch_settings *s = q->settings;
    const char *policy = s->masters ? ", mp_policy=policy" : "";
    if (shares_by(s, TORCH_FSDP) && s->masters)
        text_add(
            out,
            "    policy = MixedPrecisionPolicy(param_dtype=torch.bfloat16, reduce_dtype=torch.float32)\n");
    if (shares_by(s, TORCH_FSDP))
        text_add(out,
                 "    for name in UNITS:\n"
                 "        fully_shard(base.get_submodule(name)%s)\n"
                 "    fully_shard(model%s)\n",
                 policy, policy);
    if (shares_by(s, TORCH_DDP)) text_add(out, "    model = DistributedDataParallel(model)\n");
}
