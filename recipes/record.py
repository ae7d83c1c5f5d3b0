"""Records one training step for `snug estimate step.json`: its calls, tensors and modules. It computes nothing and
needs neither a GPU nor weights, for all tensors are fake. Your part is at the end. PyTorch 2.4 or later."""

import contextlib
import gc
import json
import os
import sys
import weakref

import torch
from torch._subclasses.fake_tensor import DataDependentOutputException, FakeTensorMode
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._pytree import tree_leaves
from torch.utils.flop_counter import flop_registry

VERSION = 1
FORWARD, BACKWARD, UPDATE = range(3)
PARAMETER, BUFFER, INPUT, STATE, HELD, GRADIENT, MADE = range(7)


class Table:  # values by number, each once
    def __init__(self):
        self.numbers = {}

    def add(self, value):
        return self.numbers.setdefault(value, len(self.numbers))

    def values(self):
        return list(self.numbers)


def called_by(name):
    frame = sys._getframe(2)  # below __torch_dispatch__, and what wraps it
    while frame and frame.f_code.co_name in ("_fn", "inner", "wrapper"):
        frame = frame.f_back
    return frame is not None and frame.f_code.co_name == name


class Recorder(TorchDispatchMode):
    """Of each call of the dispatcher what it makes; of each storage when it dies."""

    def __init__(self, model, number=None):
        super().__init__()
        self.number = number  # what code is told that looks at one
        self.storages, self.alive = [], {}  # storages: [dtype, shape, bytes, role, name]
        self.events = []  # 0: a call; n: it makes storage n; -n: storage n has died
        self.calls = []  # (name, phase, module, call of forward that it differentiates, operations)
        self.operands, self.counts = [], []
        self.saved = {}  # (module, storage)
        self.maker, self.assumed = {}, set()
        self.sums, self.by_backward = {}, set()  # of gradients, by autograd itself: what is made, of what
        self.phase, self.stack, self.by_sequence = FORWARD, [0], {}
        self.modules = [(name, type(m).__name__) for name, m in model.named_modules()]
        self.number_of = {id(m): i for i, (_, m) in enumerate(model.named_modules())}
        self.entered = [0] * len(self.modules)

    def storage(self, t, role=HELD, name=""):
        s = t.untyped_storage()
        key = s._cdata
        if key not in self.alive:
            self.storages.append([str(t.dtype)[6:], tuple(t.shape), s.nbytes(), role, name])
            number = len(self.storages)
            self.alive[key] = number, weakref.ref(s, lambda _: self.died(key, number))
            if role == MADE or self.calls:
                self.events.append(number)
            if role == MADE and self.phase == BACKWARD:
                self.by_backward.add(number)
        return self.alive[key][0]

    def died(self, key, number):
        if self.alive.get(key, (0,))[0] == number:
            del self.alive[key]
            self.events.append(-number)

    def __torch_dispatch__(self, call, types, args=(), kwargs=None):
        kwargs = kwargs or {}
        if call.namespace in ("prim", "profiler"):
            return call(*args, **kwargs)
        if call is torch.ops.aten._local_scalar_dense.default:
            return self.value_of(args[0], call)
        read = [self.storage(t) for t in tree_leaves((args, kwargs)) if isinstance(t, torch.Tensor)]
        position = len(self.events)
        result = call(*args, **kwargs)
        died, self.events[position:] = self.events[position:], []  # of what the call itself needed for a while
        before = len(self.storages)
        made = [self.storage(t, MADE) for t in tree_leaves(result) if isinstance(t, torch.Tensor)]
        if made and isinstance(result, torch.Tensor) and result.dtype == torch.bool and result.numel() == 1:
            self.maker[made[0]] = call.overloadpacket.__name__
        if len(self.storages) > before or call._schema.is_mutable:
            self.events.insert(position, 0)
            self.add_call(call, read, made, args, kwargs, result)
            if call is torch.ops.aten.add.Tensor and called_by("_engine_run_backward"):
                self.sums[made[0]] = read[0]
        self.events += died
        return result

    def value_of(self, t, call):
        """Numbers that code looks at are not known. What all() or any() says is taken to be what needs no exception:
        no padding, nothing that is not finite."""
        with contextlib.suppress(DataDependentOutputException):
            return call(t)
        maker = self.maker.get(self.storage(t), "")
        if self.number is not None and t.dtype != torch.bool:
            self.assumed.add(f"a number is {self.number} in module '{self.modules[self.stack[-1]][0]}'")
            return type(self.number)(self.number) if t.dtype.is_floating_point else int(self.number)
        if maker not in ("all", "any", "eq") and self.number is None:
            raise SystemExit(f"record.py: in module '{self.modules[self.stack[-1]][0]}' the code looks at a number that "
                             "only data tell; call record(..., fake=False) with a small model")
        answer = maker != "any"
        self.assumed.add(f"{maker}() is {answer} in module '{self.modules[self.stack[-1]][0]}'")
        return answer

    def add_call(self, call, read, made, args, kwargs, result):
        count, operations = flop_registry.get(call.overloadpacket), 0
        with contextlib.suppress(Exception):
            operations = int(count(*args, **kwargs, out_val=result)) if count else 0
        of, module = 0, self.stack[-1]
        node = torch._C._current_autograd_node() if self.phase == BACKWARD else None
        if node is not None and node._sequence_nr() in self.by_sequence:
            of = self.by_sequence[node._sequence_nr()]
            module = self.calls[of - 1][2]
        self.calls.append((str(call).removeprefix("aten."), self.phase, module, of, operations))
        self.operands += read + made
        self.counts += len(read), len(made)
        if self.phase == FORWARD:
            self.by_sequence.setdefault(torch._C._autograd._get_sequence_nr() - 1, len(self.calls))

    def pack(self, t):
        self.saved[self.stack[-1], self.storage(t)] = None
        return t

    def enter(self, m):
        self.stack.append(self.number_of.get(id(m), self.stack[-1]))
        if id(m) in self.number_of and self.phase == FORWARD:
            self.entered[self.stack[-1]] += 1

    def left(self):
        self.stack.pop()

    @contextlib.contextmanager
    def watching(self):
        enter = torch.nn.modules.module.register_module_forward_pre_hook(lambda m, x: self.enter(m))
        leave = torch.nn.modules.module.register_module_forward_hook(lambda m, x, y: self.left(), always_call=True)
        try:
            with self, torch.autograd.graph.saved_tensors_hooks(self.pack, lambda t: t):
                yield
        finally:
            enter.remove()
            leave.remove()


@contextlib.contextmanager
def as_on(device):
    """Of a GPU: its dropout keeps a byte a number, and its attention has one call, with dropout too."""
    F = torch.nn.functional
    dropout, attention = F.dropout, F.scaled_dot_product_attention
    fused = torch.ops.aten._scaled_dot_product_flash_attention_for_cpu

    def dropout_gpu(input, p=0.5, training=True, inplace=False):
        return torch.native_dropout(input, p, True)[0] if training and p else input

    def attention_gpu(query, key, value, attn_mask=None, dropout_p=0.0, is_causal=False, scale=None, enable_gqa=False):
        bias = attn_mask is not None and attn_mask.requires_grad
        if bias or query.dim() != 4 or query.shape[-1] > 256 or query.shape[-1] != value.shape[-1]:
            new = {"enable_gqa": True} if enable_gqa else {}  # PyTorch 2.4 has no such argument
            return attention(query, key, value, attn_mask, dropout_p, is_causal, scale=scale, **new)
        if attn_mask is not None and attn_mask.dtype == torch.bool:
            attn_mask = torch.zeros_like(attn_mask, dtype=query.dtype)
        return fused(query, key, value, 0.0, is_causal, attn_mask=attn_mask, scale=scale)[0]
    tracing = getattr(sys.modules.get("transformers"), "utils", None)
    tracing = tracing and tracing.import_utils
    is_fake = tracing and getattr(tracing, "is_fake_tensor", None)
    if is_fake:  # else other masks are made than in truth
        tracing.is_fake_tensor = lambda x: False
    if device != "cpu":
        F.dropout, F.scaled_dot_product_attention = dropout_gpu, attention_gpu
    try:
        yield
    finally:
        F.dropout, F.scaled_dot_product_attention = dropout, attention
        if is_fake:
            tracing.is_fake_tensor = is_fake


@contextlib.contextmanager
def moving():
    """model.to(...) of fake tensors, which PyTorch refuses where somebody looks at them: weights are made anew."""
    apply = torch.nn.Module._apply

    def applied(self, fn, recurse=True):
        made = {}
        for m in self.modules() if recurse else [self]:
            for held in (m._parameters, m._buffers):
                for key, t in held.items():
                    if t is None:
                        continue
                    with torch.no_grad():
                        new = made.setdefault(id(t), fn(t))
                    if new is not t and isinstance(t, torch.nn.Parameter) and not isinstance(new, torch.nn.Parameter):
                        new = made[id(t)] = torch.nn.Parameter(new, t.requires_grad and new.is_floating_point())
                    held[key] = new
        return self
    torch.nn.Module._apply = applied
    try:
        yield
    finally:
        torch.nn.Module._apply = apply


@contextlib.contextmanager
def telling(say_phase):
    """Of a loop that does more than forward: backward says so itself, and is the last one before the update."""
    backward = torch.autograd.backward

    def run_backward(*args, **kwargs):
        say_phase(BACKWARD)
        backward(*args, **kwargs)
        say_phase(UPDATE)
    torch.autograd.backward = run_backward
    try:
        yield
    finally:
        torch.autograd.backward = backward


def one_step(model, optimizer, loss_of, batch, say_phase=lambda phase: None):
    """loss_of may run backward itself, and then returns nothing; or the update too, and then returns False."""
    say_phase(FORWARD)
    with telling(say_phase):
        loss = loss_of(model, batch)
    if torch.is_tensor(loss):
        say_phase(BACKWARD)
        loss.backward()
    if loss is False:
        return
    say_phase(UPDATE)
    optimizer.step()
    optimizer.zero_grad()


def run(model, optimizer, loss_of, batch, number=None):
    r = Recorder(model, number)
    names = {p: name for name, p in model.named_parameters()}
    for p, name in names.items():
        r.storage(p, PARAMETER, name)
    for name, b in model.named_buffers():
        r.storage(b, BUFFER, name)
    for p, state in optimizer.state.items():
        for key, t in state.items():
            if isinstance(t, torch.Tensor):
                r.storage(t, STATE, names.get(p, "") + "." + key)
    for t in tree_leaves(batch):
        if isinstance(t, torch.Tensor):
            r.storage(t, INPUT)
    for p, name in names.items():
        if p.grad is not None:  # of the step before, where the loop lets it go later
            r.storage(p.grad, HELD, name)

    def say_phase(phase):
        r.phase = phase
        for p, name in names.items() if phase == UPDATE else ():
            if p.grad is not None:
                r.storages[r.storage(p.grad) - 1][3:] = GRADIENT, name
    collects = gc.isenabled()
    gc.collect()
    gc.disable()
    try:
        with r.watching():
            one_step(model, optimizer, loss_of, batch, say_phase)
    finally:
        if collects:
            gc.enable()
    for number, _ in r.alive.values():  # what was there, and is seen late
        if r.storages[number - 1][3] == HELD and number in r.events:
            r.events.remove(number)
    for number in r.events:
        if number > 0 and r.storages[number - 1][3] == HELD:  # made beside the dispatcher, as by torch.tensor(1.0)
            r.storages[number - 1][3] = MADE
    r.alive = {}
    in_place(r)
    r.events = in_order(r.events)
    return r


def program(runs):  # those of one structure: the first says all but sizes
    strings, shapes = Table(), Table()
    first = runs[0][2]
    columns = list(zip(*first.storages)) or [()] * 5
    return {
        "runs": [[batch, length] for batch, length, _ in runs],
        "storages": {
            "dtype": [strings.add(d) for d in columns[0]],
            "role": list(columns[3]),
            "name": [strings.add(n) for n in columns[4]],
            "shape": [[shapes.add(s[1]) for s in r.storages] for _, _, r in runs],
            "bytes": [[s[2] for s in r.storages] for _, _, r in runs],
        },
        "calls": {
            "name": [strings.add(c[0]) for c in first.calls],
            "phase": [c[1] for c in first.calls],
            "module": [c[2] for c in first.calls],
            "of": [c[3] for c in first.calls],
            "operations": [[c[4] for c in r.calls] for _, _, r in runs],
            "reads": first.counts[0::2],
            "makes": first.counts[1::2],
            "operands": first.operands,
        },
        "events": first.events,
        "saved": [number for pair in first.saved for number in pair],
        "shapes": [list(s) for s in shapes.values()],
        "strings": strings.values(),
    }


def in_place(r):
    """Autograd adds to a gradient that nobody else has in place, but not while a recorder looks."""
    now, groups = {}, [[]]
    for e in r.events:
        groups[-1].append(e) if e else groups.append([e])
    for group in groups:
        made = next((e for e in group if e in r.sums), 0)
        old = r.sums.get(made, 0)
        if made and -old in group and old in r.by_backward and r.storages[old - 1][2] == r.storages[made - 1][2]:
            group.remove(made)
            group.remove(-old)
            now[made] = old = now.get(old, old)
            r.storages[old - 1][3:], r.storages[made - 1][3:] = r.storages[made - 1][3:], [MADE, ""]
    r.events = [now.get(abs(e), abs(e)) * (-1 if e < 0 else 1) for group in groups for e in group]
    r.operands = [now.get(n, n) for n in r.operands]


def in_order(events):  # what dies between two calls does so in no order that counts
    key, at = [], 0
    for e in events:
        at += e >= 0
        key.append((at, e < 0, e))
    return [e for _, _, e in sorted(key)]


def alike(a, b):
    return a.events == b.events and [c[:4] for c in a.calls] == [c[:4] for c in b.calls] and a.operands == b.operands


def write(out, what):  # whole or not at all
    beside = f"{out}.partial"
    try:
        with open(beside, "w") as file:
            json.dump(what, file, separators=(",", ":"))
        os.replace(beside, out)
    finally:
        with contextlib.suppress(FileNotFoundError):
            os.remove(beside)


def record(make_model, make_batch, loss_of, make_optimizer, batches=(1, 2, 3), lengths=(1024, 512),
           autocast=None, device="cuda", fake=True, number=None, out="step.json"):
    """Of make_batch(size, length) for each size with the first length, and for the last but one with the others: sizes
    and lengths that were not recorded are computed from these. device="cpu": as a CPU does it. fake=False: computed in
    truth, for models whose code depends on data. number=1.0: what code is told that looks at a number, as for a log."""
    programs, assumed = [], set()
    sizes = [(b, lengths[0]) for b in batches] + [(batches[-2:][0], n) for n in lengths[1:]]
    mode = FakeTensorMode(allow_non_fake_inputs=True) if fake else contextlib.nullcontext()

    def loss(model, batch):
        with torch.autocast("cpu", autocast) if autocast else contextlib.nullcontext():
            return loss_of(model, batch)
    with mode, as_on(device), moving() if fake else contextlib.nullcontext():
        with Recorder(torch.nn.Module()):
            model = make_model().train()
        optimizer = make_optimizer(model)
        run(model, optimizer, loss, make_batch(*sizes[0]), number)  # which makes the optimizer's states
        for batch, length in sizes:
            r = run(model, optimizer, loss, make_batch(batch, length), number)
            assumed |= r.assumed
            same = next((p for p in programs if alike(p[0][2], r)), None)
            if same is None:
                programs.append(same := [])
            same.append((batch, length, r))
        trained = [name for name, p in model.named_parameters() if p.requires_grad]
    head = {"snug_step": VERSION, "torch": torch.__version__, "device": device, "model": type(model).__name__,
            "autocast": str(autocast)[6:] if autocast else "", "optimizer": type(optimizer).__name__,
            "modules": [list(m) for m in r.modules], "entered": r.entered,
            "trained": trained, "assumed": sorted(assumed)}
    write(out, head | {"programs": [program(p) for p in programs]})
    for what in sorted(assumed):
        print(f"assumed: {what}", file=sys.stderr)
    print(f"{out}: {len(r.calls):,} calls; batches and lengths of one structure: "
          + "; ".join(", ".join(f"{b} x {n}" for b, n, _ in p) for p in programs), file=sys.stderr)
