/* snug merge: a model with its adapter in its weights. */
#include <string.h>

#include "cli/cli.h"
#include "infer/merge.h"

status cli_merge(const options *o, cli_streams *streams) {
    if (!o->adapter)
        return status_set(STATUS_INVALID, "merge wants --adapter DIR, what was trained beside it");
    if (!o->run.out) return status_set(STATUS_INVALID, "merge wants --out DIR, where the model is to go");
    if (strcmp(o->run.out, o->subject) == 0)
        return status_set(STATUS_INVALID, "--out %s is the model itself; name another folder", o->run.out);
    TRY(merge_run(o->subject, o->adapter, o->run.out));
    char base[REPORT_NAME_BYTES], adapter[REPORT_NAME_BYTES], to[REPORT_NAME_BYTES];
    output_add(&streams->people, "%s with %s in its weights: %s\n", report_name(o->subject, base),
               report_name(o->adapter, adapter), report_name(o->run.out, to));
    return STATUS_OK;
}
