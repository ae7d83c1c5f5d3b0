/* What the three forms of a comparison share: labels, and what is said about a row in words. */
#pragma once

#include "report/report.h"

enum { COMPARE_LABEL_BYTES = 160 };

/* "--recompute block"; shortened to `columns` where it is longer. */
const char *compare_label(const compare_row *row, int columns, char label[COMPARE_LABEL_BYTES]);

const char *compare_group_title(compare_group g); /* "One technique alone" */
const char *compare_group_name(compare_group g);  /* "alone": in JSON */

/* "exact", "reassociating", "lossy", or that the optimizer is another. */
const char *compare_results(const compare_row *row);

/* What a reader should not have to work out: that a row saves nothing, costs memory, or adds nothing to the
 * one before it; why there is no plan. "": the numbers say it. */
const char *compare_note(const compare_table *t, uint32_t i);

/* What no GPU has confirmed of all rows' plans (run/unconfirmed.h), and the sentence, "" for none. */
uint32_t compare_unconfirmed(const compare_table *t);
enum { COMPARE_SAID_BYTES = 512 };
const char *compare_unconfirmed_text(const report_comparison *c, char said[COMPARE_SAID_BYTES]);

/* Of the row against plain; 0 where one of them is not there. */
double compare_bytes_percent(const compare_table *t, const compare_row *row);
double compare_seconds_percent(const compare_table *t, const compare_row *row);
