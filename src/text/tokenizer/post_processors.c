/* What is put around the ids of a text. Only what concerns a text by itself is kept: pairs of texts have no
 * use yet, and spans are not trimmed. */
#include <string.h>

#include "text/tokenizer/tokenizer_internal.h"

static status no_id(opener *o, uint64_t id) {
    return id < TOKENIZER_NONE ? STATUS_OK : open_wrong(o, "an id of the post-processor is too large");
}

/* ---- TemplateProcessing ---- */

typedef struct {
    object specials;
    uint32_t before, after, sequences;
    bool store;
} template_walk;

/* The ids of a special token of the template. */
static status add_special(opener *o, part *p, template_walk *w, const char *name) {
    object token;
    uint64_t id;
    if (!open_go(o, &w->specials, name))
        return open_wrong(o, "the template's special token '%.60s' is missing", name);
    TRY(open_object(o, &token));
    if (!open_go(o, &token, "ids"))
        return open_wrong(o, "the template's special token '%.60s' has no 'ids'", name);
    TRY(json_reader_expect(&o->json, '['));
    for (bool more = !json_reader_take(&o->json, ']'); more;) {
        TRY(json_reader_whole(&o->json, &id));
        TRY(no_id(o, id));
        if (w->store && w->sequences == 0) p->before[w->before] = (uint32_t)id;
        if (w->store && w->sequences > 0) p->after[w->after] = (uint32_t)id;
        *(w->sequences ? &w->after : &w->before) += 1;
        TRY(json_reader_another(&o->json, ']', &more));
    }
    return STATUS_OK;
}

/* {"Sequence": {"id": "A", ...}} or {"SpecialToken": {"id": "[CLS]", ...}} */
static status add_piece(opener *o, part *p, template_walk *w) {
    object piece, inside;
    char name[JSON_READER_STRING];
    TRY(open_object(o, &piece));
    bool sequence = open_go(o, &piece, "Sequence");
    if (!sequence && !open_go(o, &piece, "SpecialToken"))
        return open_wrong(o, "a template's piece is not known");
    TRY(open_object(o, &inside));
    if (!open_go(o, &inside, "id")) return open_wrong(o, "a template's piece has no 'id'");
    TRY(json_reader_string(&o->json, name));
    if (sequence && strcmp(name, "A") != 0) return open_wrong(o, "a template of one text names a second one");
    if (sequence) w->sequences++;
    if (!sequence) TRY(add_special(o, p, w, name));
    json_reader_go(&o->json, piece.end);
    return STATUS_OK;
}

static status walk_template(opener *o, part *p, template_walk *w, uint64_t place) {
    w->before = w->after = w->sequences = 0;
    json_reader_go(&o->json, place);
    TRY(json_reader_expect(&o->json, '['));
    for (bool more = !json_reader_take(&o->json, ']'); more;) {
        TRY(add_piece(o, p, w));
        TRY(json_reader_another(&o->json, ']', &more));
    }
    return w->sequences == 1 ? STATUS_OK : open_wrong(o, "a template of one text names it not just once");
}

/* Walked through twice: counted, then kept. */
static status read_template(opener *o, part *p) {
    template_walk w = { 0 };
    uint64_t place = json_reader_place(&o->json);
    if (open_go(o, &o->current, "special_tokens")) TRY(open_object(o, &w.specials));
    TRY(walk_template(o, p, &w, place));
    p->before_count = w.before, p->after_count = w.after;
    p->before = open_take(o, w.before * sizeof *p->before);
    p->after = open_take(o, w.after * sizeof *p->after);
    w.store = !o->counting;
    return walk_template(o, p, &w, place);
}

/* ---- BertProcessing, RobertaProcessing ---- */

/* ["[CLS]", 101] */
static status read_pair(opener *o, uint32_t **ids, uint32_t *count) {
    uint64_t id;
    TRY(json_reader_expect(&o->json, '['));
    TRY(json_reader_skip_string(&o->json));
    TRY(json_reader_expect(&o->json, ','));
    TRY(json_reader_whole(&o->json, &id));
    TRY(no_id(o, id));
    *ids = open_take(o, sizeof **ids);
    if (*ids) **ids = (uint32_t)id;
    *count = 1;
    return json_reader_expect(&o->json, ']');
}

static status read_before(opener *o, part *p) { return read_pair(o, &p->before, &p->before_count); }
static status read_after(opener *o, part *p) { return read_pair(o, &p->after, &p->after_count); }

/* Another part that puts ids around would see the first one's as texts of their own. */
static status check_one(opener *o, part *p) {
    (void)p;
    if (o->around++ > 0) return open_wrong(o, "two post-processors that add tokens");
    return STATUS_OK;
}

static const part_field template_fields[] = {
    { .name = "single", .type = FIELD_SPECIAL, .required = true, .read = read_template }, { 0 }
};
static const part_field pair_fields[] = {
    { .name = "cls", .type = FIELD_SPECIAL, .required = true, .read = read_before },
    { .name = "sep", .type = FIELD_SPECIAL, .required = true, .read = read_after },
    { 0 }
};

static const part_kind kinds[] = {
    { .name = "TemplateProcessing", .fields = template_fields, .check = check_one },
    { .name = "BertProcessing", .fields = pair_fields, .check = check_one },
    { .name = "RobertaProcessing", .fields = pair_fields, .check = check_one },
    { .name = "ByteLevel" }, /* trims offsets, and nothing else */
};
const part_kind *const post_processor_kinds[] = { &kinds[0], &kinds[1], &kinds[2], &kinds[3], NULL };
