/* What a config.json says of a head that judges whole samples: "architectures", "id2label", "num_labels",
 * "problem_type", "pad_token_id". transformers keeps the number of labels as that of their names. */
#include <stdio.h>
#include <string.h>

#include "io/config_families.h"

static const char judges[] = "ForSequenceClassification";

/* The last of "architectures" that is no language's head; NULL: none is. */
static status find_class(json_value root, const char **class) {
    static const char *const heads[] = { judges, "ForTokenClassification", "ForQuestionAnswering",
                                         "ForMultipleChoice", "ForNextSentencePrediction" };
    json_value list;
    size_t count;
    *class = NULL;
    if (!json_find(root, "architectures", &list)) return STATUS_OK;
    TRY(json_as_array(list, &count));
    for (size_t i = 0; i < count; i++) {
        const char *name;
        TRY(json_as_string(json_item(list, i), &name));
        for (size_t k = 0; k < sizeof heads / sizeof *heads; k++)
            if (text_ends_with(name, heads[k])) *class = name;
    }
    return STATUS_OK;
}

static status count_labels(json_value root, int64_t *count) {
    json_value names, member;
    void *cursor = NULL;
    *count = 2;
    if (json_find(root, "id2label", &names)) {
        TRY(json_as_object(names));
        int64_t named = 0;
        while (json_next(names, &cursor, &member)) named++;
        if (named) *count = named;
        if (*count > HEAD_MOST_OUTPUTS)
            return json_wrong(names, "names %lld labels; there may be %d", (long long)*count,
                              HEAD_MOST_OUTPUTS);
    }
    return json_optional_integer(root, "num_labels", 1, HEAD_MOST_OUTPUTS, count);
}

static const char *const problems[] = { "", "single_label_classification", "regression",
                                        "multi_label_classification" };
enum { UNSAID, SINGLE, NUMBERS, SEVERAL, PROBLEMS };

static status read_problem(json_value root, int *problem) {
    const char *word = problems[UNSAID];
    json_value v;
    TRY(json_optional_string(root, "problem_type", &word));
    for (*problem = 0; *problem < PROBLEMS; ++*problem)
        if (strcmp(word, problems[*problem]) == 0) return STATUS_OK;
    TRY(json_get(root, "problem_type", &v));
    return json_wrong(v, "is '%.40s'; known are %s, %s and %s", word, problems[SINGLE], problems[NUMBERS],
                      problems[SEVERAL]);
}

/* Heads that look alike and mean something else: what a sentence calls them; NULL: it is none of those. */
static const char *other_meaning(int64_t labels, int problem) {
    if (problem == SEVERAL) return " of several classes at once";
    if (labels > 1 && problem == NUMBERS) return " of several scores at once";
    if (labels == 1 && problem == SINGLE) return " of one class";
    return NULL;
}

status config_head_read(json_value root, model_config *c) {
    const char *name;
    int64_t labels;
    int problem;
    TRY(find_class(root, &name));
    if (!name) return STATUS_OK;
    if (text_ends_with(name, judges) && families_judges(c)) {
        TRY(count_labels(root, &labels));
        TRY(read_problem(root, &problem));
        TRY(json_optional_integer(root, "pad_token_id", 0, INT32_MAX, &c->tokens.padding));
        const char *other = other_meaning(labels, problem);
        if (!other) {
            c->head = (model_head){ labels == 1 ? HEAD_SCORE : HEAD_CLASSES, labels };
            return STATUS_OK;
        }
        snprintf(c->other_task, sizeof c->other_task, "%.60s%s", name, other);
        return STATUS_OK;
    }
    snprintf(c->other_task, sizeof c->other_task, "%.60s", name);
    return STATUS_OK;
}

status config_head_names(json_value root, const model_config *c, label_names *names) {
    json_value list = { 0 };
    bool named = json_find(root, "id2label", &list);
    for (int64_t i = 0; i < c->head.outputs; i++) {
        char number[32], made[48];
        const char *name = made;
        uint32_t id;
        snprintf(number, sizeof number, "%lld", (long long)i);
        snprintf(made, sizeof made, "LABEL_%s", number);
        if (named) TRY(json_get_string(list, number, &name));
        status result = label_names_add(names, name, strlen(name), &id);
        if (result != STATUS_OK) return status_prefix(result, "%s: 'id2label'", root.file);
        if (id != i) return json_wrong(list, "has the name '%.60s' twice", name);
    }
    return STATUS_OK;
}

static const char *label_name(const model_config *c, int64_t i, char made[32]) {
    if (c->label_names) return c->label_names[i];
    snprintf(made, 32, "LABEL_%lld", (long long)i);
    return made;
}

void config_head_put(json_writer *w, const model_config *c) {
    char made[32], number[32];
    if (c->head.kind == HEAD_LANGUAGE || families_projects(c)) return;
    json_begin_object(w, "id2label");
    for (int64_t i = 0; i < c->head.outputs; i++) {
        snprintf(number, sizeof number, "%lld", (long long)i);
        json_put_string(w, number, label_name(c, i, made));
    }
    json_end_object(w);
    json_begin_object(w, "label2id");
    for (int64_t i = 0; i < c->head.outputs; i++) json_put_integer(w, label_name(c, i, made), i);
    json_end_object(w);
    json_put_string(w, "problem_type",
                    c->head.kind == HEAD_SCORE ? "regression" : "single_label_classification");
}

void config_class_put(json_writer *w, const model_config *c) {
    char name[FAMILIES_CLASS_BYTES];
    if (!*families_class(c, name)) return;
    json_begin_array(w, "architectures");
    json_put_string(w, NULL, name);
    json_end_array(w);
}
