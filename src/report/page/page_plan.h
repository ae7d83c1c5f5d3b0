/* What the pages of a plan, a profile and a run have in common. */
#pragma once

#include "report/page/page.h"
#include "report/report.h"

/* Begins the page with the answer. */
void page_plan_head(page *p, io_writer *file, const char *command, const setup *s, const decision *d);

/* What it needs, as facts. */
void page_put_numbers(page *p, const setup *s, const decision *d);

/* Sections of their own: what was chosen, and what each technique brings; peak against seconds. `whole`: all
 * points are searched, which takes longer than deciding did; else those that are known. */
void page_put_techniques(page *p, const setup *s, const decision *d);
void page_put_front(page *p, const setup *s, const decision *d, bool whole);
