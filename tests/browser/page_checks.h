/* What holds for every page, whatever it tells of. Each fails the test with a sentence. */
#pragma once

#include "browser/browser.h"

/* Shows the page light and dark, wide and narrow, on paper and without scripts, and looks at all of it. Ready
 * within a second. */
void check_page(browser *b, const char *file);
/* Two of these only, for pages much like others. The page is left as it is shown light and wide. */
void check_page_soon(browser *b, const char *file);

/* Of the page that is shown: */
void check_quiet(browser *b, const char *file); /* no complaint, no request but the file */
void check_names(browser *b); /* charts and tables are told to assistive technology by name */
void check_drawn(browser *b); /* no chart is blank */
/* The least contrast of its texts, and `where`: which one has it. */
double page_contrast(browser *b, char *where, size_t bytes);

/* The number, from 1, of the chart with this name. */
int page_chart(browser *b, const char *name);
/* The numbers of chart number `chart`, from 1, to be put back. */
struct json_object *page_data(browser *b, int chart);
/* 1,234,567 as tables and pointers say it. */
const char *page_counted(uint64_t n, char out[40]);
/* Of the numbers of bands: bytes of a category at a moment. */
uint64_t page_bytes_at(struct json_object *data, int64_t moment, uint32_t category);
/* Is there a band of this name and of so many bytes at that moment? */
bool page_has_band(struct json_object *data, int64_t moment, const char *name, int64_t bytes);

/* The chart of memory says at its peak what `predicted` ("peak_bytes", "by_category") does: in its numbers,
 * in its table, and by its keys. */
void check_memory(browser *b, int chart, struct json_object *predicted);
/* Keys and pointer say bands that are in the numbers at that moment, with their bytes. */
void check_pointing(browser *b, int chart);
