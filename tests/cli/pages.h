/* Pages as a test reads them: the numbers of each chart, from the JSON beside it. */
#pragma once

#include "cli/command.h"

/* The whole page; memory_free it. Fails the test where it is larger, or no whole page. */
char *pages_read(const char *path, size_t most);
/* The data of the first chart of that name; json_close it. Fails the test where there is none. */
json_document pages_chart(const char *page, const char *name);
/* Of a chart of bars: the bar with that label; its value. */
json_value pages_bar(const json_document *chart, const char *label);
uint64_t pages_bar_value(const json_document *chart, const char *label);
uint64_t pages_number(json_value v, size_t index); /* an item of an array */
/* Bytes of a category at a moment of a chart of bands: bands, what is gathered, and what is always there. */
uint64_t pages_bytes_at(const json_document *bands, uint64_t moment, const char *category);
/* No markup of a stranger's, and a policy that names what the page carries. */
void pages_check_markup(const char *page);
