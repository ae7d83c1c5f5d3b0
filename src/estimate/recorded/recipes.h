/* Programs in Python that record a step, built into the program: recipes/record.py, and behind it what is a
 * person's own, recipes/LOOP.py. */
#pragma once

typedef struct {
    const char *name, *text;
} recorded_recipe;
extern const recorded_recipe recorded_recipes[]; /* what CMake has made of recipes/; ends with name NULL */
