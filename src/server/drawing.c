#include "server/drawing.h"

#include <string.h>

#include "server/field.h"
#include "server/schema_read.h"
#include "text/template/template_json.h"

/* ---- numbers ---- */

status drawing_min_p(job *j, const template_value *v) { return field_number(v, 0, 1, &j->sample.min_p); }

status drawing_presence_penalty(job *j, const template_value *v) {
    return field_number(v, -2, 2, &j->sample.presence_penalty);
}

status drawing_frequency_penalty(job *j, const template_value *v) {
    return field_number(v, -2, 2, &j->sample.frequency_penalty);
}

/* ---- biases ---- */

static status id_of(const template_value *member, int64_t vocabulary, int32_t *id) {
    int64_t n = 0;
    bool number = member->key_length > 0 && member->key_length < 10;
    for (size_t i = 0; number && i < member->key_length; i++) {
        number = member->key[i] >= '0' && member->key[i] <= '9';
        n = n * 10 + (member->key[i] - '0');
    }
    if (!number || n >= vocabulary)
        return status_set(STATUS_INVALID, "its names must be ids of tokens, from \"0\" to \"%lld\"",
                          (long long)vocabulary - 1);
    *id = (int32_t)n;
    return STATUS_OK;
}

/* Where an id stands twice the last one counts. */
static status add_bias(job *j, int32_t id, double bias) {
    uint32_t at = 0;
    while (at < j->sample.bias_count && j->biases[at].id != id) at++;
    if (at == SAMPLE_BIASES) return status_set(STATUS_INVALID, "it has more than %d tokens", SAMPLE_BIASES);
    j->biases[at] = (sample_bias){ id, (float)bias };
    if (at == j->sample.bias_count) j->sample.bias_count++;
    return STATUS_OK;
}

status drawing_bias(job *j, const template_value *v, int64_t vocabulary) {
    if (v->kind != TEMPLATE_OBJECT && !(v->kind == TEMPLATE_LIST && !v->list.count))
        return status_set(STATUS_INVALID, "it must be an object of ids and numbers");
    for (size_t i = 0; i < v->list.count; i++) {
        double bias = 0;
        int32_t id = 0;
        TRY(id_of(&v->list.items[i], vocabulary, &id));
        TRY(field_number(&v->list.items[i], -100, 100, &bias));
        TRY(add_bias(j, id, bias));
    }
    j->sample.biases = j->biases;
    return STATUS_OK;
}

/* ---- logarithms ---- */

static status take_likeliest(job *j, const template_value *v) {
    int64_t n = 0;
    TRY(field_whole(v, 0, SAMPLE_LIKELIEST, &n));
    j->sample.likeliest = (uint32_t)n;
    return STATUS_OK;
}

status drawing_logprobs(job *j, const template_value *v) {
    if (j->chat) return field_bool(v, &j->sample.logprobs);
    TRY(take_likeliest(j, v));
    j->sample.logprobs = true;
    return STATUS_OK;
}

status drawing_top_logprobs(job *j, const template_value *v) { return take_likeliest(j, v); }

/* ---- what the answer must be ---- */

static bool is_name(const template_value *m, const char *const *names) {
    for (; *names; names++)
        if (m->key_length == strlen(*names) && memcmp(m->key, *names, m->key_length) == 0) return true;
    return false;
}

static status check_members(const template_value *v, const char *const *names) {
    for (size_t i = 0; i < v->list.count; i++)
        if (!is_name(&v->list.items[i], names))
            return status_set(STATUS_INVALID, "'%.*s' is not known in it",
                              (int)(v->list.items[i].key_length < 60 ? v->list.items[i].key_length : 60),
                              v->list.items[i].key);
    return STATUS_OK;
}

static status take_schema(job *j, const template_value *v) {
    static const char *const names[] = { "name", "description", "schema", "strict", NULL };
    if (!v || v->kind != TEMPLATE_OBJECT)
        return status_set(STATUS_INVALID, "its type json_schema wants an object 'json_schema'");
    TRY(check_members(v, names));
    const template_value *s = template_value_member(v, "schema");
    if (!s) return status_set(STATUS_INVALID, "'json_schema' wants a 'schema'");
    TRY(schema_read(s, &j->constraint->schema));
    j->constrained = true;
    return STATUS_OK;
}

status drawing_format(job *j, const template_value *v) {
    static const char *const names[] = { "type", "json_schema", NULL };
    const template_value *type = template_value_member(v, "type");
    if (!type) return status_set(STATUS_INVALID, "it must be an object with a 'type'");
    TRY(check_members(v, names));
    if (template_value_says(type, "text")) return STATUS_OK;
    if (!j->constraint)
        return status_set(STATUS_INVALID,
                          "this server has no memory for answers by a schema (--no-response-format)");
    if (template_value_says(type, "json_schema"))
        return take_schema(j, template_value_member(v, "json_schema"));
    if (!template_value_says(type, "json_object"))
        return status_set(STATUS_INVALID, "its type must be text, json_object or json_schema");
    schema_object(&j->constraint->schema);
    j->constrained = true;
    return STATUS_OK;
}

/* ---- all of it ---- */

status drawing_check(job *j, const char **field) {
    *field = "top_logprobs";
    if (j->sample.likeliest && !j->sample.logprobs)
        return status_set(STATUS_INVALID, "it wants \"logprobs\": true beside it");
    return STATUS_OK;
}
