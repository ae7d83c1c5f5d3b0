#include "report/compare.h"

#include <stdio.h>
#include <string.h>

#include "run/unconfirmed.h"

const char *compare_label(const compare_row *row, int columns, char label[COMPARE_LABEL_BYTES]) {
    int length =
        snprintf(label, COMPARE_LABEL_BYTES, "%s%s%s", row->name, row->setting[0] ? " " : "", row->setting);
    if (length > columns && columns > 2 && columns < COMPARE_LABEL_BYTES) strcpy(label + columns - 2, "..");
    return label;
}

const char *compare_group_title(compare_group g) {
    static const char *const titles[] = {
        [COMPARE_PLAIN] = "",
        [COMPARE_ALONE] = "One technique alone",
        [COMPARE_LOSSLESS] = "Together, one after the other, leanest",
        [COMPARE_ALLOWED] = "With what is allowed to change numerics",
        [COMPARE_ASKED] = "As asked for",
    };
    return titles[g];
}

const char *compare_group_name(compare_group g) {
    static const char *const names[] = { [COMPARE_PLAIN] = "plain",
                                         [COMPARE_ALONE] = "alone",
                                         [COMPARE_LOSSLESS] = "lossless",
                                         [COMPARE_ALLOWED] = "allowed",
                                         [COMPARE_ASKED] = "asked" };
    return names[g];
}

const char *compare_results(const compare_row *row) {
    const compare_other *other = &row->other;
    if (other->optimizer) return "another optimizer";
    if (other->eval_only) return "validation alone";
    return other->batch || other->context ? "another run" : pass_class_name(row->class);
}

static double percent(double part, double whole) { return whole > 0 ? 100 * (part / whole - 1) : 0; }

double compare_bytes_percent(const compare_table *t, const compare_row *row) {
    const search_point *plain = &t->rows[0].point;
    if (!plain->peak_bytes || !row->point.peak_bytes) return 0;
    return percent((double)row->point.peak_bytes, (double)plain->peak_bytes);
}

double compare_seconds_percent(const compare_table *t, const compare_row *row) {
    const search_point *plain = &t->rows[0].point;
    if (!plain->peak_bytes || !row->point.peak_bytes || row->other.eval_only) return 0;
    return percent(row->point.seconds, plain->seconds);
}

/* Of the row before it in its group, and of the first one of a group the last of the group before. */
static bool adds_nothing(const compare_table *t, uint32_t i) {
    const compare_row *row = &t->rows[i], *before = NULL;
    if (row->group != COMPARE_LOSSLESS && row->group != COMPARE_ALLOWED) return false;
    for (uint32_t k = i; k-- > 0 && !before;)
        if (t->rows[k].group != COMPARE_ALONE && t->rows[k].point.peak_bytes) before = &t->rows[k];
    return before && before->group == row->group && before->point.peak_bytes == row->point.peak_bytes;
}

const char *compare_note(const compare_table *t, uint32_t i) {
    const double nothing = 0.05;
    const compare_row *row = &t->rows[i];
    if (!row->point.peak_bytes) return row->why;
    if (i == 0) return "";
    double change = compare_bytes_percent(t, row);
    if (change > nothing) return "costs memory";
    if (change > -nothing) return "saves nothing";
    if (row->why[0]) return row->why;
    return adds_nothing(t, i) && !row->ends ? "adds nothing" : "";
}

uint32_t compare_unconfirmed(const compare_table *t) {
    uint32_t kinds = 0;
    for (uint32_t i = 0; i < t->count; i++) kinds |= t->rows[i].unconfirmed;
    return kinds;
}

const char *compare_unconfirmed_text(const report_comparison *c, char said[COMPARE_SAID_BYTES]) {
    const device *on = lower_device(&c->setup->request.run.lower);
    return unconfirmed_text(compare_unconfirmed(c->table), on->capability, said);
}
