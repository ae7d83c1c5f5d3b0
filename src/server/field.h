/* One field of a request: what its value must be. STATUS_INVALID with a sentence where it is not. */
#pragma once

#include "base/status.h"
#include "text/template/template.h"

status field_number(const template_value *v, double low, double high, double *out);
status field_whole(const template_value *v, int64_t low, int64_t high, int64_t *out);
status field_bool(const template_value *v, bool *out);
