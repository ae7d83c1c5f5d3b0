/* The lines that record a job's memory well. */
#include "cli/look/look.h"

/* What all of them begin with. */
#define BEGIN                                                                                                \
    "import torch\n"                                                                                         \
    "\n"                                                                                                     \
    "# Before the model is made, so that weights are seen to arrive. stacks=\"all\": frames of Python "      \
    "alone\n"                                                                                                \
    "# see nothing of backward, which runs in a thread of autograd's. The number of events is bounded; "     \
    "the\n"                                                                                                  \
    "# last ones are kept.\n"                                                                                \
    "torch.cuda.memory._record_memory_history(max_entries=200_000, stacks=\"all\", context=\"all\")\n"       \
    "\n"                                                                                                     \
    "# Also where it fails, as it was then.\n"                                                               \
    "torch._C._cuda_attach_out_of_memory_observer(\n"                                                        \
    "    lambda *_: torch.cuda.memory._dump_snapshot(\"memory-oom.pickle\"))\n"

/* Versions that have it name the module of each allocation of forward. */
#define NAMES                                                                                                \
    "def name_modules(model):  # where this PyTorch has it: the module beside each allocation of forward\n"  \
    "    say, inside = getattr(torch.cuda.memory, \"_set_memory_metadata\", None), [\"\"]\n"                 \
    "    def enter(name):\n"                                                                                 \
    "        inside.append(name)\n"                                                                          \
    "        say(name)\n"                                                                                    \
    "    def leave():\n"                                                                                     \
    "        inside.pop()\n"                                                                                 \
    "        say(inside[-1])\n"                                                                              \
    "    for name, module in model.named_modules() if say else ():\n"                                        \
    "        module.register_forward_pre_hook(lambda m, x, name=name: enter(name))\n"                        \
    "        module.register_forward_hook(lambda m, x, y: leave(), always_call=True)\n"

/* Three steps: the optimizer's state is made in the first, and what grows shows from the second on. */
#define DUMP "torch.cuda.memory._dump_snapshot(\"memory.pickle\")\n"

static const char *const recipes[] = {
    [RECIPE_NONE] = "",
    [RECIPE_PLAIN] = BEGIN "\n" NAMES "\n"
                           "model = ...  # and name_modules(model)\n"
                           "\n"
                           "# Behind the third step; the fourth shows whether memory grows.\n"
                           "if step == 4:\n"
                           "    " DUMP "    torch.cuda.memory._record_memory_history(enabled=None)\n",
    [RECIPE_HF] =
        BEGIN "\n"
              "from transformers import TrainerCallback\n"
              "\n"
              "class Snapshot(TrainerCallback):  # Trainer(..., callbacks=[Snapshot()])\n"
              "    def on_step_end(self, args, state, control, **_):\n"
              "        if state.global_step == 4:\n"
              "            " DUMP "            torch.cuda.memory._record_memory_history(enabled=None)\n"
              "\n"
              "# Several processes: a file each, as in f\"memory-{args.process_index}.pickle\".\n",
    [RECIPE_LIGHTNING] =
        BEGIN "\n"
              "from lightning.pytorch import Callback\n"
              "\n"
              "class Snapshot(Callback):  # Trainer(..., callbacks=[Snapshot()])\n"
              "    def on_train_batch_end(self, trainer, module, outputs, batch, batch_idx):\n"
              "        if trainer.global_step == 4:\n"
              "            " DUMP "            torch.cuda.memory._record_memory_history(enabled=None)\n"
              "\n"
              "# Several processes: a file each, as in f\"memory-{trainer.global_rank}.pickle\".\n",
    [RECIPE_TORCHTITAN] =
        "# torchtitan records by itself. On its command line:\n"
        "#   --profiling.enable_memory_snapshot --profiling.profile_freq 4 --training.steps 4\n"
        "#   --profiling.save_memory_snapshot_folder memory\n"
        "# or in its configuration:\n"
        "[profiling]\n"
        "enable_memory_snapshot = true\n"
        "profile_freq = 4  # steps; a folder for each, with a file of each rank\n"
        "save_memory_snapshot_folder = \"memory\"\n",
};

const char *look_recipe(int recipe) { return recipes[recipe]; }
