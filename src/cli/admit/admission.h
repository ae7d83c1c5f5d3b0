/* The answer to a job: each of its commands that trains or serves, estimated on the device that it asks for.
 */
#pragma once

#include "admit/admit.h"
#include "cli/estimate/estimate.h"

/* From what is certain to fit to what is certain not to. */
typedef enum {
    ADMISSION_UNKNOWN,  /* something that decides can't be seen */
    ADMISSION_FITS,     /* by the upper end of the interval */
    ADMISSION_MAY_FIT,  /* by the likely value */
    ADMISSION_UNLIKELY, /* not by the likely value */
    ADMISSION_NO_FIT    /* not by the lower end, of the least that the script can mean */
} admission_answer;

typedef struct {
    const recipe *of;
    admission_answer answer;
    int64_t gpus;
    interval bytes;  /* of the device, where there is one, else reserved */
    uint64_t least;  /* the lower end of the least that the script can mean; 0: not asked */
    uint64_t memory; /* that the device has for it; 0: no device is known */
    char model[96], device[96];
    char
        change[4 * FRAMEWORK_CHANGE_BYTES]; /* that makes it fit; "": none is known, or it is not asked for */
    bool alters;                            /* that changes what is trained */
    uint64_t changed;                       /* bytes of the device then */
    text line;                              /* the words of `snug estimate` that it was read as */
    text unseen;                            /* sentences, one a line */
} admission_run;

typedef struct {
    const options *o;
    const char *name; /* of the script */
    admit_reading reading;
    admit_place place;
    admission_run runs[ADMIT_MOST_RUNS];
    uint32_t count;
    text unseen;
} admission;

/* STATUS_INVALID: the site's file or the named device can't be read. Whatever is wrong with the script is an
 * answer. Close it in any case; it must not move. */
status admission_decide(const options *o, const admit_job *job, const char *name, admission *a);
void admission_close(admission *a);

admission_answer admission_of(const admission *a); /* the worst of the runs' */
const char *admission_name(admission_answer a);
void admission_say(const admission *a, text *t);
void admission_put_json(const admission *a, text *t);
status admission_status(const admission *a); /* STATUS_NO_FIT: by the site's policy it is refused */
