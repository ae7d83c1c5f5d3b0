/* Techniques that store weights in a form of their own, or train from such (pass.storing). */
#pragma once

#include "passes/pass.h"

struct pass_storing {
    /* The keys under which a model's configuration says that only this pass can read its weights, with the
     * setting; that of a setting. NULL: it stores plain weights. */
    const char *const *keys; /* ends with NULL */
    const char *(*key_of)(const pass_setting *s);

    /* Can training with this setting begin with weights that are stored under this key, with that setting?
     * NULL: with plain ones only. `goes_on`: a setting that can begin with some, for sentences. */
    bool (*begins_at)(const pass_setting *s, const char *stores, const char *setting);
    const char *goes_on;

    /* The setting with which a model is read whose files have matrices of type `filed`, and whose products
     * shall multiply `products` (NONE: as is usual for these); NULL: none, or the pass has none. */
    const char *(*for_reading)(dtype filed, dtype products);
};

static inline bool pass_begins_at(const pass *p, const pass_setting *s, const char *stores,
                                  const char *setting) {
    return p->storing && p->storing->begins_at && p->storing->begins_at(s, stores, setting);
}

static inline bool pass_stores(const pass *p) { return p->storing && p->storing->keys; }

/* Of a pass that stores: the key of this setting. */
static inline const char *pass_stores_as(const pass *p, const pass_setting *s) {
    return p->storing->key_of(s);
}
