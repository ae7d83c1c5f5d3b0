/* The rates that predictions use, and where they come from: what `snug devices --measure` found out about
 * this machine, or the built-in table, perhaps scaled by what a run took. They are kept in the user's cache
 * folder, one file for each kind of machine and build, so that neither uses another's.
 *
 * Rates change seconds and nothing else. They are read once, when a run is set up. */
#pragma once

#include "device/device.h"

enum { RATES_PATH_BYTES = 4096, RATES_MOST = 4 };

/* Sets of rates for some numbers of threads, fewest first. */
typedef struct {
    int threads[RATES_MOST];
    device_rates rates[RATES_MOST];
    int count;
} rates_measured;

/* $XDG_CACHE_HOME or ~/.cache, then snug/rates-KEY.json. The key is made of the processor, how many of it may
 * be used, and the build. */
status rates_path(char path[RATES_PATH_BYTES]);

/* For a run: measured ones for `threads`, in between those that were measured; else the built-in table. A
 * file that cannot be used is passed over, and `source` says so. */
device_rates rates_find(int threads);

/* Replaces the file. */
status rates_store(const rates_measured *m);

/* Notes what a run took where nothing was measured: one factor on the built-in table. Other work on a machine
 * only makes steps longer, so a shorter time than noted is believed at once, a longer one by a quarter. Does
 * nothing where there is a file of measured rates. */
status rates_store_scale(double measured_seconds, double predicted_seconds, const device_rates *used);
