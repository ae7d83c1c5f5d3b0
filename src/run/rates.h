/* The rates that predictions use, and where they come from: what was measured on this machine, or the
 * built-in table, with a factor that runs have told. They are kept in the user's cache folder, one file for
 * each kind of processor, number of usable ones and build, so that machines that share a home folder don't
 * use each other's. A file holds a few sets of rates and never more.
 *
 * Rates change seconds and nothing else. They are read once, when a run is set up. */
#pragma once

#include "device/device.h"

/* AUTO measures for half a second where nothing is known of so many threads, or what is known was found to be
 * off; KNOWN never measures; BUILT_IN is the table alone, the same on every machine of its class. */
typedef enum { RATES_AUTO, RATES_BUILT_IN, RATES_KNOWN } rates_choice;

enum { RATES_PATH_BYTES = 4096, RATES_MOST = 4 };

/* Sets of rates for some numbers of threads, fewest first. */
typedef struct {
    int threads[RATES_MOST];
    bool brief[RATES_MOST]; /* measured in half a second, and not by `snug devices --measure` */
    device_rates rates[RATES_MOST];
    int count;
} rates_measured;

/* $XDG_CACHE_HOME or ~/.cache, then snug/rates-KEY.json. The key is made of the processor, how many of it may
 * be used, and the build. */
status rates_path(char path[RATES_PATH_BYTES]);

/* Of any file beside it, and the folder that such a file is to be in. */
status rates_file(const char *name, const char *key, char path[RATES_PATH_BYTES]);
status rates_make_folder(const char *path);

/* For a run on a device with `threads` threads: measured ones, in between those that were measured; else the
 * built-in table. A device apart says its rates itself, and of
 * them only what its products and attention take by shape may have been measured (run/shapes.h). `source`
 * says which, why a file can't be used or kept, and what is wrong with it. A process measures at most once
 * for a number of threads; of several at once one does, and the others wait for it. */
device_rates rates_find(rates_choice choice, const device *d, int threads);

/* Of one among `ranks` processes with as many threads each, on processors that they share: its part of what
 * all have together. */
device_rates rates_of_rank(rates_choice choice, const device *d, int threads, int64_t ranks);

/* Replaces the file. */
status rates_store(const rates_measured *m);

/* What a step on d took beside what was predicted with `used`, of a run that had the processors
 * it asked for. Within a quarter it becomes a factor: what a processor shares with others doesn't show in a
 * process's own time and only makes steps longer, so a shorter time is believed at once, a longer one by a
 * quarter. What is off by more, alone or with earlier factors, is no factor: `*doubted`, and the next AUTO
 * measures anew. The rates of a device apart are its own word, and nothing is learned of them. */
status rates_learn(const device *d, double took, double predicted, const device_rates *used, bool *doubted);
