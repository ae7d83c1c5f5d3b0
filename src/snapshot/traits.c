#include "snapshot/traits.h"

#include <string.h>

#include "base/memory.h"
#include "base/text.h"

/* Either may be NULL; `name` and `file` are found within. */
typedef struct {
    const char *name, *file;
    uint32_t bits;
    bool whole; /* the name is this one */
} rule;

static const rule rules[] = {
    { "_call_impl", "torch/nn/modules/module.py", TRAIT_MODULE, true },
    { "_wrapped_call_impl", "torch/nn/modules/module.py", TRAIT_MODULE, true },
    { "_apply", "torch/nn/modules/module.py", TRAIT_LOADING, true },
    { "to_empty", "torch/nn/modules/module.py", TRAIT_LOADING, true },
    { "load_state_dict", "torch/nn/modules/module.py", TRAIT_LOADING, true },
    { "__init__", "torch/nn/modules/", TRAIT_LOADING, true },
    { "__init__", NULL, TRAIT_MAKES, true },
    { "reset_parameters", "torch/nn/modules/", TRAIT_LOADING, true },
    { NULL, "transformers/core_model_loading.py", TRAIT_LOADING, false },
    { "from_pretrained", "transformers/modeling_utils.py", TRAIT_LOADING, true },
    { "set_module_tensor_to_device", NULL, TRAIT_LOADING, true },
    { "cast_adapter_dtype", "peft/", TRAIT_LOADING, false },
    { "_move_adapter_to_device", "peft/", TRAIT_LOADING, false },
    { "_init_sharded_param", "fsdp/", TRAIT_LOADING, true },
    { "backward", NULL, TRAIT_BACKWARD, true },
    { "_engine_run_backward", NULL, TRAIT_BACKWARD, true },
    { "post_backward", "fsdp/", TRAIT_BACKWARD, false },
    { "torch::autograd::Engine::", NULL, TRAIT_BACKWARD, false },
    { "torch::autograd::generated::", NULL, TRAIT_NATIVE, false },
    { "Backward0::apply", NULL, TRAIT_BACKWARD, false },
    { "Backward1::apply", NULL, TRAIT_BACKWARD, false },
    { "torch::autograd::CppNode", NULL, TRAIT_BACKWARD, false },
    { "nn.Module: ", NULL, TRAIT_MODULE, false },
    { "autograd::engine::evaluate_function: ", NULL, TRAIT_BACKWARD, false },
    { "Optimizer.step#", NULL, TRAIT_UPDATE, false },
    { "Optimizer.zero_grad#", NULL, TRAIT_CLEARS, false },
    { "enumerate(DataLoader)#", NULL, TRAIT_DATA, false },
    { "torch::autograd::AccumulateGrad", NULL, TRAIT_BACKWARD | TRAIT_ACCUMULATES, false },
    { NULL, "torch/optim/", TRAIT_UPDATE, false },
    { NULL, "bitsandbytes/optim/", TRAIT_UPDATE, false },
    { NULL, "apex/optimizers/", TRAIT_UPDATE, false },
    { NULL, "deepspeed/ops/adam", TRAIT_UPDATE, false },
    { NULL, "torchao/optim/", TRAIT_UPDATE, false },
    { "_init_group", "torch/optim/", TRAIT_STATE, true },
    { "init_state", "bitsandbytes/optim/", TRAIT_STATE, false },
    { "zero_grad", NULL, TRAIT_CLEARS, true },
    { "recompute_fn", "torch/utils/checkpoint.py", TRAIT_RECOMPUTING | TRAIT_BACKWARD, true },
    { "unpack_hook", "torch/utils/checkpoint.py", TRAIT_RECOMPUTING | TRAIT_BACKWARD, true },
    { "getCurrentCUDABlasHandle", NULL, TRAIT_WORKSPACE, false },
    { "BlasLtWorkspace", NULL, TRAIT_WORKSPACE, false },
    { "BlasWorkspace", NULL, TRAIT_WORKSPACE, false },
    { "getWorkspace", NULL, TRAIT_WORKSPACE, false },
    { "unshard", "fsdp/", TRAIT_GATHERS, true },
    { "all_gather", "fsdp/", TRAIT_GATHERS, false },
    { "reduce_scatter", "fsdp/", TRAIT_GATHERS, false },
    { "foreach_all_gather", NULL, TRAIT_GATHERS, false },
    { "foreach_reduce", NULL, TRAIT_GATHERS, false },
    { "_unshard", NULL, TRAIT_GATHERS, true },
    { NULL, "deepspeed/runtime/zero/partition", TRAIT_GATHERS, false },
    { "benchmark_gpu", NULL, TRAIT_TRIES, true },
    { "autotune", NULL, TRAIT_TRIES, false },
    { NULL, "torch/utils/data/", TRAIT_DATA, false },
    { "_prepare_input", NULL, TRAIT_DATA, false },
    { "send_to_device", NULL, TRAIT_DATA, true },
    { "move_data_to_device", NULL, TRAIT_DATA, true },
    { "matmul", NULL, TRAIT_MULTIPLIES, false },
    { "addmm", NULL, TRAIT_MULTIPLIES, false },
    { "gemm", NULL, TRAIT_MULTIPLIES, false },
    { "cross_entropy", NULL, TRAIT_LOSS, false },
    { "CrossEntropy", NULL, TRAIT_LOSS, false },
    { "Loss", NULL, TRAIT_LOSS, false },
};

static uint32_t bits_of(const snapshot *s, const stacks_frame *f) {
    const char *name = pickle_texts_at(&s->texts, f->name), *file = pickle_texts_at(&s->texts, f->file);
    bool native = strstr(name, "::") || (strcmp(file, "??") == 0 && strncmp(name, "nn.Module: ", 11) != 0);
    uint32_t bits = native ? TRAIT_NATIVE : 0;
    if (stacks_is_said(f)) return 0; /* what was said of the allocation is nobody's code */
    for (size_t i = 0; i < sizeof rules / sizeof *rules; i++) {
        const rule *r = &rules[i];
        bool is = !r->name || (r->whole ? strcmp(name, r->name) == 0 : strstr(name, r->name) != NULL);
        if (is && (!r->file || strstr(file, r->file))) bits |= r->bits;
    }
    return bits;
}

/* Makers are asked as the innermost of Python's frames alone: further out anything may be made. */
static uint32_t of_stack(const uint32_t *frames, const snapshot *s, uint32_t stack) {
    const stacks_stack *x = (const stacks_stack *)s->stacks.all.data + stack;
    const uint32_t *members = (const uint32_t *)s->stacks.members.data + x->first;
    uint32_t bits = 0;
    bool outer = false;
    for (uint32_t i = 0; i < x->count; i++) {
        uint32_t of = frames[members[i]];
        bits |= outer ? of & ~(uint32_t)TRAIT_MAKES : of;
        outer = outer || !(of & TRAIT_NATIVE);
    }
    return bits;
}

status traits_open(const snapshot *s, traits *t) {
    uint32_t frame_count = s->stacks.frames.count;
    *t = (traits){ .count = s->stacks.all.count };
    t->of = memory_new(t->count + 1, sizeof *t->of);
    uint32_t *frames = memory_new(frame_count + 1, sizeof *frames);
    if (!t->of || !frames) {
        memory_free(frames);
        traits_close(t);
        return status_set(STATUS_FAILED, "no memory for what frames tell");
    }
    for (uint32_t i = 1; i < frame_count; i++)
        frames[i] = bits_of(s, (const stacks_frame *)s->stacks.frames.data + i);
    for (uint32_t i = 1; i < t->count; i++) {
        t->of[i] = of_stack(frames, s, i);
        t->any = true;
        t->native = t->native || t->of[i] & TRAIT_NATIVE;
        t->modules = t->modules || t->of[i] & TRAIT_MODULE;
    }
    memory_free(frames);
    return STATUS_OK;
}

void traits_close(traits *t) {
    memory_free(t->of);
    *t = (traits){ 0 };
}

/* ---- whose code ---- */

static bool is_plumbing(const snapshot *s, const stacks_frame *f) {
    static const char *const files[] = {
        "torch/nn/modules/",
        "torch/nn/functional.py",
        "torch/_ops.py",
        "torch/_tensor.py",
        "torch/_dynamo/",
        "torch/_inductor/",
        "torch/_functorch/",
        "torch/utils/",
        "torch/autograd/",
        "torch/amp/",
        "torch/fx/",
        "torch/distributed/",
        "accelerate/",
        "torch/optim/",
        "torch/_higher_order_ops/",
        "torchinductor/",
        "transformers/pytorch_utils.py",
        "transformers/activations.py",
        "transformers/utils/",
        "transformers/integrations/",
        "transformers/modeling_layers.py",
    };
    const char *file = pickle_texts_at(&s->texts, f->file), *name = pickle_texts_at(&s->texts, f->name);
    if (!f->file || strcmp(file, "??") == 0 || strstr(name, "::") || text_ends_with(file, ".cpp"))
        return true;
    for (size_t i = 0; i < sizeof files / sizeof *files; i++)
        if (strstr(file, files[i])) return true;
    return name[0] == '<' || strcmp(name, "wrapper") == 0;
}

uint32_t traits_own_frame(const snapshot *s, uint32_t stack) {
    uint32_t depth = stacks_depth(&s->stacks, stack);
    for (uint32_t i = 0; i < depth; i++)
        if (!is_plumbing(s, stacks_at(&s->stacks, stack, i))) return i;
    if (s->form != SNAPSHOT_TRACE) return UINT32_MAX;
    for (uint32_t i = depth; i-- > 0;) /* without Python's: what was called first */
        if (stacks_at(&s->stacks, stack, i)->file) return i;
    return UINT32_MAX;
}
