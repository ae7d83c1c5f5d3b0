#include "device/library_file.h"

#include <dlfcn.h>
#include <stdio.h>
#include <string.h>

static status find_file(const library_file *f, void **library) {
    for (size_t i = 0; !*library && f->files[i]; i++) *library = dlopen(f->files[i], RTLD_NOW | RTLD_LOCAL);
    if (*library) return STATUS_OK;
    return status_set(STATUS_INVALID,
                      "%s is not to be had: %s (install %s, or say where it is in LD_LIBRARY_PATH)", f->title,
                      dlerror(), f->package);
}

static status find_calls(const library_file *f, void *library, const library_call *calls, size_t count) {
    for (size_t i = 0; i < count; i++) {
        void *at = dlsym(library, calls[i].name);
        if (!at)
            return status_set(STATUS_INVALID, "%s has no %s: it is another library's", f->called,
                              calls[i].name);
        memcpy(calls[i].to, &at, sizeof at);
    }
    return STATUS_OK;
}

static size_t version_of(const library_file *f, void *library) {
    size_t (*get_version)(void) = NULL;
    void *at = dlsym(library, f->version_call);
    memcpy(&get_version, &at, sizeof at);
    return get_version ? get_version() : 0;
}

static status look_at(const library_file *f, bool emulated, void *library, char name[LIBRARY_NAME_BYTES]) {
    size_t version = version_of(f, library);
    if (emulated && !dlsym(library, "snug_standin"))
        return status_set(STATUS_INVALID,
                          "the emulated GPU takes no library but a stand-in for tests, and %s is none",
                          f->called);
    if (version / 10000 < f->least_version)
        return status_set(STATUS_INVALID, "%s says that it is version %zu, and %zu or later is taken",
                          f->called, version, f->least_version);
    snprintf(name, LIBRARY_NAME_BYTES, "%s %zu.%zu.%zu", f->title, version / 10000, version / 100 % 100,
             version % 100);
    return STATUS_OK;
}

status library_file_open(const library_file *f, bool emulated, const library_call *calls, size_t count,
                         void **library, char name[LIBRARY_NAME_BYTES]) {
    TRY(find_file(f, library));
    status result = look_at(f, emulated, *library, name);
    if (result == STATUS_OK) result = find_calls(f, *library, calls, count);
    if (result != STATUS_OK) library_file_close(library);
    return result;
}

void library_file_close(void **library) {
    dlclose(*library);
    *library = NULL;
}
