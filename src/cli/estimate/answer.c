/* The answer in words. */
#include <stdio.h>

#include "base/units.h"
#include "cli/estimate/estimate.h"

static void add_layers(text *t, const framework_result *r) {
    char low[UNITS_TEXT_BYTES], likely[UNITS_TEXT_BYTES], high[UNITS_TEXT_BYTES];
    uint64_t largest = 0;
    for (int l = (int)r->least_layer; l <= (int)r->last_layer; l++)
        if (r->layers[l].high > largest) largest = r->layers[l].high;
    text_add(t, "\n  %-14s %12s   %s\n", "", "estimate", "interval");
    for (int l = (int)r->least_layer; l <= (int)r->last_layer; l++) {
        const interval *b = &r->layers[l];
        text_add(t, "  %-14s %12s   %s to %s\n", framework_layer_name((framework_layer)l),
                 units_column_text(b->likely, largest, likely), units_column_text(b->low, largest, low),
                 units_column_text(b->high, largest, high));
    }
}

static void add_terms(text *t, const framework_result *r) {
    char bytes[UNITS_TEXT_BYTES];
    uint64_t whole = r->layers[r->terms_of].likely ? r->layers[r->terms_of].likely : 1;
    static const char *const headings[FRAMEWORK_LAYERS] = { "Live", "Reserved", "Whole device" };
    const framework_term *largest = framework_largest(r);
    text_add(t, "\n%s", headings[r->terms_of]);
    if (r->peak_in) text_add(t, " at the peak, in %s", r->peak_in);
    text_add(t, "\n");
    for (const framework_term *k = r->terms; k < r->terms + r->term_count; k++)
        if (k->bytes)
            text_add(t, "  %-14s %12s  %5.1f %%%s\n", k->name,
                     units_column_text(k->bytes, largest->bytes, bytes),
                     100.0 * (double)k->bytes / (double)whole, k == largest ? "  the largest" : "");
}

static const char *fact_text(const framework_fact *f, double value, uint64_t largest,
                             char out[UNITS_TEXT_BYTES]) {
    if (f->unit == FRAMEWORK_BYTES) return units_column_text((uint64_t)value, largest, out);
    if (f->unit == FRAMEWORK_SECONDS) {
        snprintf(out, UNITS_TEXT_BYTES, "%.3g s", value);
        return out;
    }
    if (f->unit == FRAMEWORK_HOURS && value >= 100) return units_count_text((uint64_t)(value + 0.5), out);
    if (f->unit == FRAMEWORK_HOURS) {
        snprintf(out, UNITS_TEXT_BYTES, "%.*f", value < 1 ? 3 : value < 10 ? 2 : 1, value);
        return out;
    }
    snprintf(out, UNITS_TEXT_BYTES, f->unit == FRAMEWORK_TIMES ? "%.2f" : "%.0f", value);
    return out;
}

/* The facts of one heading have one unit. */
static void add_section(text *t, const framework_fact *from, const framework_fact *to) {
    char likely[UNITS_TEXT_BYTES], low[UNITS_TEXT_BYTES], high[UNITS_TEXT_BYTES];
    uint64_t largest = 0;
    for (const framework_fact *f = from; f < to; f++)
        if (f->unit == FRAMEWORK_BYTES && f->high > (double)largest) largest = (uint64_t)f->high;
    for (const framework_fact *f = from; f < to; f++) {
        text_add(t, "  %-30s %12s", f->label, fact_text(f, f->likely, largest, likely));
        if (f->high > f->low)
            text_add(t, "   %s to %s", fact_text(f, f->low, largest, low),
                     fact_text(f, f->high, largest, high));
        text_add(t, "\n");
    }
}

static void add_facts(text *t, const framework_result *r) {
    for (uint32_t i = 0, next; i < r->fact_count; i = next) {
        for (next = i + 1; next < r->fact_count && !r->under[next];) next++;
        text_add(t, "\n%s\n", r->under[i] ? r->under[i] : "What that holds");
        add_section(t, r->facts + i, r->facts + next);
    }
    for (uint32_t i = 0; i < r->unknown_count; i++)
        text_add(t, "%s  %s\n", i ? "" : "\nWithout a rule\n", r->unknown[i]);
}

const char *estimate_altered(const framework_advice *a) {
    return a->alters ? " (changes what is trained)" : "";
}

/* What else would do, beginning with `from`. */
static void add_other_ways(text *t, const estimate_question *e, const framework_settings *from,
                           const char *with) {
    char change[FRAMEWORK_CHANGE_BYTES];
    const framework *f = e->framework;
    framework_settings s = *from;
    if (framework_shorten(f, &e->subject, &s, change)) text_add(t, "With %s%s it would fit.\n", with, change);
    s = *from;
    if (framework_spread(f, &e->subject, &s, change)) text_add(t, "With %s%s it would fit.\n", with, change);
}

/* What stands in a sentence with the device's memory has its unit. */
static const char *in_its_unit(const hardware *h, uint64_t bytes, char out[UNITS_TEXT_BYTES]) {
    return units_column_text(bytes, h->memory + h->leaves, out);
}

static void add_nearest(text *t, const estimate_question *e) {
    framework_advice near;
    char missing[UNITS_TEXT_BYTES], with[sizeof near.text + 1];
    text_add(t, "Nothing that this command knows makes it fit.\n");
    if (framework_nearest(e->framework, &e->subject, &e->settings, &near) != STATUS_OK) return;
    if (near.text[0])
        text_add(t, "Nearest comes %s%s; %s are still missing.\n", near.text, estimate_altered(&near),
                 in_its_unit(&e->hardware, near.result.beyond, missing));
    snprintf(with, sizeof with, "%s%s", near.text, near.text[0] ? " " : "");
    add_other_ways(t, e, near.text[0] ? &near.settings : &e->settings, with);
}

/* What of the interval reaches furthest above the likely value. */
static const char *what_decides(const framework_result *r) {
    if (r->left) return "how much the process takes before the cache gets the rest";
    const interval *l = r->layers;
    uint64_t live = l[FRAMEWORK_LIVE].high - l[FRAMEWORK_LIVE].likely,
             reserved = l[FRAMEWORK_RESERVED].high - l[FRAMEWORK_RESERVED].likely,
             whole = l[FRAMEWORK_DEVICE].high - l[FRAMEWORK_DEVICE].likely;
    uint64_t allocator = reserved > live ? reserved - live : 0,
             beside = whole > reserved ? whole - reserved : 0;
    if (beside >= live && beside >= allocator)
        return "what libraries and the driver take beside the allocator (--overhead, --measured)";
    return allocator >= live ? "how pieces come to lie in the allocator"
                             : "the rules of versions of the libraries";
}

/* "NVIDIA GeForce RTX 4090, which reports 23.64 GiB"; what is only believed of it is said as such. */
static const char *device_text(const hardware *h, char out[256]) {
    char whole[UNITS_TEXT_BYTES], leaves[UNITS_TEXT_BYTES];
    int n = snprintf(out, 256, "%s, which %s %s", h->title,
                     h->memory_by_rule ? "by the rule of its family reports about" : "reports",
                     units_bytes_text(h->memory + h->leaves, whole));
    if (h->leaves)
        snprintf(out + n, 256 - (size_t)n, " of unified memory, of which %s are left to the machine",
                 units_column_text(h->leaves, h->memory + h->leaves, leaves));
    return out;
}

static void add_verdict(text *t, const estimate_question *e, const framework_advice *a) {
    const framework_result *r = &e->result;
    char has[256], more[UNITS_TEXT_BYTES], then[UNITS_TEXT_BYTES];
    device_text(&e->hardware, has);
    in_its_unit(&e->hardware, r->beyond, more);
    if (r->fits && !r->surely) {
        text_add(t,
                 "\nMay fit %s: likely %s %s, but the upper end of the interval does not fit. "
                 "What decides: %s.\n",
                 has, more, r->left ? r->left : "are left", what_decides(r));
        return;
    }
    if (r->fits) {
        text_add(t, "\nFits %s: %s %s.\n", has, more, r->left ? r->left : "are left");
        if (!r->spares)
            text_add(t, "A full device may have to give free segments back for that, which takes time.\n");
        return;
    }
    text_add(t, "\nDoes not fit %s: %s too much.\n", has, more);
    if (a->text[0])
        text_add(t, "The cheapest change that makes it fit: %s%s, then %s of the device.\n", a->text,
                 estimate_altered(a),
                 in_its_unit(&e->hardware, a->result.layers[FRAMEWORK_DEVICE].likely, then));
    else
        add_nearest(t, e);
}

/* Of a cluster's node, what the job asks for beside what it needs. */
static void add_node(text *t, const estimate_question *e) {
    uint64_t memory = e->o->estimate.node_memory;
    const interval *host = &e->result.host;
    char has[UNITS_TEXT_BYTES], needs[UNITS_TEXT_BYTES];
    if (!memory || !host->high) return;
    units_bytes_text(memory, has);
    bool fits = host->likely <= memory, surely = host->high <= memory,
         loads_once = e->o->estimate.shard == TORCH_FSDP && host->low <= memory;
    const char *once =
        loads_once ? " With fsdp one process may load for all: cpu_ram_efficient_loading." : "";
    units_column_text(fits && !surely ? host->high : host->likely, memory, needs);
    if (surely)
        text_add(t, "\nThe host's memory fits as well: the job has %s of a node.\n", has);
    else if (fits)
        text_add(t, "\nThe host's memory may be too little: the job has %s of a node, and needs up to %s.\n",
                 has, needs);
    else
        text_add(t, "\nThe host's memory is likely too little: the job has %s of a node, and needs %s.%s\n",
                 has, needs, once);
}

void estimate_say(text *t, const estimate_question *e, const framework_advice *a) {
    const framework_result *r = &e->result;
    char name[REPORT_NAME_BYTES];
    text_add(t, "%s in %s: ", report_name(e->model.name, name), e->framework->title);
    e->framework->describe(&e->subject, &e->settings, r, t);
    if (e->notes.length) text_add(t, "%s", e->notes.data);
    add_layers(t, r);
    add_terms(t, r);
    add_facts(t, r);
    add_node(t, e);
    if (e->hardware.memory) add_verdict(t, e, a);
}
