#include "models/families.h"

#include <stdio.h>
#include <string.h>

bool families_preset(const char *name, model_config *c) {
    *c = (model_config){ .family = FAMILY_GPT2 };
    return gpt2_preset(name, &c->gpt2);
}

const char *families_preset_names(void) { return gpt2_preset_names(); }

status families_check(const model_config *c) {
    return c->family == FAMILY_GPT2 ? gpt2_check(&c->gpt2) : decoder_check(&c->decoder);
}

void families_set_dropout(model_config *c, double p) {
    if (c->family == FAMILY_GPT2)
        c->gpt2.dropout_embedding = c->gpt2.dropout_attention = c->gpt2.dropout_residual = p;
    else
        c->decoder.dropout_embedding = c->decoder.dropout_attention = c->decoder.dropout_residual = p;
}

int64_t families_context(const model_config *c) {
    return c->family == FAMILY_GPT2 ? c->gpt2.context : c->decoder.context;
}

int64_t families_vocabulary(const model_config *c) {
    return c->family == FAMILY_GPT2 ? c->gpt2.vocabulary : c->decoder.vocabulary;
}

void families_model(const model_config *c, const char *name, model *m) {
    if (c->family == FAMILY_GPT2)
        gpt2_model(&c->gpt2, name, m);
    else
        decoder_model(&c->decoder, name, m);
}

const char *families_types(char names[FAMILIES_NAMES_BYTES]) {
    int n = snprintf(names, FAMILIES_NAMES_BYTES, "gpt2");
    for (const decoder_kind *k = decoder_kinds; k->type; k++)
        n += snprintf(names + n, (size_t)(FAMILIES_NAMES_BYTES - n), ", %s", k->type);
    return names;
}
