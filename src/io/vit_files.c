#include "io/vit_files.h"

#include <stdio.h>
#include <string.h>

static const char LAYERS[] = "vit.layers.", FILED[] = "vit.encoder.layer.";

static const struct {
    const char *module, *filed;
} modules[] = { { ".attention.q_proj.", ".attention.attention.query." },
                { ".attention.k_proj.", ".attention.attention.key." },
                { ".attention.v_proj.", ".attention.attention.value." },
                { ".attention.o_proj.", ".attention.output.dense." },
                { ".mlp.fc1.", ".intermediate.dense." },
                { ".mlp.fc2.", ".output.dense." },
                { ".layernorm_before.", ".layernorm_before." },
                { ".layernorm_after.", ".layernorm_after." } };

bool vit_files_name(const char *weight, char name[VIT_FILES_NAME_BYTES]) {
    size_t begin = sizeof LAYERS - 1;
    if (strncmp(weight, LAYERS, begin) != 0) return false;
    const char *number = weight + begin;
    size_t digits = strspn(number, "0123456789");
    for (size_t i = 0; i < sizeof modules / sizeof *modules; i++) {
        size_t n = strlen(modules[i].module);
        if (!digits || strncmp(number + digits, modules[i].module, n) != 0) continue;
        return snprintf(name, VIT_FILES_NAME_BYTES, "%s%.*s%s%s", FILED, (int)digits, number,
                        modules[i].filed, number + digits + n) < VIT_FILES_NAME_BYTES;
    }
    return false;
}
