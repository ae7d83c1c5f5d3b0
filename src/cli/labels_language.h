/* The tokenizers of models whose heads judge texts, for run/labelled.h. */
#pragma once

#include "run/labelled.h"

extern const labelled_language labels_language;
