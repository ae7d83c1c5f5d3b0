/* The page of an estimate, for --html. */
#pragma once

#include "cli/estimate/estimate.h"
#include "report/page/page.h"

/* Ends it: page_end. `a`: what makes it fit, as estimate_say wants it. */
status estimate_page(io_writer *file, const estimate_question *e, const framework_advice *a);

/* The step that the estimate is of, as bands; nothing where the framework plays none. */
status estimate_page_step(page *p, const estimate_question *e);
