/* What is put around the ids of a text, or of two. Spans are not trimmed. */
#include <string.h>

#include "text/tokenizer/tokenizer_internal.h"

static status no_id(opener *o, uint64_t id) {
    return id < TOKENIZER_NONE ? STATUS_OK : open_wrong(o, "an id of the post-processor is too large");
}

/* ---- TemplateProcessing ---- */

/* Ids in three runs: before the first text, behind it, and behind the second one where there is one. */
typedef struct {
    object specials;
    uint32_t counts[3], texts;
    uint32_t *ids[3], *types[3]; /* where they go; NULL: they are counted. No types: they are not kept */
    uint32_t text_types[2];
    bool pair, odd; /* odd: the texts do not come once each, the first one first */
} template_walk;

static void keep_id(template_walk *w, uint32_t id, uint32_t type) {
    uint32_t run = w->texts < 2 ? w->texts : 2, at = w->counts[run]++;
    if (w->ids[run]) w->ids[run][at] = id;
    if (w->types[run]) w->types[run][at] = type;
}

/* The ids of a special token of the template. */
static status add_special(opener *o, template_walk *w, const char *name, uint32_t type) {
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
        keep_id(w, (uint32_t)id, type);
        TRY(json_reader_another(&o->json, ']', &more));
    }
    return STATUS_OK;
}

static status add_text(opener *o, template_walk *w, const char *name, uint32_t type) {
    if (!w->pair && strcmp(name, "A") != 0) return open_wrong(o, "a template of one text names a second one");
    if (w->texts == 2 || strcmp(name, w->texts ? "B" : "A") != 0)
        w->odd = true;
    else
        w->text_types[w->texts] = type;
    w->texts++;
    return STATUS_OK;
}

/* {"Sequence": {"id": "A", "type_id": 0}} or {"SpecialToken": {"id": "[CLS]", "type_id": 0}} */
static status add_piece(opener *o, template_walk *w) {
    object piece, inside;
    char name[JSON_READER_STRING];
    uint64_t type = 0;
    TRY(open_object(o, &piece));
    bool sequence = open_go(o, &piece, "Sequence");
    if (!sequence && !open_go(o, &piece, "SpecialToken"))
        return open_wrong(o, "a template's piece is not known");
    TRY(open_object(o, &inside));
    if (open_go(o, &inside, "type_id")) TRY(json_reader_whole(&o->json, &type));
    if (type > UINT32_MAX) return open_wrong(o, "a type of a template's piece is too large");
    if (!open_go(o, &inside, "id")) return open_wrong(o, "a template's piece has no 'id'");
    TRY(json_reader_string(&o->json, name));
    TRY(sequence ? add_text(o, w, name, (uint32_t)type) : add_special(o, w, name, (uint32_t)type));
    json_reader_go(&o->json, piece.end);
    return STATUS_OK;
}

static status walk_template(opener *o, template_walk *w, uint64_t place) {
    w->texts = w->counts[0] = w->counts[1] = w->counts[2] = 0;
    json_reader_go(&o->json, place);
    TRY(json_reader_expect(&o->json, '['));
    for (bool more = !json_reader_take(&o->json, ']'); more;) {
        TRY(add_piece(o, w));
        TRY(json_reader_another(&o->json, ']', &more));
    }
    w->odd = w->odd || w->texts != 1u + w->pair;
    return w->texts == 1 || w->pair ? STATUS_OK
                                    : open_wrong(o, "a template of one text names it not just once");
}

/* Walked through twice: counted, then kept. */
static status read_template(opener *o, part *p) {
    template_walk w = { 0 };
    uint64_t place = json_reader_place(&o->json);
    if (open_go(o, &o->current, "special_tokens")) TRY(open_object(o, &w.specials));
    TRY(walk_template(o, &w, place));
    p->before_count = w.counts[0], p->after_count = w.counts[1];
    w.ids[0] = p->before = open_take(o, w.counts[0] * sizeof *p->before);
    w.ids[1] = p->after = open_take(o, w.counts[1] * sizeof *p->after);
    return walk_template(o, &w, place);
}

/* Room for the ids of a pair and their types, by its counts. */
static void take_pair(opener *o, part *p) {
    uint32_t all = p->pair_counts[0] + p->pair_counts[1] + p->pair_counts[2];
    p->pair = open_take(o, 2ull * all * sizeof *p->pair);
    p->adds_pair = true;
}

static status read_template_of_pairs(opener *o, part *p) {
    template_walk w = { .pair = true };
    uint64_t place = json_reader_place(&o->json);
    if (open_go(o, &o->current, "special_tokens")) TRY(open_object(o, &w.specials));
    TRY(walk_template(o, &w, place));
    p->odd_pair = w.odd;
    if (w.odd) return STATUS_OK;
    memcpy(p->pair_counts, w.counts, sizeof w.counts);
    memcpy(p->pair_types, w.text_types, sizeof w.text_types);
    take_pair(o, p);
    uint32_t all = w.counts[0] + w.counts[1] + w.counts[2];
    for (uint32_t k = 0, at = 0; k < 3 && p->pair; at += p->pair_counts[k++])
        w.ids[k] = p->pair + at, w.types[k] = p->pair + all + at;
    return walk_template(o, &w, place);
}

/* ---- BertProcessing, RobertaProcessing ---- */

/* ["[CLS]", 101] */
static status read_token(opener *o, uint32_t **ids, uint32_t *count) {
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

static status read_before(opener *o, part *p) { return read_token(o, &p->before, &p->before_count); }
static status read_after(opener *o, part *p) { return read_token(o, &p->after, &p->after_count); }

/* Another part that puts ids around would see the first one's as texts of their own. */
static status check_one(opener *o, part *p) {
    (void)p;
    if (o->around++ > 0) return open_wrong(o, "two post-processors that add tokens");
    return STATUS_OK;
}

/* cls A sep B sep */
static status check_bert(opener *o, part *p) {
    p->pair_counts[0] = p->pair_counts[1] = p->pair_counts[2] = 1;
    p->pair_types[1] = 1;
    take_pair(o, p);
    if (p->pair)
        memcpy(p->pair, (uint32_t[]){ *p->before, *p->after, *p->after, 0, 0, 1 }, 6 * sizeof *p->pair);
    return check_one(o, p);
}

/* cls A sep sep B sep, all of one type */
static status check_roberta(opener *o, part *p) {
    p->pair_counts[0] = p->pair_counts[2] = 1, p->pair_counts[1] = 2;
    take_pair(o, p);
    if (p->pair)
        memcpy(p->pair, (uint32_t[]){ *p->before, *p->after, *p->after, *p->after, 0, 0, 0, 0 },
               8 * sizeof *p->pair);
    return check_one(o, p);
}

static const part_field template_fields[] = {
    { .name = "single", .type = FIELD_SPECIAL, .required = true, .read = read_template },
    { .name = "pair", .type = FIELD_SPECIAL, .read = read_template_of_pairs },
    { 0 }
};
static const part_field token_fields[] = {
    { .name = "cls", .type = FIELD_SPECIAL, .required = true, .read = read_before },
    { .name = "sep", .type = FIELD_SPECIAL, .required = true, .read = read_after },
    { 0 }
};

static const part_kind kinds[] = {
    { .name = "TemplateProcessing", .fields = template_fields, .check = check_one },
    { .name = "BertProcessing", .fields = token_fields, .check = check_bert },
    { .name = "RobertaProcessing", .fields = token_fields, .check = check_roberta },
    { .name = "ByteLevel" }, /* trims offsets, and nothing else */
};
const part_kind *const post_processor_kinds[] = { &kinds[0], &kinds[1], &kinds[2], &kinds[3], NULL };
