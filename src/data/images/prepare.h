/* How pictures become the numbers that a model takes: resized, cut to a window, scaled and normalised. In
 * training the part of a picture is drawn (a part of 0.08 to 1 of its area, of sides 3:4 to 4:3, resized to
 * the window, and every second one mirrored); the draw is a function of the run's seed and the sample's place
 * in the run, so who reads it and when changes nothing. In validation it is the middle.
 *
 * The draws are those of torchvision's RandomResizedCrop and RandomHorizontalFlip, from Philox. */
#pragma once

#include "data/images/decode.h"

typedef struct {
    uint32_t shortest;      /* the shorter side becomes so long; 0: height x width, whatever shape it has */
    uint32_t height, width; /* where `shortest` is 0 */
    uint32_t out_height, out_width; /* the window, from the middle: what a model takes */
    uint32_t channels;              /* 3, or 1 */
    resample_filter filter;
    double factor, mean[3], deviation[3]; /* (x factor - mean) / deviation, x from 0 to 255 */
} prepare_options;

/* ImageNet's: the window is 7/8 of the resized picture's shorter side. */
prepare_options prepare_defaults(uint32_t height, uint32_t width, uint32_t channels);

/* What is taken of a picture of this size: the middle, or what is drawn for a place of a run. */
resample_options prepare_middle(const prepare_options *p, uint32_t width, uint32_t height);
resample_options prepare_drawn(const prepare_options *p, uint32_t width, uint32_t height, uint64_t seed,
                               uint64_t place);

void prepare_normalise(const prepare_options *p, float *image);
