/* Values of JSON as templates take them. */
#pragma once

#include <json-c/json.h>

#include "text/template/template.h"

/* Lives as long as `o`; ends the process without memory. chat_json_free frees what it holds. */
template_value chat_json_value(struct json_object *o);
void chat_json_free(const template_value *v);
