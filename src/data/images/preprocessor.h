/* preprocessor_config.json, as the image processors of Hugging Face's transformers write it: how pictures
 * become what a model takes. */
#pragma once

#include "data/images/prepare.h"

/* Of a model directory. `p` comes with defaults, of which the file may say others; `*there` false: there is
 * no file. STATUS_INVALID, with file and key, for what isn't known or makes no sense. */
status preprocessor_read(const char *directory, prepare_options *p, bool *there);

/* Writes it: what reads it computes the same. */
status preprocessor_write(const char *directory, const prepare_options *p);
