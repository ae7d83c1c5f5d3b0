/* What `snug snapshot` shows of a file: the parts of the command. */
#pragma once

#include "cli/cli.h"
#include "io/json.h"
#include "report/page/page.h"
#include "snapshot/alive.h"
#include "snapshot/gaps.h"
#include "snapshot/remedies.h"
#include "snapshot/sites.h"
#include "snapshot/steps.h"
#include "snapshot/twin.h"

/* Where memory ran out. */
typedef struct {
    const snapshot_turn *turn;
    gaps_request met;
    uint64_t reserved, used;
    bool known; /* which segments there were */
    bool told;  /* what was reserved, and segments not */
} look_oom;

/* One device of one file. */
typedef struct {
    const snapshot_trace *trace;
    course course;
    roles roles;
    uint32_t instant; /* that is looked at: the peak, or --at */
    bool is_peak;
    uint64_t time; /* of the instant, in microseconds; 0: the file has no times */
    alive alive;
    verdict *verdicts; /* of alive.pieces, which are largest first with --each */
    sites sites;
    levels levels;
    steps steps;
    remedies remedies;
    gaps gaps;
    look_oom *ooms;
    uint32_t oom_count;
    gaps_course reserved;
    twin twin;
    alive_group *groups;
    uint32_t group_count;
    cli_changes changes; /* --for */
    uint64_t by_role[ROLES_COUNT], by_evidence[EVIDENCES];
} look_device;

typedef struct {
    const char *path;
    uint32_t number; /* among several, from 1 */
    snapshot snapshot;
    traits traits;
    const snapshot_words *words;
    const options *options;
    look_device *devices;
    uint32_t count;
} look_file;

/* `f` has path, number, words and options, and nothing else. */
status look_open(look_file *f);
/* What --at asks for is behind the last event of a device: it is not shown. */
bool look_is_over(const look_file *f, const snapshot_trace *t);
void look_close(look_file *f); /* fine on a zeroed one */

/* Steps until what grows fills the device; < 0: nothing grows, or what the device has is not known. */
int64_t look_steps_left(const look_file *f, const look_device *d);
/* "fragmented": enough is free for it, in pieces; "full"; "other-streams": enough is, with pieces of others;
 * "unknown": a piece was large enough, or what was reserved is not known. */
const char *look_cause_name(const look_oom *o);

/* Names as they are shown; `out` may hold them. */
enum { LOOK_NAME_BYTES = 32 };
const char *look_file_name(const look_file *f, const stacks_frame *x, char out[LOOK_NAME_BYTES]);
const char *look_function_name(const look_file *f, const stacks_frame *x, char out[LOOK_NAME_BYTES]);
const char *look_path(const look_file *f, char out[LOOK_NAME_BYTES]);

/* What --for asks: nothing where it was not said. */
status look_find_changes(const look_file *f, look_device *d);
void look_say_changes(text *t, const look_file *f, const look_device *d);
void look_put_changes(json_writer *w, const look_file *f, const look_device *d);
uint64_t look_memory(const look_file *f, const look_device *d); /* of the device; 0: not said */
bool look_change_fits(const look_file *f, const look_device *d, const cli_change *x);

const char *look_form_name(const look_file *f); /* "snapshot", "trace" or "timeline" */
/* "cuda", or what else the profiler calls the type of the device; NULL: it is not told. */
const char *look_type_name(const snapshot_trace *t);
enum { LOOK_DEVICE_BYTES = 48 };
const char *look_device_name(const snapshot_trace *t, char out[LOOK_DEVICE_BYTES]); /* "Device 0" */
/* Words for people. */
typedef struct {
    const char *title, *what;
} look_category;
typedef struct {
    const char *title, *how;
} look_remedy;
extern const look_category look_categories[ROLES_COUNT];
extern const look_remedy look_remedies[REMEDIES_COUNT];
enum { LOOK_FRAME_BYTES = 200 };
const char *look_frame_text(const look_file *f, const stacks_frame *x, char out[LOOK_FRAME_BYTES]);
/* What was said of an allocation, as the name of its module: ", in layer.3"; "" where nothing was. */
const char *look_said_text(const look_file *f, uint32_t stack, char out[LOOK_FRAME_BYTES]);
/* Of its stack the frame that is the model's own, else the innermost. */
const char *look_stack_text(const look_file *f, uint32_t stack, char out[LOOK_FRAME_BYTES]);
/* "in the backward of step 2, at event 812 of 1204, 0.31 s after the first" */
void look_moment_text(text *t, const look_device *d);

const char *look_recipe(int recipe); /* of --recipe */

/* Several files beside each other: a heading, and a line for each device of each. */
void look_say_heading(text *t);
void look_say_line(text *t, const look_file *f);

void look_say(text *t, const look_file *f);

/* The page of --html: files are added as they are open, one after the other, and the page is written when all
 * have been. */
typedef struct {
    char *name;
    int32_t device;
    bool host, known; /* known: what is reserved */
    uint64_t bytes, reserved, by_role[ROLES_COUNT];
} look_page_row;

typedef struct {
    page body;            /* what follows the answer; in memory */
    uint32_t files;       /* of the command */
    text title;           /* of the window */
    const char *prefix;   /* of headings: whose they are; "": there is only one */
    text answer, further; /* of one file */
    look_page_row *rows;
    uint32_t count, room; /* of rows */
} look_page;

void look_page_begin(look_page *p, uint32_t files);
status look_page_add(look_page *p, const look_file *f);
void look_page_miss(look_page *p, const char *name, const char *why); /* it can't be read */
status look_page_write(look_page *p, io_writer *file);
void look_page_close(look_page *p); /* fine on a zeroed one */

/* The categories in the order in which pictures stack them, those of a plan first. */
extern const roles_role look_stacked[ROLES_COUNT];
/* Memory over the recording; `share` is of how many such pictures the page has. */
status look_page_memory(page *p, const look_file *f, const look_device *d, uint32_t share);

void look_json(json_writer *w, const look_file *f);
