/* The comparison for programs: docs/json.md. */
#include "io/json.h"
#include "report/compare.h"
#include "run/unconfirmed.h"

static void put_planned(json_writer *w, const compare_row *row) {
    if (!row->point.peak_bytes) {
        json_put_null(w, "planned");
        return;
    }
    json_begin_object(w, "planned");
    json_put_unsigned(w, "peak_bytes", row->point.peak_bytes);
    json_put_number(w, "step_seconds", row->point.seconds);
    json_begin_object(w, "by_category");
    for (int c = 0; c < CATEGORY_COUNT; c++)
        json_put_unsigned(w, category_name((category)c), row->by_category[c]);
    json_end_object(w);
    json_put_integer(w, "micro_batch", row->point.choice.micro_batch);
    json_begin_array(w, "passes");
    for (int i = 0; pass_table[i]; i++) {
        const pass_setting *s = &row->point.choice.settings[i];
        if (!s->text[0]) continue;
        json_begin_object(w, NULL);
        json_put_string(w, "name", pass_table[i]->name);
        json_put_string(w, "setting", s->text);
        json_end_object(w);
    }
    json_end_array(w);
    json_end_object(w);
}

static void put_measured(json_writer *w, const compare_measured *m) {
    if (!m->done) {
        json_put_null(w, "measured");
        return;
    }
    json_begin_object(w, "measured");
    json_put_unsigned(w, "peak_bytes", m->peak_bytes);
    json_put_bool(w, "as_planned", m->planned);
    json_put_number(w, "step_seconds", m->step_seconds);
    json_put_integer(w, "steps", m->steps);
    json_put_number(w, "loss", m->loss);
    json_put_number(w, "eval_loss", m->validation);
    json_end_object(w);
}

static void put_row(json_writer *w, const compare_table *t, uint32_t i) {
    const compare_row *row = &t->rows[i];
    json_begin_object(w, NULL);
    json_put_string(w, "group", compare_group_name(row->group));
    json_put_string(w, "name", row->name);
    json_put_string(w, "setting", row->setting);
    json_put_string(w, "class", pass_class_name(row->class));
    json_put_string(w, "optimizer", optimizer_name(row->optimizer));
    json_put_bool(w, "whole_group", row->ends);
    put_planned(w, row);
    json_put_number(w, "peak_percent", compare_bytes_percent(t, row));
    json_put_number(w, "step_percent", compare_seconds_percent(t, row));
    json_put_string(w, "note", compare_note(t, i));
    put_measured(w, &row->measured);
    json_put_string(w, "not_measured", row->measured.why);
    json_end_object(w);
}

/* A path, or one after the other what is mixed. */
static void put_data(json_writer *w, const setup_options *o) {
    text all = { 0 };
    for (uint64_t i = 0; i < o->part_count; i++) {
        text_add(&all, "%s%s", i ? ", " : "", o->parts[i].path);
        if (o->parts[i].weight > 0) text_add(&all, ":%g", o->parts[i].weight);
    }
    json_put_string(w, "data", o->part_count && !all.failed ? all.data : o->data);
    text_close(&all);
}

void report_compare_json(text *out, const report_comparison *c) {
    json_writer w = { .out = out, .lines = true };
    const setup *s = c->setup;
    const compose_run *r = &s->request.run;
    json_begin_object(&w, NULL);
    json_put_string(&w, "model", s->model.name);
    json_put_integer(&w, "batch", r->batch);
    json_put_integer(&w, "context", r->context);
    json_put_string(&w, "optimizer", optimizer_name(r->optimizer.kind));
    json_put_string(&w, "device", lower_device(&r->lower)->name);
    json_put_integer(&w, "threads", r->lower.threads);
    json_put_string(&w, "rates", r->lower.rates.source);
    put_data(&w, &s->options);
    if (c->measured)
        json_put_integer(&w, "steps", s->options.steps);
    else
        json_put_null(&w, "steps");
    if (lower_device(&r->lower)->kind != DEVICE_CPU) unconfirmed_put(&w, compare_unconfirmed(c->table));
    json_begin_array(&w, "rows");
    for (uint32_t i = 0; i < c->table->count; i++) put_row(&w, c->table, i);
    json_end_array(&w);
    json_end_object(&w);
    text_add(out, "\n");
}
