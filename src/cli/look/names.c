/* What files and functions are called, or, with --anonymous, what can be told of them to anybody: libraries
 * by their own names, everything else by a number. */
#include <ctype.h>
#include <stdio.h>
#include <string.h>

#include "cli/look/look.h"

static bool is_of_library(const char *path) {
    static const char *const libraries[] = { "torch/",       "transformers/", "accelerate/", "peft/",
                                             "torchvision/", "lightning/",    "deepspeed/",  "torchao/",
                                             "megatron/",    "torchtitan/",   "flash_attn/", "bitsandbytes/",
                                             "triton/",      "trl/" };
    for (size_t i = 0; i < sizeof libraries / sizeof *libraries; i++)
        if (strncmp(path, libraries[i], strlen(libraries[i])) == 0) return true;
    return false;
}

/* What stands in a file's path from a library on; NULL: it is of none. */
static const char *library_part(const char *file) {
    static const char *const folders[] = { "/site-packages/", "/dist-packages/" };
    for (size_t i = 0; i < sizeof folders / sizeof *folders; i++) {
        const char *package = strstr(file, folders[i]);
        if (package) return is_of_library(package + strlen(folders[i])) ? package + strlen(folders[i]) : NULL;
    }
    return is_of_library(file) ? file : NULL;
}

static bool is_among(const char *word, size_t length, const char *const *words) {
    for (; *words; words++)
        if (strlen(*words) == length && strncmp(word, *words, length) == 0) return true;
    return false;
}

/* A name of C++ that has namespaces of libraries alone: what stands in none is a type or word of the
 * language. */
static bool is_library_name(const char *name) {
    static const char *const spaces[] = { "at",   "aten",     "c10",       "torch",    "caffe2",  "std",
                                          "c10d", "autograd", "__gnu_cxx", "pybind11", "cutlass", NULL };
    static const char *const bare[] = { "void",      "bool",      "char",   "short",    "int",      "long",
                                        "unsigned",  "signed",    "float",  "double",   "const",    "auto",
                                        "anonymous", "namespace", "lambda", "operator", "decltype", "true",
                                        "false",     "_object",   "clone",  NULL };
    bool known = false;
    for (const char *at = name; *at;) {
        const char *end = at;
        while (isalnum((unsigned char)*end) || *end == '_') end++;
        if (end == at) {
            at++;
            continue;
        }
        bool root = at - name < 2 || strncmp(at - 2, "::", 2) != 0;
        bool space = root && strncmp(end, "::", 2) == 0 && is_among(at, (size_t)(end - at), spaces);
        bool word = isdigit((unsigned char)*at) || is_among(at, (size_t)(end - at), bare);
        if (root ? !space && !word : !known) return false;
        known = known || space;
        at = end;
    }
    return known;
}

const char *look_file_name(const look_file *f, const stacks_frame *x, char out[LOOK_NAME_BYTES]) {
    const char *file = pickle_texts_at(&f->snapshot.texts, x->file);
    if (!f->words->anonymous) return file;
    const char *part = library_part(file);
    if (part || !*file || strcmp(file, "??") == 0) return part ? part : file;
    snprintf(out, LOOK_NAME_BYTES, "file-%u", x->file);
    return out;
}

const char *look_function_name(const look_file *f, const stacks_frame *x, char out[LOOK_NAME_BYTES]) {
    const char *name = pickle_texts_at(&f->snapshot.texts, x->name),
               *file = pickle_texts_at(&f->snapshot.texts, x->file);
    if (!f->words->anonymous || is_library_name(name) || library_part(file)) return name;
    snprintf(out, LOOK_NAME_BYTES, x->file ? "function-%u" : "said-%u", x->name);
    return out;
}

const char *look_path(const look_file *f, char out[LOOK_NAME_BYTES]) {
    if (!f->words->anonymous) return f->path;
    snprintf(out, LOOK_NAME_BYTES, "snapshot-%u", f->number);
    return out;
}

const char *look_form_name(const look_file *f) {
    static const char *const names[] = {
        [SNAPSHOT_PICKLE] = "snapshot", [SNAPSHOT_TRACE] = "trace", [SNAPSHOT_TIMELINE] = "timeline"
    };
    return names[f->snapshot.form];
}

/* As c10::DeviceType counts them. */
const char *look_type_name(const snapshot_trace *t) {
    static const char *const names[] = { "cpu", "cuda", "mkldnn",       "opengl", "opencl", "ideep",
                                         "hip", "fpga", "maia",         "xla",    "vulkan", "metal",
                                         "xpu", "mps",  "meta",         "hpu",    "ve",     "lazy",
                                         "ipu", "mtia", "privateuseone" };
    size_t count = sizeof names / sizeof *names;
    return t->type >= 0 && (size_t)t->type < count ? names[t->type] : NULL;
}

const char *look_device_name(const snapshot_trace *t, char out[LOOK_DEVICE_BYTES]) {
    const char *type = look_type_name(t);
    if (t->host)
        snprintf(out, LOOK_DEVICE_BYTES, "Pinned memory of the host");
    else if (t->type == SNAPSHOT_CPU)
        snprintf(out, LOOK_DEVICE_BYTES, "Memory of the CPU");
    else if (t->device < 0)
        snprintf(out, LOOK_DEVICE_BYTES, "The device");
    else if (type && strcmp(type, "cuda") != 0)
        snprintf(out, LOOK_DEVICE_BYTES, "Device %s:%d", type, t->device);
    else
        snprintf(out, LOOK_DEVICE_BYTES, "Device %d", t->device);
    return out;
}
