/* A JSON schema as tables that an automaton over bytes reads (infer/constraint/machine.h): which values an
 * answer may have. A subset of JSON Schema; what is not in it is refused by its name.
 *
 * type, properties, required, additionalProperties, items, minItems, maxItems, enum, const, minLength,
 * maxLength, anyOf, $ref to # and to what stands in $defs or definitions. An object with properties has no
 * others, unless additionalProperties alone says what it has. Values that the schema allows and the tables
 * don't are never written; what is written is always allowed. */
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "base/status.h"

enum {
    SCHEMA_FORMS = 160,
    SCHEMA_KEYS = 320,      /* properties and values of enum and const */
    SCHEMA_EITHER = 240,    /* alternatives */
    SCHEMA_TEXT = 4096,     /* bytes of keys and values */
    SCHEMA_PROPERTIES = 64, /* of one object */
    SCHEMA_DEPTH = 32,      /* objects and lists within each other */
    SCHEMA_NONE = 0xffff,
    SCHEMA_NEVER = 255, /* form.depth: it has no value that ends */
};
#define SCHEMA_ENDLESS UINT32_MAX

typedef enum {
    FORM_ANY,
    FORM_OBJECT,
    FORM_ARRAY,
    FORM_STRING,
    FORM_NUMBER,
    FORM_INTEGER,
    FORM_LITERALS, /* one of some texts */
    FORM_EITHER,   /* one of some forms */
} form_kind;

typedef struct {
    uint8_t kind;
    uint8_t depth;         /* objects and lists within each other that its least value has */
    uint16_t first, count; /* of keys: properties or literals; of alternatives */
    uint16_t item;         /* of a list; of all members of an object without properties, or SCHEMA_NONE */
    uint32_t least, most;  /* items; characters */
    uint64_t required;     /* by the place of a property */
} schema_form;

/* Sorted by their bytes within a form. A property as it stands between its quotes, a literal as a whole. */
typedef struct {
    uint16_t at, length;
    uint16_t form; /* of the property's value */
} schema_key;

typedef struct {
    schema_form forms[SCHEMA_FORMS];
    schema_key keys[SCHEMA_KEYS];
    uint16_t either[SCHEMA_EITHER];
    char text[SCHEMA_TEXT];
    uint32_t form_count, key_count, either_count, text_count;
    uint16_t root;
} schema;

/* Any object. */
void schema_object(schema *s);
/* Once all forms are there: finds their depths. STATUS_INVALID with a sentence where an alternative leads
 * back to itself, or no value ends. */
status schema_check(schema *s);
