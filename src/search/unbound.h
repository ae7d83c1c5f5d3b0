/* A budget that binds nothing. Where plain training fits into it, the answer is the one without a budget, for
 * which fewer candidates are looked at, unless something faster takes more than the budget. */
#pragma once

#include "search/search.h"

/* Searches so where it may, and else leaves the front empty: on a device apart only, since elsewhere a budget
 * is of the search's own memory as well. */
status unbound_find(const search_request *q, const search_wish *w, const search_point *plain,
                    search_front *front);
