/* The answer for programs: docs/estimate.md has the keys. */
#include "cli/estimate/estimate.h"
#include "io/json.h"

static void put_bytes(json_writer *w, const char *key, const interval *b) {
    json_begin_object(w, key);
    json_put_unsigned(w, "low", b->low);
    json_put_unsigned(w, "likely", b->likely);
    json_put_unsigned(w, "high", b->high);
    json_end_object(w);
}

static void put_layers(json_writer *w, const estimate_question *e) {
    const framework_result *r = &e->result;
    put_bytes(w, "live_bytes", &r->layers[FRAMEWORK_LIVE]);
    put_bytes(w, "reserved_bytes", &r->layers[FRAMEWORK_RESERVED]);
    if (!e->hardware.memory) return;
    put_bytes(w, "device_bytes", &r->layers[FRAMEWORK_DEVICE]);
    json_put_string(w, "device", e->hardware.name);
    json_put_unsigned(w, "reported_bytes", e->hardware.memory + e->hardware.leaves);
    if (e->hardware.leaves) json_put_unsigned(w, "machine_bytes", e->hardware.leaves);
}

static void put_terms(json_writer *w, const framework_result *r) {
    json_begin_object(w, "by_term");
    for (const framework_term *k = r->terms; k < r->terms + r->term_count; k++)
        json_put_unsigned(w, k->name, k->bytes);
    json_end_object(w);
    json_put_string(w, "largest_term", framework_largest(r)->name);
    if (r->peak_in) json_put_string(w, "peak_in", r->peak_in);
}

static void put_facts(json_writer *w, const framework_result *r) {
    for (const framework_fact *f = r->facts; f < r->facts + r->fact_count; f++) {
        json_begin_object(w, f->key);
        json_put_number(w, "low", f->low);
        json_put_number(w, "likely", f->likely);
        json_put_number(w, "high", f->high);
        json_end_object(w);
    }
    if (!r->unknown_count) return;
    json_begin_array(w, "unknown");
    for (uint32_t i = 0; i < r->unknown_count; i++) json_put_string(w, NULL, r->unknown[i]);
    json_end_array(w);
}

void estimate_put_json(text *t, const estimate_question *e, const framework_advice *a) {
    const framework_result *r = &e->result;
    json_writer w = { .out = t, .lines = true };
    json_begin_object(&w, NULL);
    json_put_string(&w, "model", e->model.name);
    json_put_string(&w, "framework", e->framework->name);
    json_put_unsigned(&w, "parameters", r->parameters);
    json_put_unsigned(&w, "trained", r->trained);
    json_put_bool(&w, "fits", r->fits);
    if (e->hardware.memory)
        json_put_string(&w, "answer", r->surely ? "fits" : r->fits ? "may fit" : "does not fit");
    put_layers(&w, e);
    put_terms(&w, r);
    put_facts(&w, r);
    uint64_t memory = e->o->estimate.node_memory;
    if (memory && r->host.high) {
        json_put_unsigned(&w, "node_bytes", memory);
        json_put_string(&w, "host_answer",
                        r->host.high <= memory     ? "fits"
                        : r->host.likely <= memory ? "may fit"
                                                   : "does not fit");
    }
    if (a->text[0]) {
        json_put_string(&w, "change", a->text);
        json_put_bool(&w, "changes_training", a->alters);
        json_put_unsigned(&w, "changed_device_bytes", a->result.layers[FRAMEWORK_DEVICE].likely);
    }
    json_end_object(&w);
    text_add(t, "\n");
}
