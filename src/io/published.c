#include "io/published.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "io/json.h"
#include "io/model_config.h"

static bool read_config(const published_model *p, model_config *c) {
    return model_config_parse(p->name, p->text, c) == STATUS_OK;
}

double published_parameters(const published_model *p) {
    json_document d;
    double count = 0;
    if (json_parse(p->name, p->text, strlen(p->text), &d) != STATUS_OK) return 0;
    if (json_get_number(d.root, "parameters", 1, 1e15, &count) != STATUS_OK) count = 0;
    json_close(&d);
    return count;
}

/* A number and M, B or T; 0: it is none. */
static double size_of(const char *said) {
    char *end;
    double n = strtod(said, &end);
    double unit = *end == 'B' || *end == 'b'   ? 1e9
                  : *end == 'M' || *end == 'm' ? 1e6
                  : *end == 'T'                ? 1e12
                                               : 0;
    return end != said && unit > 0 && !end[1] && n > 0 && n < 1e6 ? n * unit : 0;
}

static bool is_dense_decoder(const model_config *c) {
    return c->family == FAMILY_DECODER && !c->decoder.experts.count;
}

static const published_model *find_size(double size) {
    const published_model *near = NULL;
    double best = INFINITY;
    model_config c;
    for (const published_model *p = published_models; p->name; p++) {
        double away = fabs(log(published_parameters(p) / size));
        if (away < best && read_config(p, &c) && is_dense_decoder(&c)) best = away, near = p;
    }
    return near;
}

bool published_find(const char *said, model_config *c, const char **name) {
    const published_model *found = NULL;
    double size = size_of(said);
    for (const published_model *p = published_models; p->name && !found; p++)
        if (strcmp(p->name, said) == 0) found = p;
    if (!found && size > 0) found = find_size(size);
    if (!found || !read_config(found, c)) return false;
    *name = found->name;
    return true;
}
