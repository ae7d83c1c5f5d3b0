#include "infer/constraint/schema.h"

static uint8_t within(uint8_t depth) { return depth >= SCHEMA_DEPTH ? SCHEMA_NEVER : (uint8_t)(depth + 1); }

static uint8_t least_depth(const schema *s, const schema_form *f) {
    uint8_t depth = 0;
    switch (f->kind) {
    case FORM_OBJECT:
        for (uint16_t i = 0; i < f->count; i++) {
            uint8_t d = s->forms[s->keys[f->first + i].form].depth;
            if (f->required >> i & 1 && d > depth) depth = d;
        }
        return within(depth);
    case FORM_ARRAY: return within(f->least ? s->forms[f->item].depth : 0);
    case FORM_EITHER:
        depth = SCHEMA_NEVER;
        for (uint16_t i = 0; i < f->count; i++) {
            uint8_t d = s->forms[s->either[f->first + i]].depth;
            if (d < depth) depth = d;
        }
        return depth;
    default: return 0;
    }
}

/* From "never" on, until nothing changes. */
static void find_depths(schema *s) {
    for (uint32_t i = 0; i < s->form_count; i++) s->forms[i].depth = SCHEMA_NEVER;
    for (bool changed = true; changed;) {
        changed = false;
        for (uint32_t i = 0; i < s->form_count; i++) {
            uint8_t depth = least_depth(s, &s->forms[i]);
            changed = changed || depth != s->forms[i].depth;
            s->forms[i].depth = depth;
        }
    }
}

/* Does a way through alternatives alone lead back? `marks`: 1 on the way, 2 known to be well. */
static bool leads_back(const schema *s, uint16_t form, uint8_t *marks) {
    const schema_form *f = &s->forms[form];
    if (f->kind != FORM_EITHER || marks[form] == 2) return false;
    if (marks[form] == 1) return true;
    marks[form] = 1;
    for (uint16_t i = 0; i < f->count; i++)
        if (leads_back(s, s->either[f->first + i], marks)) return true;
    marks[form] = 2;
    return false;
}

status schema_check(schema *s) {
    uint8_t marks[SCHEMA_FORMS] = { 0 };
    for (uint32_t i = 0; i < s->form_count; i++)
        if (leads_back(s, (uint16_t)i, marks))
            return status_set(STATUS_INVALID, "a '$ref' or 'anyOf' in the schema leads to itself without a "
                                              "value between");
    find_depths(s);
    if (s->forms[s->root].depth <= SCHEMA_DEPTH) return STATUS_OK;
    return status_set(STATUS_INVALID,
                      "the schema has no value of at most %d objects and lists within each other",
                      SCHEMA_DEPTH);
}

void schema_object(schema *s) {
    *s = (schema){ 0 };
    s->form_count = 2, s->root = 0;
    s->forms[0] = (schema_form){ .kind = FORM_OBJECT, .item = 1, .depth = 1 };
    s->forms[1] = (schema_form){ .kind = FORM_ANY };
}
