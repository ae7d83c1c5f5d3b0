#include "plan/category.h"

#include "ir/op.h"

const char *category_name(category c) {
    static const char *const names[CATEGORY_COUNT] = {
        [CATEGORY_WEIGHTS] = "weights",         [CATEGORY_GRADIENTS] = "gradients",
        [CATEGORY_OPTIMIZER] = "optimizer",     [CATEGORY_ACTIVATIONS] = "activations",
        [CATEGORY_TEMPORARIES] = "temporaries", [CATEGORY_SCRATCH] = "scratch",
        [CATEGORY_INPUTS] = "inputs",           [CATEGORY_GAPS] = "gaps",
        [CATEGORY_RUNTIME] = "runtime",         [CATEGORY_CACHE] = "cache",
    };
    return names[c];
}

category category_of(const graph *g, tensor_id owner, bool crosses) {
    static const category of_role[] = {
        [ROLE_ACTIVATION] = CATEGORY_TEMPORARIES,
        [ROLE_INPUT] = CATEGORY_INPUTS,
        [ROLE_PARAMETER] = CATEGORY_WEIGHTS,
        [ROLE_STATE] = CATEGORY_OPTIMIZER,
        [ROLE_GRADIENT] = CATEGORY_GRADIENTS,
        [ROLE_RESULT] = CATEGORY_INPUTS,
        [ROLE_CACHE] = CATEGORY_CACHE,
    };
    const tensor *t = graph_tensor(g, owner);
    if (t->flags & TENSOR_OF_MODEL) return CATEGORY_WEIGHTS;
    if (t->role != ROLE_ACTIVATION) return of_role[t->role];
    if (t->flags & TENSOR_GRADIENT) return CATEGORY_GRADIENTS;
    return crosses ? CATEGORY_ACTIVATIONS : CATEGORY_TEMPORARIES;
}
