"""What the public functions of a module check and share. The first names are a module's own."""

import difflib

import torch

FORMS, INTERPRETED, triton, _ABSENT = (), False, None, {}


def _refuse_unknown(unknown, *known):
    for name in unknown:
        near = difflib.get_close_matches(name, known, n=1)
        near = f"; did you mean {near[0]}?" if near else f"; known: {', '.join(known)}"
        raise TypeError(f"{name}: no such keyword{near}")


def _want_tensor(name, x, axes):
    # axes as written in a message: "[B, H, L, d_k]"
    if x is None:
        raise TypeError(f"{name}: missing; expected a tensor {axes}")
    if not isinstance(x, torch.Tensor):
        raise TypeError(f"{name}: expected a tensor {axes}, got {type(x).__name__}")
    if x.dim() != (axes.count(",") + 1 if axes != "[]" else 0):
        raise ValueError(f"{name}: expected {axes}, got the shape {list(x.shape)}")


def _want_like(name, x, of, like):
    if x.device != like.device:
        raise ValueError(f"{name}: expected it on {like.device} as {of}, got {x.device}")
    if x.dtype != like.dtype:
        raise TypeError(f"{name}: expected {like.dtype} as {of} has, got {x.dtype}")


def _want_size(name, word, size, wanted):
    if size != wanted:
        raise ValueError(f"{name}: expected {word} = {wanted}, got {size}")


def _check_rows(q, k, v, axes, heads):
    """The sizes by name; `axes` is the order of the axes of q, k and v, "BHLd" or "BLHd"."""
    at = {word: n for n, word in enumerate(axes)}
    names = (("q", q, "Hq", "L", "d_k"), ("k", k, "G", "S", "d_k"), ("v", v, "Gv", "S", "d_v"))
    for name, x, *words in names:
        shown = {"B": "B", "H": words[0], "L": words[1], "d": words[2]}
        _want_tensor(name, x, f"[{', '.join(shown[word] for word in axes)}]")
        if x.dtype not in (torch.float32, torch.float16, torch.bfloat16, torch.float64):
            raise TypeError(f"{name}: expected a floating dtype, got {x.dtype}")
        _want_like(name, x, "q", q)
        _want_size(name, "B", x.shape[0], q.shape[0])
    _want_size("k", "d_k as q has", k.shape[3], q.shape[3])
    _want_size("v", "S as k has", v.shape[at["L"]], k.shape[at["L"]])
    own = {name: x.shape[at["H"]] for name, x, *_ in names}
    H = heads or max(own.values())
    for name, count in own.items():
        if not count or H % count:
            raise ValueError(f"{name}: expected heads that divide H = {H}, got {count}")
    return {
        "B": q.shape[0],
        "H": H,
        "G": own["k"],
        "L": q.shape[at["L"]],
        "S": k.shape[at["L"]],
        "d_k": q.shape[3],
        "d_v": v.shape[3],
    }


def _size_of(name, x, axis, axes):
    _want_tensor(name, x, axes)
    return x.shape[axis]


def _check_tensor(name, x, kind, axes, shape, q):
    _want_tensor(name, x, axes)
    if x.device != q.device:
        raise ValueError(f"{name}: expected it on {q.device} as q, got {x.device}")
    shape = tuple(max(size, 0) for size in shape)
    if tuple(x.shape) != shape:
        raise ValueError(f"{name}: expected {axes} = {list(shape)}, got {list(x.shape)}")
    whole = not (x.dtype.is_floating_point or x.dtype.is_complex or x.dtype is torch.bool)
    fits = {"float": x.dtype.is_floating_point, "int": whole, "bool": x.dtype is torch.bool}
    if not fits[kind]:
        raise TypeError(f"{name}: expected a tensor of {kind}, got {x.dtype}")
    if x.dtype is torch.float64 and q.dtype is not torch.float64:
        raise TypeError(f"{name}: expected {q.dtype} as q has, or float32, got {x.dtype}")


def _refuse_lse(return_lse):
    if return_lse:
        raise ValueError("return_lse: only with similarity = exp(..) and normalizer = on")


def _results(o, lse, state, return_lse, return_state):
    more = [x for x, wanted in ((lse, return_lse), (state, return_state)) if wanted]
    return (o, *more) if more else o


def _has_autocast(device_type):
    return torch.amp.is_autocast_available(device_type)


def _autocast(x):
    kind = x.device.type
    if x.dtype is torch.float64 or not (_has_autocast(kind) and torch.is_autocast_enabled(kind)):
        return x
    return x.to(torch.get_autocast_dtype(kind))


def _as_computed(x):
    # the dtypes are chosen: autocast shall not choose others inside
    kind = x.device.type
    return torch.autocast(kind if _has_autocast(kind) else "cpu", enabled=False)


def _form(form):
    if form is None or form in FORMS:
        return form
    reason = f": {_ABSENT[form]}" if form in _ABSENT else ""
    raise ValueError(f"form: expected one of {', '.join(FORMS)}, got {form!r}{reason}")


def _backend(backend, q, v):
    if backend not in (None, "triton", "torch"):
        raise ValueError(f'backend: expected "triton" or "torch", got {backend!r}')
    on_gpu = q.device.type == "cuda" or (INTERPRETED and q.device.type == "cpu")
    if backend is None:
        fits = triton is not None and on_gpu and q.dtype is not torch.float64
        backend = "triton" if fits else "torch"
    if backend == "torch":
        return backend
    if q.dtype is torch.float64:
        raise TypeError('backend: "triton" has no float64; "torch" has')
    if triton is None:
        raise ValueError('backend: "triton" is not installed; "torch" is what there is')
    if not on_gpu:
        raise ValueError(
            f'backend: "triton" needs tensors on a GPU, got {q.device} (TRITON_INTERPRET=1, set'
            " before this module is imported, runs it on the CPU, slowly)"
        )
    for name, word, x in (("q", "d_k", q), ("v", "d_v", v)):
        if x.shape[3] > 256:
            raise ValueError(
                f'{name}: expected {word} <= 256 for the backend "triton", got {x.shape[3]};'
                ' backend = "torch" takes any'
            )
    return backend


def _agreed(name, given, fixed, default=None):
    # a size that the spec may fix
    if None not in (given, fixed) and given != fixed:
        raise ValueError(f"{name}: expected {fixed} as the spec says, got {given}")
    for size in (given, fixed, default):
        if size is not None:
            return size
    raise ValueError(f"{name}: missing; the spec leaves it open")


def _as_step(name, x, axes, axis):
    # a tensor of one token gets the axis of a sequence of one
    _want_tensor(name, x, axes)
    return x.unsqueeze(axis)
