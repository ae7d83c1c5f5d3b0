/* Modules that repeat, and those that are computed again. */
#include <string.h>

#include "estimate/recorded/recorded_course.h"

static bool is_list(const char *class) {
    return strcmp(class, "ModuleList") == 0 || strcmp(class, "Sequential") == 0;
}

/* "h.3" is an item of "h"; `item` begins behind the dot. */
static bool is_item(const char *list, const char *module) {
    size_t n = strlen(list);
    if (strncmp(list, module, n) != 0 || (n && module[n] != '.')) return false;
    const char *item = module + n + (n > 0);
    return *item && !strchr(item, '.');
}

static bool is_within(const char *outer, const char *module) {
    size_t n = strlen(outer);
    return n ? strncmp(outer, module, n) == 0 && module[n] == '.' : *module != 0;
}

/* Two items of one class or more: what repeats. Modules stand behind the list that has them. A model that is
 * a list itself has all others within it, so all its items must be of one class. */
static bool repeats(const recording *r, uint32_t list) {
    const char *first = NULL;
    uint32_t alike = 0, items = 0;
    for (uint32_t i = list + 1; i < r->modules.count && is_within(r->modules.of[list], r->modules.of[i]);
         i++) {
        if (!is_item(r->modules.of[list], r->modules.of[i])) continue;
        if (!first) first = r->classes.of[i];
        items++;
        alike += strcmp(first, r->classes.of[i]) == 0;
    }
    return alike >= 2 && (*r->modules.of[list] || alike == items);
}

uint32_t recorded_blocks(const recording *r, uint32_t *block_of) {
    uint32_t count = 0, list = 0;
    bool in_list = false;
    memset(block_of, 0, r->modules.count * sizeof *block_of);
    for (uint32_t i = 0; i < r->modules.count; i++) {
        const char *name = r->modules.of[i];
        in_list &= is_within(r->modules.of[list], name);
        if (!in_list) {
            in_list = is_list(r->classes.of[i]) && repeats(r, i);
            list = i;
        } else if (is_item(r->modules.of[list], name)) {
            block_of[i] = ++count;
        } else {
            block_of[i] = count;
        }
    }
    return count;
}

/* Those that are named may lie within one another: modules stand behind those that have them. */
uint32_t recorded_blocks_again(const recording *r, uint32_t *block_of) {
    uint32_t count = 0;
    if (!r->again.count) return recorded_blocks(r, block_of);
    memset(block_of, 0, r->modules.count * sizeof *block_of);
    for (uint32_t k = 0; k < r->again.count; k++) {
        uint32_t outer = (uint32_t)r->again.of[k];
        block_of[outer] = ++count;
        for (uint32_t i = outer + 1; i < r->modules.count; i++)
            if (is_within(r->modules.of[outer], r->modules.of[i])) block_of[i] = count;
    }
    return count;
}

bool recorded_computes_again(const recording *r) {
    for (uint32_t i = 0; i < r->modules.count; i++)
        if (is_list(r->classes.of[i]) && repeats(r, i)) return true;
    return r->again.count > 0;
}

uint32_t recorded_block_of_name(const recording *r, const uint32_t *block_of, const char *weight) {
    uint32_t found = 0;
    for (uint32_t m = 1; m < r->modules.count; m++)
        if (block_of[m] && is_within(r->modules.of[m], weight)) found = block_of[m];
    return found;
}
