#define _GNU_SOURCE /* strcasestr */
#include "export/export.h"

#include <stdio.h>
#include <string.h>
#include <sys/statvfs.h>
#include <unistd.h>

#include "base/memory.h"
#include "base/units.h"
#include "base/utf8.h"
#include "device/device.h"
#include "export/architecture.h"
#include "export/vocabulary.h"
#include "export/weights.h"
#include "io/file.h"
#include "io/model_config.h"
#include "io/quantized_files.h"
#include "io/trained_context.h"
#include "io/weight_files.h"

enum { PATH_BYTES = 4096, NAME_BYTES = 128, QUANTIZATION_VERSION = 2 };

typedef struct {
    const export_options *options;
    export_result *result;
    model_config config;
    const architecture *architecture;
    export_vocabulary *vocabulary;
    export_weights *weights;
    gguf_content content;
    char name[NAME_BYTES];
} exporting;

/* ---- before anything is done ---- */

static status check_source(const export_options *o) {
    const pass *stored;
    pass_setting s;
    TRY(quantized_files_read(o->directory, &stored, &s));
    if (!stored) return STATUS_OK;
    return status_set(STATUS_INVALID, "%s is quantized already (%s); export the model that it was made from",
                      o->directory, s.text);
}

static status check_target(const export_options *o) {
    if (access(o->out, F_OK) == 0)
        return status_set(STATUS_INVALID, "--out %s is there already; name another file, or remove it",
                          o->out);
    return io_check_file(o->out);
}

static status check_disk(const char *out, uint64_t bytes) {
    char folder[PATH_BYTES], is[UNITS_TEXT_BYTES], need[UNITS_TEXT_BYTES];
    struct statvfs disk;
    const char *slash = strrchr(out, '/');
    int length = slash ? (int)(slash - out) + 1 : 1;
    if (snprintf(folder, sizeof folder, "%.*s", length, slash ? out : ".") >= PATH_BYTES)
        return status_set(STATUS_INVALID, "the path '%.60s...' is too long", out);
    if (statvfs(folder, &disk) != 0 || !disk.f_blocks) return STATUS_OK; /* writing says what is wrong */
    uint64_t left = (uint64_t)disk.f_bavail * disk.f_frsize;
    if (bytes <= left) return STATUS_OK;
    return status_set(
        STATUS_NO_FIT,
        "the disk of %s has %s left, and the file takes %s (%llu bytes); free some space, or choose "
        "another --out",
        out, units_bytes_text(left, is), units_bytes_text(bytes, need), (unsigned long long)bytes);
}

static status check_memory(exporting *e) {
    const export_options *o = e->options;
    device_runtime own = device_runtime_reserve(1);
    uint64_t listed, budget;
    TRY(setup_budget(&o->run, &budget));
    TRY(weight_files_held(o->directory, &listed));
    uint64_t needed = own.code + own.threads + own.tables + listed + export_weights_held(e->weights) +
                      export_vocabulary_held(e->vocabulary) + gguf_held(e->content.count);
    e->result->planned_bytes = needed;
    if (needed <= budget) return STATUS_OK;
    char have[UNITS_TEXT_BYTES], want[UNITS_TEXT_BYTES];
    return status_set(STATUS_NO_FIT, "writing %s as GGUF does not fit %s: it needs %s (%llu bytes)",
                      o->directory, units_bytes_text(budget, have), units_bytes_text(needed, want),
                      (unsigned long long)needed);
}

/* ---- the file ---- */

/* As llama.cpp numbers kinds of files. */
static uint32_t file_type(gguf_write_type t) {
    return t == GGUF_WRITE_F32 ? 0 : t == GGUF_WRITE_F16 ? 1 : t == GGUF_WRITE_Q8_0 ? 7 : 32;
}

static status put_metadata(void *context, gguf_writer *w) {
    exporting *e = context;
    gguf_put_string(w, "general.architecture", architecture_name(e->architecture));
    gguf_put_string(w, "general.type", "model");
    if (*e->name) gguf_put_string(w, "general.name", e->name);
    gguf_put_u32(w, "general.file_type", file_type(e->options->type));
    if (e->options->type == GGUF_WRITE_Q8_0)
        gguf_put_u32(w, "general.quantization_version", QUANTIZATION_VERSION);
    architecture_put(e->architecture, &e->config, w);
    return export_vocabulary_put(e->vocabulary, w);
}

static status pass_on(void *context, uint64_t bytes, uint64_t all) {
    const export_options *o = ((exporting *)context)->options;
    return o->written(o->context, bytes, all);
}

/* llama.cpp looks up four tokens in models that are called so, and fails where there are none. */
static bool may_be_called(const export_vocabulary *v, const char *name) {
    static const char *const tokens[] = { "</s>", "<unk>", "<s>", "<|endoftext|>" };
    if (!strcasestr(name, "phi-3") && !strcasestr(name, "phi3")) return true;
    for (size_t i = 0; i < sizeof tokens / sizeof *tokens; i++)
        if (!export_vocabulary_has(v, tokens[i])) return false;
    return true;
}

/* The folder's own name, where it is text; the file has none else. */
static void name_model(exporting *e) {
    const char *from = e->options->directory;
    size_t end = strlen(from), length;
    while (end && from[end - 1] == '/') end--;
    size_t begin = end;
    while (begin && from[begin - 1] != '/') begin--;
    if (end - begin >= NAME_BYTES || from[begin] == '.') return;
    for (size_t at = begin; at < end; at += length)
        if (!(length = utf8_length(from + at, end - at))) return;
    memcpy(e->name, from + begin, end - begin);
    if (!may_be_called(e->vocabulary, e->name)) *e->name = 0;
}

/* Positions that no sample reached are numbers that nothing has trained. */
static status note_context(exporting *e) {
    int64_t trained;
    TRY(trained_context(e->options->directory, &trained));
    if (!trained || trained >= families_context(&e->config) || !families_learns_positions(&e->config))
        return STATUS_OK;
    text_add(&e->result->notes,
             "the model was trained on samples of %lld tokens, and knows no positions behind "
             "them: run it with a context of that (llama-cli -c %lld)\n",
             (long long)trained, (long long)trained);
    return STATUS_OK;
}

static status open_all(exporting *e) {
    const export_options *o = e->options;
    export_result *r = e->result;
    model m;
    TRY(model_config_read(o->directory, &e->config, NULL));
    TRY(check_source(o));
    TRY(check_target(o));
    TRY(architecture_find(o->directory, &e->config, &e->architecture, &r->notes));
    families_model(&e->config, o->directory, &m);
    TRY(model_computes(&m));
    TRY(export_vocabulary_open(o->directory, &e->config, &e->vocabulary, &r->notes));
    TRY(export_weights_open(o->directory, e->architecture, &e->config, o->type, &e->weights));
    TRY(note_context(e));
    name_model(e);
    e->content =
        (gguf_content){ .metadata = put_metadata, .context = e, .written = o->written ? pass_on : NULL };
    e->content.tensors = export_weights_tensors(e->weights, &e->content.count);
    return STATUS_OK;
}

static status export_all(exporting *e) {
    export_result *r = e->result;
    TRY(open_all(e));
    r->tensors = e->content.count;
    r->odd = export_weights_odd(e->weights);
    r->read = export_weights_read(e->weights);
    snprintf(r->architecture, sizeof r->architecture, "%s", architecture_name(e->architecture));
    snprintf(r->vocabulary, sizeof r->vocabulary, "%s", export_vocabulary_name(e->vocabulary));
    TRY(check_memory(e));
    TRY(gguf_file_bytes(e->options->out, &e->content, &r->bytes));
    TRY(check_disk(e->options->out, r->bytes));
    return gguf_write(e->options->out, &e->content);
}

status export_run(const export_options *o, export_result *r) {
    *r = (export_result){ 0 };
    exporting *e = memory_new(1, sizeof *e); /* large for a stack */
    if (!e) return status_set(STATUS_FAILED, "no memory to export a model");
    e->options = o, e->result = r;
    status result = export_all(e);
    r->resident_peak_bytes = device_resident_peak();
    if (result == STATUS_OK && r->notes.failed) result = status_set(STATUS_FAILED, "no memory for notes");
    export_weights_close(e->weights);
    export_vocabulary_close(e->vocabulary);
    memory_free(e);
    return result;
}

void export_result_close(export_result *r) { text_close(&r->notes); }
