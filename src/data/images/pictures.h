/* Pictures with a class each, as samples of models that see images.
 *
 * The path is a folder that holds a folder for each class, named so; or a table (JSON lines, an array of
 * JSON, CSV or Parquet), or a folder with tables in it, with a column that says where a picture is (from the
 * table's own folder on, or from the root) and one with its class. Of Parquet the first may hold pictures
 * themselves (document_options.bytes). Every tenth picture may be held out for validation.
 *
 * All pictures are looked at once (image_file.h): what isn't one, is animated or larger than the limits is
 * refused before a run begins. What is damaged behind its header shows when it is decoded. Kept are the paths
 * and the classes, or of pictures in Parquet the page and the place in it: a sample reads that page alone. A
 * Parquet file may not change meanwhile.
 *
 * Fields of a sample: its numbers (H,W,C) f32, its class i32. */
#pragma once

#include "data/images/prepare.h"
#include "data/source.h"
#include "models/label_names.h"

typedef struct {
    const char *path;
    const char *image, *label; /* columns of tables */
    prepare_options prepare;
    bool still;               /* nothing is drawn of them: the middle, in training as well */
    const label_names *names; /* of the classes */
    uint64_t seed;            /* of the order and of what is drawn */
    uint64_t most; /* bytes that the list of pictures may take, with the reader of tables meanwhile */
} picture_options;

typedef struct pictures pictures;

/* Adds the classes of the data to the names, as they are met: folders in the order of their names; of Parquet
 * that names its classes those, in its order (data/classes.h). */
status pictures_names(const char *path, const char *column, uint64_t most, label_names *names);

/* Lists and looks at all pictures. STATUS_INVALID names the file, and of a table the record; STATUS_NO_FIT
 * where the list would take more than `most` bytes. */
status pictures_open(const picture_options *o, pictures **p);
void pictures_close(pictures *p); /* after its sources; NULL is fine */

uint64_t pictures_held(const pictures *p);
uint64_t pictures_count(const pictures *p);

typedef enum {
    PICTURES_ALL,     /* for validation: in their order, from the middle */
    PICTURES_DRAWN,   /* all, for training: in an order of its own (data_source.ordered) */
    PICTURES_TRAINED, /* the same of all but every tenth, from the tenth on */
    PICTURES_HELD_OUT /* those, as ALL */
} picture_part;

/* The first source of `p` counts its memory as held. */
void pictures_source(pictures *p, picture_part part, data_source *s);
