#include "train/trainer_state.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/digest.h"
#include "base/memory.h"
#include "io/file.h"
#include "io/json.h"

static const char *const kinds[IDENTITY_KINDS] = {
    [IDENTITY_OPTION] = "options", [IDENTITY_MODEL] = "model", [IDENTITY_DATA] = "data"
};
const char trainer_state_optimizer[] = "optimizer";

const char *trainer_state_weights(const trainer_state *t) {
    return t->run.base.bytes ? "adapter_model" : "model";
}

/* The key of a sum; early versions wrote a digest (base/digest.h) under the other one. */
static const char SUM[] = "xxh64", EARLY[] = "digest";
enum { TRAINER_STATE_LIMIT = 1 << 20 };

/* ---- writing ---- */

static void put_facts(json_writer *w, const identity *run, identity_kind kind) {
    json_begin_object(w, kinds[kind]);
    for (uint32_t i = 0; i < run->count; i++) {
        const identity_fact *f = &run->facts[i];
        if (f->kind != kind) continue;
        if (f->text[0])
            json_put_string(w, f->name, f->text);
        else
            json_put_number(w, f->name, f->number);
    }
    json_end_object(w);
}

static void put_plan(json_writer *w, const trainer_state *t) {
    json_begin_object(w, "plan");
    json_put_integer(w, "micro_batch", t->micro_batch);
    json_begin_array(w, "passes");
    for (int i = 0; pass_table[i]; i++) {
        if (!t->passes[i].setting[0]) continue;
        json_begin_object(w, NULL);
        json_put_string(w, "name", pass_table[i]->name);
        json_put_string(w, "setting", t->passes[i].setting);
        json_put_string(w, "class", pass_class_name(t->passes[i].class));
        json_end_object(w);
    }
    json_end_array(w);
    if (t->products[0]) json_put_string(w, "products", t->products);
    json_end_object(w);
}

static void put_sum(json_writer *w, const char *name, const io_sum *sum) {
    char digits[DIGEST_TEXT_BYTES];
    json_begin_object(w, name);
    json_put_unsigned(w, "bytes", sum->bytes);
    json_put_string(w, sum->early ? EARLY : SUM, digest_text_of(sum->sum, digits));
    json_end_object(w);
}

static void put_kind(json_writer *w, const char *stem, const trainer_files *f) {
    char name[SHARDS_NAME_BYTES];
    int files = trainer_files_count(f);
    for (int k = 0; k < files; k++) put_sum(w, shards_name(stem, k, files, name), &f->sums[k]);
    if (files > 1) put_sum(w, shards_all(stem, files, name), &f->index);
}

static void put_files(json_writer *w, const trainer_state *t) {
    if (t->run.base.bytes) put_sum(w, "base", &t->run.base);
    json_begin_object(w, "files");
    put_kind(w, trainer_state_weights(t), &t->model);
    put_kind(w, trainer_state_optimizer, &t->optimizer);
    json_end_object(w);
}

/* The last place in the text where the key stands; NULL: nowhere. */
static char *find_last(char *data, const char *name) {
    char key[16], *last = NULL;
    snprintf(key, sizeof key, "\"%s\":", name);
    for (char *at = data; (at = strstr(at, key)); at++) last = at;
    return last;
}

static uint64_t sum_of(const char *data, const char *end, bool early) {
    digest d = digest_begin();
    checksum c = checksum_begin();
    digest_add(&d, data, (uint64_t)(end - data));
    checksum_add(&c, data, (uint64_t)(end - data));
    return early ? digest_value(&d) : checksum_value(&c);
}

/* The sum stands last and is of all that is before its key. */
static void put_own_sum(json_writer *w, text *out) {
    char digits[DIGEST_TEXT_BYTES];
    json_put_string(w, SUM, "0000000000000000");
    json_end_object(w);
    if (out->failed) return;
    char *key = find_last(out->data, SUM);
    memcpy(strchr(key + sizeof SUM + 2, '"') + 1, digest_text_of(sum_of(out->data, key, false), digits), 16);
}

status trainer_state_write(const char *path, const trainer_state *t) {
    text out = { 0 };
    json_writer w = { .out = &out, .lines = true };
    json_begin_object(&w, NULL);
    bool several = trainer_files_count(&t->model) > 1 || trainer_files_count(&t->optimizer) > 1;
    json_put_integer(&w, "format", several ? TRAINER_STATE_FORMAT : 1);
    json_put_integer(&w, "step", t->step);
    json_put_unsigned(&w, "samples", t->samples);
    for (int k = 0; k < IDENTITY_KINDS; k++) put_facts(&w, &t->run, (identity_kind)k);
    put_plan(&w, t);
    put_files(&w, t);
    put_own_sum(&w, &out);
    text_add(&out, "\n");
    status result = out.failed ? status_set(STATUS_FAILED, "%s: no memory to write it", path)
                               : io_write_file(path, out.data, out.length);
    text_close(&out);
    return result;
}

/* ---- reading ---- */

/* Does the text go on, after a key, as put_own_sum ends one: with 16 digits, and nothing that they are not
 * of? */
static bool ends_with_sum(const char *after_key, char digits[DIGEST_TEXT_BYTES]) {
    int end = 0;
    return sscanf(after_key, " \"%16[0-9a-f]\" } %n", digits, &end) == 1 && end && strlen(digits) == 16 &&
           !after_key[end];
}

static bool own_sum_is_right(char *data, bool early) {
    const char *name = early ? EARLY : SUM, *key = find_last(data, name);
    char said[DIGEST_TEXT_BYTES], is[DIGEST_TEXT_BYTES];
    return key && ends_with_sum(key + strlen(name) + 3, said) &&
           strcmp(said, digest_text_of(sum_of(data, key, early), is)) == 0;
}

/* Of every byte before its key; and behind it nothing but its value stands. So what is read is what was
 * written. */
static status check_own_sum(const char *path, char *data) {
    if (own_sum_is_right(data, false) || own_sum_is_right(data, true)) return STATUS_OK;
    return status_set(STATUS_INVALID,
                      "%s is damaged or was edited: its checksum is not the one that stands in it", path);
}

/* Keys in the text of a document that was parsed. */
static uint64_t keys_written(const char *at) {
    uint64_t count = 0;
    for (bool inside = false; *at; at++) {
        if (inside && *at == '\\')
            at++;
        else if (*at == '"' && (inside = !inside) == false)
            count += at[1 + strspn(at + 1, " \t\r\n")] == ':';
    }
    return count;
}

/* Keys in what came of it: of one that is there twice the parser keeps the last. */
static uint64_t keys_read(json_value v) {
    uint64_t count = 0;
    size_t items;
    json_value member;
    if (json_as_object(v) == STATUS_OK)
        for (void *cursor = NULL; json_next(v, &cursor, &member);) count += 1 + keys_read(member);
    else if (json_as_array(v, &items) == STATUS_OK)
        for (size_t i = 0; i < items; i++) count += keys_read(json_item(v, i));
    return count;
}

static status check_keys(const char *path, const char *data, json_value root) {
    if (keys_written(data) == keys_read(root)) return STATUS_OK;
    return status_set(STATUS_INVALID, "%s has a key twice, which no snug writes", path);
}

static status read_facts(json_value root, identity_kind kind, identity *run) {
    json_value object, member;
    TRY(json_get(root, kinds[kind], &object));
    TRY(json_as_object(object));
    for (void *cursor = NULL; json_next(object, &cursor, &member);) {
        const char *words = "";
        double number = 0;
        if (json_as_number(member, -1e300, 1e300, &number) != STATUS_OK) TRY(json_as_string(member, &words));
        if (strlen(member.key) >= sizeof run->facts->name || strlen(words) >= sizeof run->facts->text ||
            run->count == IDENTITY_FACTS)
            return json_wrong(member, "is longer than anything that snug writes there, or one too many");
        identity_add(run, kind, member.key, number, words);
    }
    return STATUS_OK;
}

static status read_pass(json_value item, trainer_state *t) {
    const char *name, *setting, *class;
    TRY(json_get_string(item, "name", &name));
    TRY(json_get_string(item, "setting", &setting));
    TRY(json_get_string(item, "class", &class));
    int found = -1, c = 0;
    for (int i = 0; pass_table[i]; i++)
        if (strcmp(pass_table[i]->name, name) == 0) found = i;
    while (c <= PASS_LOSSY && strcmp(pass_class_name((pass_class)c), class) != 0) c++;
    if (found < 0 || c > PASS_LOSSY || strlen(setting) >= sizeof t->passes[0].setting)
        return json_wrong(item, "is no technique of this snug (%.40s %.40s)", name, setting);
    snprintf(t->passes[found].setting, sizeof t->passes[found].setting, "%s", setting);
    t->passes[found].class = (pass_class)c;
    return STATUS_OK;
}

static status read_products(json_value object, trainer_state *t) {
    const char *kind;
    json_value value;
    TRY(json_get_string(object, "products", &kind));
    TRY(json_get(object, "products", &value));
    if (strlen(kind) >= sizeof t->products)
        return json_wrong(value, "is no way to multiply that this snug knows (%.40s)", kind);
    snprintf(t->products, sizeof t->products, "%s", kind);
    return STATUS_OK;
}

static status read_plan(json_value root, trainer_state *t) {
    json_value object, list;
    size_t count;
    TRY(json_get(root, "plan", &object));
    TRY(json_get_integer(object, "micro_batch", 1, 1 << 30, &t->micro_batch));
    TRY(json_get(object, "passes", &list));
    TRY(json_as_array(list, &count));
    for (size_t i = 0; i < count; i++) TRY(read_pass(json_item(list, i), t));
    return json_has(object, "products") ? read_products(object, t) : STATUS_OK;
}

static status read_sum(json_value object, const char *name, io_sum *sum) {
    json_value file, value;
    const char *digits;
    int64_t bytes;
    TRY(json_get(object, name, &file));
    TRY(json_get_integer(file, "bytes", 0, INT64_MAX, &bytes));
    bool early = json_has(file, EARLY);
    TRY(json_get(file, early ? EARLY : SUM, &value));
    TRY(json_as_string(value, &digits));
    if (strlen(digits) != 16 || strspn(digits, "0123456789abcdef") != 16)
        return json_wrong(value, "is no checksum of 16 digits");
    *sum = (io_sum){ .bytes = (uint64_t)bytes, .sum = strtoull(digits, NULL, 16), .early = early };
    return STATUS_OK;
}

/* The name of the first of several says how many there are. */
static status read_kind(json_value object, const char *stem, trainer_files *f) {
    char name[SHARDS_NAME_BYTES];
    for (f->files = SHARDS_MOST; f->files > 1; f->files--)
        if (json_has(object, shards_name(stem, 0, f->files, name))) break;
    for (int k = 0; k < f->files; k++)
        TRY(read_sum(object, shards_name(stem, k, f->files, name), &f->sums[k]));
    return f->files > 1 ? read_sum(object, shards_all(stem, f->files, name), &f->index) : STATUS_OK;
}

static status read_files(json_value root, trainer_state *t) {
    json_value object;
    if (json_has(root, "base")) TRY(read_sum(root, "base", &t->run.base));
    TRY(json_get(root, "files", &object));
    TRY(read_kind(object, trainer_state_weights(t), &t->model));
    return read_kind(object, trainer_state_optimizer, &t->optimizer);
}

static status read_members(json_value root, trainer_state *t) {
    int64_t format, samples;
    json_value value;
    TRY(json_as_object(root));
    TRY(json_get_integer(root, "format", 1, INT32_MAX, &format));
    if (format > TRAINER_STATE_FORMAT) {
        TRY(json_get(root, "format", &value));
        return json_wrong(value, "is %" PRId64 "; this snug reads up to %d, a newer one wrote it", format,
                          TRAINER_STATE_FORMAT);
    }
    TRY(json_get_integer(root, "step", 1, (int64_t)1 << 40, &t->step));
    TRY(json_get_integer(root, "samples", 1, INT64_MAX, &samples));
    t->samples = (uint64_t)samples;
    for (int k = 0; k < IDENTITY_KINDS; k++) TRY(read_facts(root, (identity_kind)k, &t->run));
    TRY(read_plan(root, t));
    return read_files(root, t);
}

status trainer_state_read(const char *path, trainer_state *t) {
    char *data;
    uint64_t bytes;
    json_document d = { 0 };
    *t = (trainer_state){ 0 };
    TRY(io_read_file(path, TRAINER_STATE_LIMIT, &data, &bytes));
    status result = json_parse(path, data, bytes, &d);
    if (result == STATUS_OK) result = check_own_sum(path, data);
    if (result == STATUS_OK) result = check_keys(path, data, d.root);
    if (result == STATUS_OK) result = read_members(d.root, t);
    json_close(&d);
    memory_free(data);
    return result;
}
