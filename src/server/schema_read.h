/* A JSON schema of a request. What is not in the subset of infer/constraint/schema.h is refused by its name.
 */
#pragma once

#include "infer/constraint/schema.h"
#include "text/template/template.h"

/* STATUS_INVALID with a sentence for what is not known, makes no sense or has no room. */
status schema_read(const template_value *v, schema *s);
