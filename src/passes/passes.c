/* The registry: passes.def as a table. Nothing else names the techniques. */
#include <stdio.h>

#include "passes/adapting.h"

#define PASS(name) extern const pass pass_##name;
#include "passes/passes.def"
#undef PASS

const pass *const pass_table[] = {
#define PASS(name) &pass_##name,
#include "passes/passes.def"
#undef PASS
    NULL
};

const char *pass_class_name(pass_class c) {
    static const char *const names[] = { "exact", "reassociating", "lossy" };
    return names[c];
}

const pass *pass_of_parameter(const char *parameter, const shape *s, float *deviation) {
    for (int i = 0; pass_table[i]; i++)
        if (pass_table[i]->adapting && pass_table[i]->adapting->begins(parameter, s, deviation))
            return pass_table[i];
    return NULL;
}

uint32_t pass_frees(const pass *p, const pass_setting *s) { return p->frees_by ? p->frees_by(s) : p->frees; }

const char *pass_option(const pass *p, char text[PASS_OPTION_BYTES]) {
    snprintf(text, PASS_OPTION_BYTES, "%s", p->option ? p->option : p->name);
    for (char *c = text; *c; c++)
        if (*c == '_') *c = '-';
    return text;
}
