/* Measures how fast what moves between ranks is (base/links.h). */
#pragma once

#include "base/links.h"
#include "base/status.h"

/* All ranks call it, and get the same. Takes a second or two for each link. */
status comm_measure(links *out);
