/* The programs that record a step: recipes/, which CMake puts into the program. */
#include <string.h>

#include "cli/estimate/estimate.h"
#include "estimate/recorded/recipes.h"

static const char *text_of(const char *name) {
    for (const recorded_recipe *r = recorded_recipes; r->name; r++)
        if (strcmp(r->name, name) == 0) return r->text;
    return "";
}

status estimate_recipe(const options *o, cli_streams *streams) {
    static const char *const loops[] = {
        [STEP_RECIPE_PLAIN] = "plain",
        [STEP_RECIPE_HF] = "hf",
        [STEP_RECIPE_LIGHTNING] = "lightning",
        [STEP_RECIPE_TRAINER] = "trainer",
        [STEP_RECIPE_SFT] = "sft",
        [STEP_RECIPE_DPO] = "dpo",
        [STEP_RECIPE_PEFT] = "peft",
        [STEP_RECIPE_ACCELERATE] = "accelerate",
        [STEP_RECIPE_DIFFUSERS] = "diffusers",
        [STEP_RECIPE_TIMM] = "timm",
    };
    const char *loop = text_of(loops[o->estimate.recipe]), *recorder = text_of("record");
    const char *beside = o->json            ? "--json"
                         : o->html          ? "--html"
                         : o->estimate.emit ? "--emit"
                         : o->subject       ? "MODEL"
                                            : NULL;
    if (beside)
        return status_set(STATUS_INVALID, "--recipe prints a program in Python: give no %s with it", beside);
    output_bytes(&streams->result, recorder, strlen(recorder));
    output_bytes(&streams->result, loop, strlen(loop));
    return STATUS_OK;
}
