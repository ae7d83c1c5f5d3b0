/* Head and loss in pieces, in PyTorch's words: a tensor that stands for logits until a loss over classes
 * wants them. */
#include <string.h>

#include "estimate/emit/emit_recorded.h"
#include "estimate/recorded/recorded_rewrite.h"
#include "io/json.h"

static const char loss_of_python[] =
    "\n\n"
    "class Logits(torch.Tensor):  # what the head would make of rows: a shape, until a loss over classes "
    "asks for it\n"
    "    @staticmethod\n"
    "    def __new__(cls, head, rows, last=True, logs=False):\n"
    "        shape = (*rows.shape[:-1], CLASSES) if last else (rows.shape[0], CLASSES, *rows.shape[1:-1])\n"
    "        kind = rows.device.type\n"
    "        dtype = torch.get_autocast_dtype(kind) if torch.is_autocast_enabled(kind) else rows.dtype\n"
    "        return torch.Tensor._make_wrapper_subclass(cls, shape, dtype=dtype, device=rows.device)\n\n"
    "    def __init__(self, head, rows, last=True, logs=False):\n"
    "        self.head, self.rows = head, rows\n"
    "        self.last, self.logs = last, logs  # classes are the last dimension, else the second; behind a "
    "log_softmax\n\n"
    "    def whole(self):\n"
    "        logits = self.head(self.rows)\n"
    "        logits = logits.log_softmax(-1) if self.logs else logits\n"
    "        return logits if self.last else logits.movedim(-1, 1)\n\n"
    "    def shaped(self, call, rest, kwargs):  # as another one, where rows stay rows\n"
    "        shape = call(torch.empty(self.shape, device=\"meta\"), *rest, **kwargs).shape\n"
    "        if call in TURNS and self.last and shape == (self.shape[0], CLASSES, *self.shape[1:-1]):\n"
    "            return Logits(self.head, self.rows, False, self.logs)\n"
    "        if call in SHAPES and self.last and shape[-1:] == (CLASSES,):\n"
    "            return Logits(self.head, self.rows.reshape(*shape[:-1], self.rows.shape[-1]), "
    "logs=self.logs)\n"
    "        if call is torch.Tensor.__getitem__ and self.last and shape[-1:] == (CLASSES,):\n"
    "            rows = self.rows[rest[0]]\n"
    "            same = rows.shape == (*shape[:-1], self.rows.shape[-1])\n"
    "            return Logits(self.head, rows, logs=self.logs) if same else None\n\n"
    "    def softened(self, dim=None, dtype=None, **other):  # by log_softmax over the classes\n"
    "        over = dim is not None and dim % self.dim() == (self.dim() - 1 if self.last else 1)\n"
    "        return Logits(self.head, self.rows, self.last, True) if over and dtype is None else None\n\n"
    "    @classmethod\n"
    "    def __torch_function__(cls, call, types, args=(), kwargs=None):\n"
    "        kwargs = kwargs or {}\n"
    "        input = args[0] if args else kwargs.get(\"input\")\n"
    "        if isinstance(input, cls) and call is (F.nll_loss if input.logs else F.cross_entropy):\n"
    "            return loss_in_pieces(*args, **kwargs)\n"
    "        if call in STAYS and isinstance(args[0], cls):\n"
    "            return args[0]\n"
    "        if getattr(call, \"__name__\", \"\") == \"__get__\" or call in LOOKS:\n"
    "            return super().__torch_function__(call, types, args, kwargs)\n"
    "        if call in (*TURNS, *SHAPES, torch.Tensor.__getitem__) and isinstance(args[0], cls):\n"
    "            other = args[0].shaped(call, args[1:], kwargs)\n"
    "            if other is not None:\n"
    "                return other\n"
    "        if call in SOFTENS and isinstance(input, cls) and not input.logs:\n"
    "            other = input.softened(*args[1:], **kwargs)\n"
    "            if other is not None:\n"
    "                return other\n"
    "        whole = lambda x: x.whole() if isinstance(x, cls) else x  # noqa: E731\n"
    "        return call(*tree_map(whole, args), **tree_map(whole, kwargs))\n\n"
    "    @classmethod\n"
    "    def __torch_dispatch__(cls, call, types, args=(), kwargs=None):\n"
    "        raise TypeError(f\"{call}: these logits are computed with the loss, in pieces\")\n\n\n"
    "T, F = torch.Tensor, torch.nn.functional\n"
    "STAYS = T.float, T.contiguous, T.to, T.type\n"
    "LOOKS = T.size, T.dim, T.numel, T.stride, T.is_floating_point, T.is_complex, T.element_size, T.__len__\n"
    "SHAPES = T.view, T.reshape, torch.reshape, T.flatten, torch.flatten\n"
    "TURNS = T.transpose, torch.transpose, T.permute, torch.permute, T.movedim, torch.movedim\n"
    "SOFTENS = T.log_softmax, torch.log_softmax, F.log_softmax\n\n\n"
    "def loss_in_pieces(input, target, weight=None, size_average=None, ignore_index=-100, reduce=None,\n"
    "                   reduction=\"mean\", label_smoothing=0.0):\n"
    "    def loss_of_piece(rows, target):\n"
    "        return F.cross_entropy(input.head(rows)WIDENED, target, ignore_index=ignore_index, "
    "reduction=\"sum\")\n\n"
    "    if weight is not None or label_smoothing or reduction == \"none\" or target.is_floating_point():\n"
    "        return F.cross_entropy(input.whole(), target, weight, size_average, ignore_index, reduce, "
    "reduction,\n"
    "                               label_smoothing)  # a log_softmax of one is the same\n"
    "    rows, targets = input.rows.reshape(-1, input.rows.shape[-1]).chunk(PIECES), "
    "target.flatten().chunk(PIECES)\n"
    "    total = sum(checkpoint(loss_of_piece, *x, use_reentrant=False, preserve_rng_state=False)\n"
    "                for x in zip(rows, targets))\n"
    "    return total if reduction == \"sum\" else total / (target != ignore_index).sum()\n";

status emit_recorded_loss_lists(const emit_recorded_of *q, recorded_head *h, text *out) {
    if (!q->settings->loss_chunks) return STATUS_OK;
    torch_settings at_once = *q->settings;
    at_once.batch = q->way->batch;
    TRY(recorded_head_of(q->recording, &at_once, h));
    text_add(out, "HEAD = ");
    json_add_quoted(out, q->recording->modules.of[h->module]);
    text_add(out,
             "  # computed with the loss, in pieces of rows, whose losses are added up in another order%s\n",
             q->settings->types == TORCH_F32 ? "" : ", and its gradients in 16 bits");
    text_add(out, "PIECES = %lld\nCLASSES = %.0f\n", (long long)q->settings->loss_chunks, h->classes);
    return STATUS_OK;
}

void emit_recorded_loss_functions(const emit_recorded_of *q, const recorded_head *h, text *out) {
    static const char mark[] = "WIDENED";
    if (!q->settings->loss_chunks) return;
    const char *at = strstr(loss_of_python, mark);
    text_add(out, "%.*s%s%s", (int)(at - loss_of_python), loss_of_python, h->widens ? ".float()" : "",
             at + sizeof mark - 1);
}

void emit_recorded_loss_prepare(const torch_settings *s, text *out) {
    if (!s->loss_chunks) return;
    text_add(out, "    head = base.get_submodule(HEAD)\n"
                  "    forward = head.forward\n"
                  "    head.forward = lambda rows: Logits(forward, rows) if torch.is_grad_enabled() else "
                  "forward(rows)\n");
}
