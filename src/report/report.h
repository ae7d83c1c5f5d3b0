/* What people and programs read about a plan and a run: text for a terminal or a log, and JSON. Everything is
 * built in memory (base/text.h, io/json.h), but for a trace, which goes to its file; nothing here prints.
 * Texts end with a newline. */
#pragma once

#include "base/text.h"
#include "compare/compare.h"
#include "io/file.h"
#include "train/evaluate.h"
#include "train/pace.h"
#include "train/profile.h"
#include "train/standing.h"
#include "train/train.h"

/* How text may look. */
typedef struct {
    bool colour;  /* ANSI colours */
    bool unicode; /* bars of block characters */
    bool brief;   /* what is needed and what was chosen, no more */
} report_style;

/* Whether the decision is within its budget; otherwise its plan is the one that needs least. */
bool report_fits(const decision *d);

/* The plan: what it needs, what was chosen and why, what is alive at the peak. Where nothing fits: by how
 * much, the least feasible budget, who holds the peak of that plan, and what would help. */
void report_plan_text(text *out, const setup *s, const decision *d, const report_style *style);

/* Every program, one line per kernel: what it makes, where that lies, what is alive. */
void report_listing(text *out, const decision *d);

/* Planned beside measured bytes, by category, and the whole process. */
void report_memory_table(text *out, const decision *d, const train_result *r, const report_style *style);

/* A line on steps that take longer than before, and what it may come from. `apart`: a GPU computes. */
void report_slowed(text *out, int64_t step, const pace_fall *fall, bool apart);

/* Where the time of a step went: by op, by block, between kernels; then the table of memory. */
void report_profile_text(text *out, const setup *s, const decision *d, const profile_result *r,
                         const report_style *style);

/* Every kernel call of every measured step, and the bytes alive at it, in the trace event format. */
status report_profile_trace(io_writer *file, const setup *s, const decision *d, const profile_result *r);

/* The keys of `plan --json` and run.json: documented, never renamed. */
void report_plan_json(text *out, const setup *s, const decision *d);
void report_run_json(text *out, const setup *s, const decision *d, const train_result *r);
void report_evaluation_json(text *out, const setup *s, const decision *d, const evaluate_result *r);
void report_profile_json(text *out, const setup *s, const decision *d, const profile_result *r);

/* Every technique beside plain training. `measured`: rows were run. */
typedef struct {
    const setup *setup;
    const compare_table *table;
    bool measured;
} report_comparison;
void report_compare_text(text *out, const report_comparison *c, const report_style *style);
void report_compare_json(text *out, const report_comparison *c);

/* The same as a picture: a bar a row, cut by category, and the time of a step beside it. It brings its own
 * background, light or dark as the viewer prefers, and tells categories apart by pattern as well as colour.
 */
void report_compare_svg(text *out, const report_comparison *c);

/* Reports as pages (report/page/page.h), for --html. Committing the file is the caller's. */
status report_status_page(io_writer *file, const char *folder, const standing *s); /* of a run's folder */
status report_compare_page(io_writer *file, const report_comparison *c);
status report_plan_page(io_writer *file, const setup *s, const decision *d);
status report_profile_page(io_writer *file, const setup *s, const decision *d, const profile_result *r);
status report_evaluation_page(io_writer *file, const setup *s, const decision *d, const evaluate_result *r);
status report_run_page(io_writer *file, const setup *s, const decision *d, const train_result *r);

/* "1,234,567" and "3 min 20 s", into `buffer`; return it. A rate is a count too, "-" where it is not known.
 */
enum { REPORT_NUMBER_BYTES = 32 };
const char *report_count(uint64_t n, char buffer[REPORT_NUMBER_BYTES]);
const char *report_rate(double per_second, char buffer[REPORT_NUMBER_BYTES]);
const char *report_duration(double seconds, char buffer[REPORT_NUMBER_BYTES]);

/* A path or name from outside as it may stand in a text: control characters and what is not UTF-8 become '?',
 * so it stays within its line and commands no terminal. What is too long loses its middle. */
enum { REPORT_NAME_BYTES = 512 };
const char *report_name(const char *name, char buffer[REPORT_NAME_BYTES]);
