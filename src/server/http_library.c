/* Finds the calls of http_library.h. */
#ifdef SNUG_HTTP
#include "server/http_library.h"

#include <dlfcn.h>

struct http_library http_library;

/* Its interface has had one number since 0.9. */
static const char name_of_it[] = "libmicrohttpd.so.12";

status http_library_open(void) {
    void *library = dlopen(name_of_it, RTLD_NOW | RTLD_LOCAL);
    if (!library)
        return status_set(STATUS_INVALID, "%s is not to be had, and serve needs it: %s", name_of_it,
                          dlerror());
#define HTTP_LIBRARY_FIND(name)                                                                              \
    if (!(*(void **)&http_library.name = dlsym(library, "MHD_" #name)))                                      \
        return status_set(STATUS_INVALID, "%s has no MHD_%s", name_of_it, #name);
    HTTP_LIBRARY_CALLS(HTTP_LIBRARY_FIND)
    return STATUS_OK;
}

#endif
