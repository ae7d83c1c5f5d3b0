#include "run/heads.h"

#include <string.h>

#include "base/units.h"

status heads_parse(const char *words, model_head *h) {
    static const char classes[] = "classes";
    size_t n = sizeof classes - 1;
    *h = (model_head){ 0 };
    if (strcmp(words, "score") == 0) {
        *h = (model_head){ HEAD_SCORE, 1 };
        return STATUS_OK;
    }
    bool is_classes = strncmp(words, classes, n) == 0 && (!words[n] || words[n] == ':');
    if (!is_classes)
        return status_set(STATUS_INVALID,
                          "--head: '%.60s' is no head; say classes, classes:3 or score, or leave it out",
                          words);
    h->kind = HEAD_CLASSES;
    return words[n]
               ? units_parse_integer(words + n + 1, "--head classes:N", 2, HEAD_MOST_OUTPUTS, &h->outputs)
               : STATUS_OK;
}

status heads_choose(setup *s) {
    const char *words = s->options.head;
    model_head asked;
    if (!words) return STATUS_OK;
    TRY(heads_parse(words, &asked));
    if (families_images(&s->config) && (asked.kind != HEAD_CLASSES || families_projects(&s->config)))
        return status_set(STATUS_INVALID, "--head %s: %s sees images, and %s", words, s->options.model,
                          families_projects(&s->config)
                              ? "CLIP's tower has a projection in the place of a head"
                              : "its head tells classes");
    if (!families_judges(&s->config) && !families_images(&s->config))
        return status_set(STATUS_INVALID,
                          "--head %s: %s is of no kind that judges texts; those that fill gaps or continue "
                          "texts do, but for OLMoE, and ModernBERT whose classifier_pooling is mean",
                          words, s->options.model);
    bool any = asked.kind == HEAD_CLASSES && !asked.outputs; /* as many as it has, or as the data has */
    if (any && s->config.head.kind == HEAD_CLASSES) return STATUS_OK;
    s->config.other_task[0] = 0; /* what it was made for is replaced */
    s->new_head = asked.kind != s->config.head.kind || asked.outputs != s->config.head.outputs;
    s->config.head = asked;
    return STATUS_OK;
}
