"""Records one training step for `snug estimate step.json`: its calls, tensors and modules. It computes nothing and
needs neither a GPU nor weights, for all tensors are fake. Your part is at the end. PyTorch 2.4 or later."""

import contextlib
import dis
import functools
import gc
import json
import operator
import os
import sys
import typing
import weakref

import torch
import torch.utils.checkpoint
from torch._subclasses.fake_tensor import (DataDependentOutputException, DynamicOutputShapeException, FakeTensor,
                                           FakeTensorMode, unset_fake_temporarily)
from torch._C._profiler import _EventType
from torch.profiler import ProfilerActivity, profile
from torch.utils._python_dispatch import TorchDispatchMode, _disable_current_modes
from torch.utils._pytree import tree_flatten, tree_leaves, tree_unflatten
from torch.utils.flop_counter import flop_registry

VERSION = 1
FORWARD, BACKWARD, UPDATE = range(3)
PARAMETER, BUFFER, INPUT, STATE, HELD, GRADIENT, MADE = range(7)
# Calls that a CPU's library has copies and buffers within: of which operands the type counts; nothing: of all.
WITHIN = {"convolution": None, "convolution_backward": None, "native_batch_norm_backward": 2,
          "_scaled_dot_product_flash_attention_for_cpu": None, "_scaled_dot_product_flash_attention_for_cpu_backward": 5,
          "_safe_softmax": None, "roll": None, "mean": None}
PRODUCTS = "mm", "addmm", "bmm", "baddbmm"  # where numbers have 16 bits, by some machines' libraries
# Of these a CPU copies what is not of the type that they compute in (TensorIterator).
ELEMENTWISE = ("add", "sub", "mul", "div", "pow", "where", "addcmul", "addcdiv", "maximum", "minimum", "eq", "ne", "lt",
               "le", "gt", "ge")
# Calls that copy what they read within themselves where it is not contiguous, on a CPU and on a GPU: which operands.
CONTIGUOUS = {"_softmax": (0,), "_log_softmax": (0,), "_softmax_backward_data": (0, 1),
              "_log_softmax_backward_data": (0, 1), "native_layer_norm": (0,), "native_layer_norm_backward": (0, 1),
              "embedding_dense_backward": (0,), "nll_loss2d_forward": (0,)}
COPIES_NARROW = torch.backends.mkldnn.is_available() and torch.ops.mkldnn._is_mkldnn_bf16_supported()
MOST_WITHIN = 1 << 30  # bytes of what is read: larger ones are not computed
COMPARISONS = {"lt": operator.lt, "le": operator.le, "gt": operator.gt, "ge": operator.ge, "ne": operator.ne}


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


def within(calls):
    """The most bytes that each call has within itself beside what it makes, as this machine's CPU does it: which layouts
    its library takes, and copies to, only it tells. Calls are computed, each once; those that fail are left out."""
    def tensor(x, wide=False):  # wide: statistics of norms are f32 in truth beside numbers of 16 bits
        if not isinstance(x, Like):
            return x
        wide = wide and len(x.size[0]) == 1 and x.dtype.is_floating_point
        return torch.empty_strided(*x.size, dtype=torch.float32 if wide else x.dtype).zero_()
    names = {f"within {i}": call for i, call in enumerate(calls)}
    most = {}

    def sizes(node):
        if node.tag == _EventType.Allocation:
            yield node.start_time_ns, node.extra_fields.alloc_size
        for child in node.children:
            yield from sizes(child)
    off = torch.autocast("cpu", enabled=False)
    with _disable_current_modes(), torch.no_grad(), off, profile(activities=[ProfilerActivity.CPU],
                                                                 profile_memory=True) as p:
        for name, (call, leaves, spec) in names.items():
            for wide in (False, True):
                args, kwargs = tree_unflatten([tensor(x, wide) for x in leaves], spec)
                with torch.profiler.record_function(name), contextlib.suppress(Exception):
                    result = call(*args, **kwargs)
                    most[names[name]] = 0
                args = kwargs = result = None  # outside, since what is left there is what the call makes
                if names[name] in most:
                    break
    todo = list(p.profiler.kineto_results.experimental_event_tree())
    for node in todo:
        todo += node.children if node.name not in names else ()
        left = top = 0  # what is left is what it makes
        for _, size in sorted(sizes(node)) if node.name in names else ():
            left += size
            top = max(top, left)
        if names.get(node.name) in most:
            most[names[node.name]] = top - left
    return most


class Like(typing.NamedTuple):  # a tensor's shape
    size: tuple
    dtype: torch.dtype


def in_other_type(call, narrow):
    """The same call where floats have 16 bits in place of f32, or f32 in place of 16 bits."""
    what, leaves, spec = call
    which = WITHIN.get(what.overloadpacket.__name__)
    wide = next((x.dtype is torch.float32 for x in leaves if isinstance(x, Like) and x.dtype.is_floating_point), True)

    def other(i, x):
        if not isinstance(x, Like) or not x.dtype.is_floating_point or (wide and which is not None and i >= which):
            return x
        return Like(x.size, narrow if wide else torch.float32)
    return what, tuple(other(i, x) for i, x in enumerate(leaves)), spec


class Kept:  # what autograd has of a tensor
    pass


@contextlib.contextmanager
def each_forward(model, around):
    """Within it forward of each module m runs within around(m), whoever calls it: hooks of modules are not told where
    code calls `layer.forward(x)` by itself."""
    def wrap(m, forward):
        @functools.wraps(forward)
        def run(*args, **kwargs):
            with around(m):
                return forward(*args, **kwargs)
        return run
    wrapped = []
    for m in model.modules():
        before = m.__dict__.get("forward")
        with contextlib.suppress(Exception):  # of a module that takes none, as a script's, its parts are seen alone
            m.forward = run = wrap(m, m.forward)
            wrapped.append((m, before, run))
    try:
        yield
    finally:
        for m, before, run in wrapped:
            if m.__dict__.get("forward") is run:
                m.__dict__.pop("forward") if before is None else m.__dict__.update(forward=before)


@functools.lru_cache(None)
def gives_name(code, at):
    """Does code keep what the call at that place returns, as a function does that it is given to? Else it asks it for
    one thing alone, as x.float().pow(2) does."""
    behind = (i.opname for i in dis.get_instructions(code) if i.offset > at and i.opname != "CACHE")
    return not next(behind, "RETURN").startswith(("LOAD_METHOD", "LOAD_ATTR", "BINARY", "UNARY"))


@contextlib.contextmanager
def each_widening(note):
    """Within it note(t, named) is told of each tensor that code casts to f32 by itself, and whether it gives a name to
    what comes of it. Where it is f32 that does nothing, so no call shows it."""
    def wrap(method):
        @functools.wraps(method)
        def cast(t, *args, **kwargs):
            if method.__name__ == "float" or any(a is torch.float32 for a in (*args, *kwargs.values())):
                frame = sys._getframe(1)
                if not frame.f_globals.get("__name__", "").startswith(("torch._decomp", "torch._refs", "torch._prims")):
                    note(t, gives_name(frame.f_code, frame.f_lasti))
            return method(t, *args, **kwargs)
        return cast
    methods = ("float", "to", "type")
    before = {name: torch.Tensor.__dict__.get(name) for name in methods}  # nothing where a class above has it
    for name in methods:
        setattr(torch.Tensor, name, wrap(getattr(torch.Tensor, name)))
    try:
        yield
    finally:
        for name, own in before.items():
            delattr(torch.Tensor, name) if own is None else setattr(torch.Tensor, name, own)


class Recorder(TorchDispatchMode):
    """Of each call of the dispatcher what it makes; of each storage when it dies."""

    def __init__(self, model, number=None, within=None):
        super().__init__()
        self.model = model
        self.number = number  # what code is told that looks at one
        self.within = within  # storages that stand for what calls have within themselves: of which call
        self.storages, self.alive = [], {}  # storages: [dtype, shape, bytes, role, name]
        self.events = []  # 0: a call; n: it makes storage n; -n: storage n has died; else a mark, see marked()
        self.calls = []  # (name, phase, module, call of forward that it differentiates, operations)
        self.operands, self.counts = [], []
        self.saves = []  # (module, storage), in the order in which autograd keeps them
        self.visits, self.holders, self.quiet = [], {}, False  # visits: modules
        self.widened = {}  # by storage that code casts to f32, in order: whether what comes of it gets a name
        self.handed, self.widened_for = set(), {}  # those that the next call has in f32; (storage, call)
        self.maker, self.assumed, self.constants = {}, set(), {}
        self.sums, self.by_backward = {}, set()  # of gradients, by autograd itself and in place: what is made, of what
        self.phase, self.stack, self.by_sequence, self.kept = FORWARD, [0], {}, {}
        self.modules = [(name, type(m).__name__) for name, m in model.named_modules()]
        self.number_of = {id(m): i for i, (_, m) in enumerate(model.named_modules())}
        self.entered = [0] * len(self.modules)

    def storage(self, t, role=HELD, name=""):
        s = t.untyped_storage()
        key = s._cdata
        if key not in self.alive:
            self.storages.append([str(t.dtype)[6:], tuple(t.shape), s.nbytes(), role, name])
            number = len(self.storages)
            self.hold(key, number, s, lambda: self.events.append(("left", number)))
            if role == MADE or self.calls:
                self.events.append(number)
            if role == MADE and self.phase == BACKWARD:
                self.by_backward.add(number)
        return self.alive[key][0]

    def hold(self, key, number, s, at_end):
        """A storage lives as long as the tensor does or autograd keeps it: as long as one of what stands for it."""
        self.holders[number] = self.holders.get(number, 0) + 1

        def died(_):
            if self.alive.get(key, (0,))[0] == number:
                del self.alive[key]
                at_end()
                self.holders[number] -= 1
                if not self.holders[number]:
                    self.events.append(-number)
        self.alive[key] = number, weakref.ref(s, died)

    def __torch_dispatch__(self, call, types, args=(), kwargs=None):
        kwargs = kwargs or {}
        if self.quiet or call.namespace in ("prim", "profiler"):
            return call(*args, **kwargs)
        if call is torch.ops.aten._local_scalar_dense.default:
            return self.value_of(args[0], call)
        if call is torch.ops.aten.index.Tensor:  # masks of bytes have no rule for fake tensors
            args = args[0], [i.bool() if i is not None and i.dtype == torch.uint8 else i for i in args[1]]
        read = [self.storage(t) for t in tree_leaves((args, kwargs)) if isinstance(t, torch.Tensor)]
        position = len(self.events)
        try:
            result = call(*args, **kwargs)
        except DynamicOutputShapeException:
            result = self.selected(call, *args)
        died, self.events[position:] = self.events[position:], []  # of what the call itself needed for a while
        before = len(self.storages)
        made = [self.storage(t, MADE) for t in tree_leaves(result) if isinstance(t, torch.Tensor)]
        self.note_constant(call, read, made, args, kwargs, result)
        if made and isinstance(result, torch.Tensor) and result.dtype == torch.bool and result.numel() == 1:
            self.maker[made[0]] = call.overloadpacket.__name__, args[1] if len(args) == 2 else None
        if len(self.storages) > before or call._schema.is_mutable:
            self.events.insert(position, 0)
            self.add_call(call, read, made, args, kwargs, result)
            self.widened_for.update(dict.fromkeys((n, len(self.calls)) for n in read if n in self.handed))
            self.handed.difference_update(read)
            self.add_contiguous(call, args)
            if self.within is not None:
                self.add_casts(call, args)
                self.add_within(call, args, kwargs)
            if call is torch.ops.aten.add.Tensor and called_by("_engine_run_backward") and not args[0]._is_view():
                self.sums[made[0]] = read[0]
        self.events += died
        return result

    def note_constant(self, call, read, made, args, kwargs, result):
        """Rows of numbers that code makes to look at, as linspace(...).tolist(), are known."""
        for number in read if call._schema.is_mutable else ():
            self.constants.pop(number, None)
        row = call.overloadpacket.__name__ in ("linspace", "arange") and not read
        if row and result.numel() <= 4096 and result.device.type == "cpu":
            with _disable_current_modes():
                self.constants[made[0]] = call(*args, **kwargs)

    def value_of(self, t, call):
        """Numbers that code looks at are not known. What all() or any() says is taken to be what needs no exception:
        no padding, nothing that is not finite."""
        with contextlib.suppress(DataDependentOutputException):
            return call(t)
        constant = self.constants.get(self.storage(t))
        if constant is not None:
            with _disable_current_modes():
                return constant.as_strided(t.size(), t.stride(), t.storage_offset()).item()
        maker, other = self.maker.get(self.storage(t), ("", None))
        if self.number is not None and t.dtype != torch.bool:
            self.assumed.add(f"a number is {self.number} in module '{self.modules[self.stack[-1]][0]}'")
            return type(self.number)(self.number) if t.dtype.is_floating_point else int(self.number)
        if maker not in ("all", "any", "eq") and self.number is None:
            raise SystemExit(f"record.py: in module '{self.modules[self.stack[-1]][0]}' the code looks at a number that "
                             "only data tell; call record(..., fake=False) with a small model")
        answer = maker != "any"
        if maker in COMPARISONS and isinstance(other, (int, float)):  # as layers are dropped where a drawn number is small
            answer = bool(COMPARISONS[maker](self.number, other))
        self.assumed.add(f"{maker}() is {answer} in module '{self.modules[self.stack[-1]][0]}'")
        return answer

    def selected(self, call, x, *rest):
        """Masks select everything: no padding, and each token counts."""
        aten, module = torch.ops.aten, self.modules[self.stack[-1]][0]

        def of_all(mask):
            return mask.new_empty(mask.numel(), mask.dim(), dtype=torch.long)
        if call not in (aten.nonzero.default, aten.masked_select.default, aten.index.Tensor):
            raise SystemExit(f"record.py: in module '{module}' the size of what {call} makes depends on data; call "
                             "record(..., fake=False) with a small model")
        self.assumed.add(f"masks select everything in module '{module}'")
        if call is aten.nonzero.default:
            return of_all(x)
        if call is aten.masked_select.default:
            return x.new_empty(torch.broadcast_shapes(x.shape, rest[0].shape).numel())
        places = [of_all(i).unbind(1) if i is not None and i.dtype == torch.bool else (i,) for i in rest[0]]
        return call(x, [i for several in places for i in several])

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

    def add_copy(self, dtype, shape, size):
        """A storage that a call makes and lets go within itself. Returns its number."""
        self.storages.append([dtype, shape, size, MADE, ""])
        number = len(self.storages)
        self.events += number, ("left", number), -number
        return number

    def add_contiguous(self, call, args):
        for i in CONTIGUOUS.get(call.overloadpacket.__name__, ()):
            t = args[i]
            if not t.is_contiguous():
                self.add_copy(str(t.dtype)[6:], tuple(t.shape), t.numel() * t.element_size())

    def add_casts(self, call, args):
        name = call.overloadpacket.__name__
        several = [t for t in args[name == "where":] if isinstance(t, torch.Tensor) and t.dim()]
        if not several or name.removesuffix("_") not in ELEMENTWISE:
            return
        common = functools.reduce(torch.promote_types, (t.dtype for t in several))
        changed = [several[0]] if call._schema.is_mutable else []
        size = sum(t.numel() * common.itemsize for t in several + changed if t.dtype != common)
        if size:
            self.add_copy("uint8", (size,), size)

    def add_within(self, call, args, kwargs):
        name = call.overloadpacket.__name__
        tensors = [t for t in tree_leaves((args, kwargs)) if isinstance(t, torch.Tensor)]
        product = name in PRODUCTS and all(t.element_size() == 2 or COPIES_NARROW for t in tensors)
        if (name not in WITHIN and not product) or sum(t.untyped_storage().nbytes() for t in tensors) > MOST_WITHIN:
            return
        leaves, spec = tree_flatten((args, kwargs))
        like = tuple(Like((tuple(x.shape), x.stride()), x.dtype) if isinstance(x, torch.Tensor) else
                     tuple(x) if isinstance(x, list) else x for x in leaves)
        number = self.add_copy("uint8", (0,), 0)
        self.storages.append(["uint8", (0,), 0, MADE, ""])  # of the other type, which the step doesn't make
        self.within[number] = call, like, spec

    def pack(self, t):
        """Autograd keeps a tensor of the same shape instead, so that it is seen when others let go of this one."""
        number, which = self.storage(t), len(self.saves)
        self.saves.append((self.stack[-1], number))
        self.events.append(("at", which))
        kept = Kept()
        kept.which, kept.tensor = which, t
        kept.end = weakref.ref(kept, lambda _: self.events.append(("until", which)))
        self.kept[which] = kept.end
        if self.storages[number - 1][3] != MADE or type(t) not in (torch.Tensor, FakeTensor) or t.is_sparse:
            return kept
        if t.is_conj() or t.is_neg() or t.untyped_storage().nbytes() % t.element_size():
            return kept
        self.quiet = True
        with torch.no_grad():
            whole = torch.empty(t.untyped_storage().nbytes() // t.element_size(), dtype=t.dtype, device=t.device)
            if type(t) is torch.Tensor:
                whole.untyped_storage().copy_(t.untyped_storage())
            kept.tensor = whole.as_strided(t.size(), t.stride(), t.storage_offset())
        self.quiet = False
        s = whole.untyped_storage()
        self.hold(s._cdata, number, s, lambda: None)
        return kept

    def unpack(self, kept):
        self.events.append(("used", kept.which))
        return kept.tensor

    @contextlib.contextmanager
    def visiting(self, m):
        """Around forward of a module."""
        number = self.number_of[id(m)]
        which = len(self.visits) if self.phase == FORWARD else None
        self.stack.append(number)
        if which is not None:
            self.entered[number] += 1
            self.events.append(("enter", which))
            self.visits.append(number)
        try:
            yield
        finally:
            self.stack.pop()
            if which is not None:
                self.events.append(("leave", which))

    def marked(self):
        """Takes marks out of the events: of each what happened how many calls, and saves, after the beginning."""
        calls = saves = 0
        at = {}
        for e in self.events:
            calls += e == 0
            if isinstance(e, tuple):
                at.setdefault(e, (calls, saves))
                saves += e[0] == "at"
        never = calls + 1, saves
        self.events = [e for e in self.events if not isinstance(e, tuple)]
        return lambda what, n: at.get((what, n), never)

    def note_widened(self, t, named):
        if self.phase == FORWARD and t.is_floating_point() and t.untyped_storage()._cdata in self.alive:
            number = self.storage(t)
            self.widened[number] = self.widened.get(number, False) or named
            if not named:
                self.handed.add(number)

    @contextlib.contextmanager
    def watching(self):
        hooks = torch.autograd.graph.saved_tensors_hooks(self.pack, self.unpack)
        with each_forward(self.model, self.visiting), self, hooks, each_widening(self.note_widened):
            yield


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


@contextlib.contextmanager
def none_again(model, note):
    """The model's own library has switched on that modules are computed again; what it would do so is noted."""
    def once(function, *args, **kwargs):
        for key in ("use_reentrant", "preserve_rng_state", "context_fn", "determinism_check", "debug", "early_stop"):
            kwargs.pop(key, None)
        with note(function):
            return function(*args, **kwargs)
    checkpoint = torch.utils.checkpoint.checkpoint
    torch.utils.checkpoint.checkpoint = once
    for m in model.modules():
        for switch in ("activation_checkpointing_enable", "gradient_checkpointing_enable",
                       "enable_gradient_checkpointing", "set_grad_checkpointing"):
            with contextlib.suppress(Exception):
                getattr(m, switch)()
                break
    for m in model.modules():
        if getattr(m, "_gradient_checkpointing_func", None):
            m._gradient_checkpointing_func = once
    try:
        yield
    finally:
        torch.utils.checkpoint.checkpoint = checkpoint


def module_of(function):
    """That a function calls, as libraries wrap it."""
    while function is not None and not isinstance(function, torch.nn.Module):
        first = next(iter(getattr(function, "args", ())), None)
        if isinstance(first, torch.nn.Module):
            return first
        function = next(filter(None, (getattr(function, a, None) for a in ("__self__", "func", "__wrapped__"))), None)
    return function


@contextlib.contextmanager
def noting_again(model, found):
    """Within it each module that the model's own library would compute again runs once, and its number is found."""
    numbers, waiting = {m: i for i, m in enumerate(model.modules())}, []

    @contextlib.contextmanager
    def note(function):
        m = module_of(function)
        waiting.append(m is None)  # then it is the first that is called
        if m in numbers:
            found.add(numbers[m])
        try:
            yield
        finally:
            waiting.pop()

    @contextlib.contextmanager
    def first(m):
        if waiting and waiting[-1]:
            waiting[-1] = False
            found.add(numbers[m])
        yield
    with each_forward(model, first), none_again(model, note):
        yield


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


def run(model, optimizer, loss_of, batch, number=None, device="cuda", held=()):
    r = Recorder(model, number, {} if device == "cpu" else None)
    names = {p: name for name, p in model.named_parameters()}
    for p, name in names.items():
        r.storage(p, PARAMETER, name)
    for name, b in model.named_buffers():
        r.storage(b, BUFFER, name)
    for t in held:
        r.storage(t, BUFFER)
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
    r.at = r.marked()
    for number, _ in r.alive.values():  # what was there, and is seen late
        if r.storages[number - 1][3] == HELD and number in r.events:
            r.events.remove(number)
    for number in r.events:
        if number > 0 and r.storages[number - 1][3] == HELD:  # made beside the dispatcher, as by torch.tensor(1.0)
            r.storages[number - 1][3] = MADE
    r.alive, r.kept = {}, {}
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
            "left": [first.at("left", i + 1)[0] for i in range(len(first.storages))],
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
        "widened": list(first.widened),
        "widened_for": [n for pair in first.widened_for if not first.widened[pair[0]] for n in pair],
        "within": list(first.within or ()),
        "saved": [number for pair in dict.fromkeys(first.saves) for number in pair],
        "saves": {
            "module": [m for m, _ in first.saves],
            "storage": [n for _, n in first.saves],
            **{what: [first.at(what, i)[0] for i in range(len(first.saves))] for what in ("at", "used", "until")},
        },
        "visits": {
            "module": first.visits,
            "calls": [first.at(what, i)[0] for i in range(len(first.visits)) for what in ("enter", "leave")],
            "saves": [first.at(what, i)[1] for i in range(len(first.visits)) for what in ("enter", "leave")],
        },
        "shapes": [list(s) for s in shapes.values()],
        "strings": strings.values(),
    }


def in_place(r):
    """Autograd adds to a gradient in place where nobody else has it (can_accumulate_inplace of torch/csrc/autograd/
    input_buffer.cpp), but not while a recorder looks. A view is never alone: what it is of has the storage too. So the
    gradient of a linear layer's weight, which comes as `.t()` of a product, is added to anew."""
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


def programs_of(step, sizes):
    """Of each structure its runs: (batch, length, what was recorded)."""
    programs = []
    for batch, length in sizes:
        r = step(batch, length)
        same = next((p for p in programs if alike(p[0][2], r)), None)
        if same is None:
            programs.append(same := [])
        same.append((batch, length, r))
    return programs


def called(r):  # but for the update, which in a first step makes states
    return [c[:3] for c in r.calls if c[1] != UPDATE], [m for m, _ in r.saves]


def built(make_model, mode):
    """The model. Of fake tensors it is made of them; where its code looks at data even as it makes the network, as
    timm's RegNet at its widths, it is made in truth, and its weights become fake ones then."""
    try:
        with Recorder(torch.nn.Module()):
            return make_model().train()
    except SystemExit:
        if not mode:
            raise
    with unset_fake_temporarily():
        model = make_model().train()
    return model._apply(mode.from_tensor)


def switched(make_model, make_optimizer, step_of, sizes, plain):
    """Numbers of the modules that the model's own library computes again where that is switched on. Where its code
    does otherwise then, as T5, which wants gradients of a bias, also programs of such steps, each module once."""
    found = set()
    try:
        model = make_model()
        with noting_again(model, found):
            step = step_of(model, make_optimizer(model))
            first = step(*sizes[0])
            return sorted(found), programs_of(step, sizes) if found and called(first) != called(plain) else []
    except (Exception, SystemExit) as e:
        print(f"record.py: which modules the library computes again is not known: {e}", file=sys.stderr)
        return [], []


def count_within(runs, narrow):
    """Sizes of the storages that stand for what calls have within themselves, and behind each for what they would have
    with floats of the other type."""
    recorded = [r for r in runs if r.within]
    calls = dict.fromkeys(c for r in recorded for c in r.within.values())
    others = {c: in_other_type(c, narrow) for c in calls}
    bytes_of = within(dict.fromkeys([*calls, *others.values()])) if recorded else {}
    for r in recorded:
        for number, c in r.within.items():
            for which, call in ((number, c), (number + 1, others[c])):
                size = bytes_of.get(call, bytes_of.get(c, 0))
                r.storages[which - 1][1:3] = (size,), size


def record(make_model, make_batch, loss_of, make_optimizer, batches=(1, 2, 3), lengths=(1024, 512),
           autocast=None, device="cuda", fake=True, number=None, held=None, out="step.json"):
    """Of make_batch(size, length) for each size with the first length, and for the last but one with the others: sizes
    and lengths that were not recorded are computed from these. device="cpu": as a CPU does it. fake=False: computed in
    truth, for models whose code depends on data. number=1.0: what code is told that looks at a number, as for a log.
    held(model): a module beside the model whose weights are there and not trained, or nothing."""
    sizes = [(b, lengths[0]) for b in batches] + [(batches[-2:][0], n) for n in lengths[1:]]
    mode = FakeTensorMode(allow_non_fake_inputs=True) if fake else None

    def make():
        return built(make_model, mode)

    def loss(model, batch):
        with torch.autocast("cpu", autocast) if autocast else contextlib.nullcontext():
            return loss_of(model, batch)

    def step_of(model, optimizer):
        module = held(model) if held else None
        beside = [*module.parameters(), *module.buffers()] if module else []
        return lambda size, length: run(model, optimizer, loss, make_batch(size, length), number, device, beside)

    with mode or contextlib.nullcontext(), as_on(device), moving() if fake else contextlib.nullcontext():
        model = make()
        optimizer = make_optimizer(model)
        step = step_of(model, optimizer)
        step(*sizes[0])  # which makes the optimizer's states
        programs = programs_of(step, sizes)
        trained = [name for name, p in model.named_parameters() if p.requires_grad]
        again, others = switched(make, make_optimizer, step_of, sizes, programs[0][0][2])
        count_within((r for p in programs + others for _, _, r in p), autocast or torch.bfloat16)
    r = programs[-1][-1][2]
    assumed = sorted(set().union(*(r.assumed for p in programs + others for _, _, r in p)))
    head = {"snug_step": VERSION, "torch": torch.__version__, "device": device, "model": type(model).__name__,
            "autocast": str(autocast)[6:] if autocast else "", "optimizer": type(optimizer).__name__,
            "modules": [list(m) for m in r.modules], "entered": r.entered, "again": again,
            "trained": trained, "assumed": assumed}
    write(out, head | {"programs": [program(p) for p in programs] + [{"switched": 1} | program(p) for p in others]})
    for what in assumed:
        print(f"assumed: {what}", file=sys.stderr)
    print(f"{out}: {len(r.calls):,} calls; batches and lengths of one structure: "
          + "; ".join(", ".join(f"{b} x {n}" for b, n, _ in p) for p in programs), file=sys.stderr)
