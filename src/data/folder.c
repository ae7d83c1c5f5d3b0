#include "data/folder.h"

#include <dirent.h>
#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "base/memory.h"

static int visible(const struct dirent *item) { return item->d_name[0] != '.'; }
static int by_name(const struct dirent **a, const struct dirent **b) {
    return strcmp((*a)->d_name, (*b)->d_name);
}

static status hand_over(const char *folder, const char *name, folder_each *each, void *context) {
    size_t bytes = strlen(folder) + strlen(name) + 2;
    char *path = memory_new(bytes, 1);
    if (!path) return status_set(STATUS_FAILED, "%s: no memory for the names of its files", folder);
    snprintf(path, bytes, "%s/%s", folder, name);
    return each(context, path);
}

status folder_list(const char *folder, folder_each *each, void *context) {
    struct dirent **items;
    int count = scandir(folder, &items, visible, by_name);
    if (count < 0)
        return status_set(STATUS_INVALID, "cannot read the folder %s: %s", folder, strerror(errno));
    status result = STATUS_OK;
    for (int i = 0; i < count; i++) {
        if (result == STATUS_OK) result = hand_over(folder, items[i]->d_name, each, context);
        memory_free(items[i]);
    }
    memory_free(items);
    return result;
}
