#include "estimate/torch/torch_versions.h"

const char *torch_version_name(torch_version v) {
    static const char *const names[] = { "any", "1.8",  "1.9",  "1.10", "1.11", "1.12", "1.13", "2.0",
                                         "2.1", "2.2",  "2.3",  "2.4",  "2.5",  "2.6",  "2.7",  "2.8",
                                         "2.9", "2.10", "2.11", "2.12", "2.13", "2.14", "2.15" };
    _Static_assert(sizeof names / sizeof *names == TORCH_TODAY + 1, "a name for each version");
    return names[v];
}

bool torch_is_before(const torch_settings *s, torch_version v) { return s->version && s->version < v; }

/* set_to_none is the default of Optimizer.zero_grad and Module.zero_grad from 2.0 on (pytorch#92731).
 * DeepSpeed has a zero_grad of its own, whose default torch does not decide (DeepSpeed#4438). */
bool torch_fills_gradients(const torch_settings *s) {
    bool own = s->shard == TORCH_ZERO1 || s->shard == TORCH_ZERO2 || s->shard == TORCH_ZERO3;
    return torch_is_before(s, TORCH_2_0) && !own;
}

/* Its gradient named `self` for the sake of a second derivative (pytorch#64000), until pytorch#66018 of
 * October 2021. transformers asks for the newer signature from 1.11 on (softmax_backward_data). */
bool torch_softmax_keeps_input(const torch_settings *s) { return torch_is_before(s, TORCH_1_11); }

/* The root of the second moments, and its sum with epsilon, until that was added in place (pytorch#97712;
 * of AdamW #104898 of July 2023). */
int torch_foreach_copies(const torch_settings *s) { return torch_is_before(s, TORCH_2_1) ? 2 : 1; }

/* CUDA_MODULE_LOADING=LAZY is set by torch from 1.13 on (pytorch#86509). */
bool torch_loads_at_once(const torch_settings *s) { return s->cuda && torch_is_before(s, TORCH_1_13); }

/* torch.optim takes foreach by itself from 2.0 on (pytorch#92306, #95415). The Trainer asks for the fused
 * kernels from 2.8 on (default_optim of TrainingArguments). */
torch_update torch_usual_update(torch_version v, bool transformers) {
    if (v && v < TORCH_2_0) return TORCH_SINGLE;
    return transformers && (!v || v >= TORCH_2_8) ? TORCH_FUSED : TORCH_FOREACH;
}

const char *torch_attention_word(torch_attention a) {
    static const char *const words[] = {
        [TORCH_FLASH] = "sdpa", [TORCH_EAGER] = "eager", [TORCH_FLASH_ATTN] = "flash_attention_2"
    };
    return words[a];
}

/* torch has scaled_dot_product_attention from 2.0 on, and transformers takes it from 2.1 on
 * (is_torch_sdpa_available). */
torch_attention torch_usual_attention(torch_version v, bool transformers) {
    return v && v < (transformers ? TORCH_2_1 : TORCH_2_0) ? TORCH_EAGER : TORCH_FLASH;
}

static torch_version later(torch_version a, torch_version b) { return a > b ? a : b; }

/* The versions that each has come with. AdamW asks for its fused kernels from 2.0 on, as the Trainer does;
 * accelerate asks for FSDP's of 1.12 or later. transformers 5 refuses what is older than 2.4. */
torch_version torch_oldest(const torch_settings *s, bool attends) {
    torch_version v = TORCH_1_8;
    if (attends && s->attention == TORCH_FLASH) v = later(v, TORCH_2_0);
    if (attends && s->attention == TORCH_FLASH_ATTN) v = later(v, TORCH_1_12); /* its README */
    if (s->update == TORCH_FUSED) v = later(v, TORCH_2_0);
    if (s->update == TORCH_FOREACH || s->shard == TORCH_FSDP) v = later(v, TORCH_1_12);
    if (s->transformers && !s->older) v = later(v, TORCH_2_4);
    return v;
}

void torch_describe_version(const torch_settings *s, text *out) {
    const char *before = "";
    bool adam = s->optimizer == OPTIMIZER_ADAMW && s->state_bits != 8,
         copies = adam && s->update == TORCH_FOREACH && torch_foreach_copies(s) > 1;
    const struct {
        bool does;
        const char *what;
    } habits[] = { { torch_fills_gradients(s), "gradients stay as zeros from one step to the next" },
                   { torch_softmax_keeps_input(s), "softmax keeps what it reads" },
                   { copies, "the update has two copies" },
                   { torch_loads_at_once(s), "all kernels are loaded at once" } };
    for (size_t i = 0; i < sizeof habits / sizeof *habits; i++) {
        if (!habits[i].does) continue;
        if (!*before) text_add(out, "torch %s: ", torch_version_name(s->version));
        text_add(out, "%s%s", before, habits[i].what);
        before = ", ";
    }
    if (*before) text_add(out, "\n");
    if (s->transformers && !s->older && torch_is_before(s, TORCH_2_4))
        text_add(out, "transformers 5 refuses torch %s; --libraries 2023 has the rules of older ones\n",
                 torch_version_name(s->version));
}

/* What is asked for in words stands there until another word is said: no version takes it silently. */
status torch_check_version(const torch_settings *s) {
    const char *asked = NULL, *since = NULL;
    if (torch_is_before(s, TORCH_2_0) && s->attention == TORCH_FLASH)
        asked = "--attn flash", since = "2.0";
    else if (torch_is_before(s, TORCH_2_0) && s->update == TORCH_FUSED)
        asked = "--optimizer-kernels fused", since = "2.0";
    else if (torch_is_before(s, TORCH_1_12) && s->update == TORCH_FOREACH)
        asked = "--optimizer-kernels foreach", since = "1.12";
    else if (torch_is_before(s, TORCH_1_12) && s->shard == TORCH_FSDP)
        asked = "--shard fsdp", since = "1.12";
    if (!asked) return STATUS_OK;
    return status_set(STATUS_INVALID, "%s: PyTorch has it from %s on, and here it is --torch %s", asked,
                      since, torch_version_name(s->version));
}
