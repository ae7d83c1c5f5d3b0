#include "search/unbound.h"

status unbound_find(const search_request *q, const search_wish *w, const search_point *plain,
                    search_front *front) {
    *front = (search_front){ 0 };
    if (!compose_apart(&q->run) || !plain->peak_bytes || plain->peak_bytes > w->budget) return STATUS_OK;
    search_wish free = *w;
    free.budget = UINT64_MAX;
    TRY(search_within(q, UINT64_MAX, &free, front));
    if (front->points[front->count - 1].peak_bytes > w->budget) search_close(front);
    return STATUS_OK;
}
