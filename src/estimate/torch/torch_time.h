/* How long training takes on devices elsewhere: what is multiplied, by the rate that the device's file has,
 * and the share of it that public runs reach. docs/estimate.md has the sources and how far off it is. */
#pragma once

#include "estimate/hardware.h"
#include "estimate/torch/torch.h"

typedef struct {
    double low, likely, high;
} torch_hours;

typedef struct {
    double steps;            /* of the optimizer */
    torch_hours clock;       /* hours until the last of them */
    double peak;             /* operations a second of the device, in the type of products */
    double share_low, share; /* of the peak, of what is computed: low, high or the user's own for both */
    double share_high;
} torch_time;

/* For the settings' tokens, or steps. False: the device's file has no rate for the type of products. */
bool torch_time_find(const torch_settings *s, const hardware *h, const torch_result *t, torch_time *r);
