"""What the states of a module need. The first names are a module's own."""

import dataclasses

import torch

State, _Room = None, None


def _check_state(state):
    if not isinstance(state, State):
        raise TypeError(
            "initial_state: expected a State of this module, as init_state and return_state give"
            f" it, got {type(state).__name__}"
        )
    return state.length


def _check_sums(state, n, shape, q):
    for name, x, wanted in (("S", state.S, shape), ("z", state.z, shape[:3])):
        if x is not None and tuple(x.shape) != wanted:
            raise ValueError(f"initial_state.{name}: expected {list(wanted)}, got {list(x.shape)}")
        if x is not None and x.device != q.device:
            raise ValueError(f"initial_state.{name}: expected it on {q.device}, got {x.device}")
    if n["L"] > n["S"]:
        raise ValueError(
            f"q: expected L <= S = {n['S']} beside a state, got {n['L']} rows: the state does not"
            " hold what a row before the new keys would see"
        )


def _check_held(state, names, fresh, axes):
    # beside those of earlier tokens the new tensors may differ in the number of tokens alone
    held = [None] * len(fresh) if state is None else state.held()
    for name, x, axis, old in zip(names, fresh, axes, held, strict=True):
        if old is None:
            continue
        shape = list(old.shape)
        shape[axis] = x.shape[axis]
        if list(x.shape) != shape:
            raise ValueError(f"{name}: expected {shape} beside this state, got {list(x.shape)}")
        if old.device != x.device:
            raise ValueError(f"{name}: expected it on {old.device} as the state, got {x.device}")
        if old.dtype != x.dtype and state.length:
            raise TypeError(f"{name}: expected {old.dtype} as in the state, got {x.dtype}")


def _state_dtype(dtype):
    return torch.promote_types(dtype or torch.get_default_dtype(), torch.float32)


def _forgotten(past, ids, axis, last, axes, H):
    """The sums as the new tokens see them: 0 where a new run of ids begins with these."""
    if last is None or not ids.shape[axis]:
        return past
    # [B or 1, H or 1]
    fresh = ids.select(axis, 0) != last
    sizes = [(word, size) for word, size in zip(axes, fresh.shape, strict=True) if word in "BHG"]
    fresh = fresh.reshape([size for _, size in sizes])
    words = "".join(word for word, _ in sizes)
    if len(words) == 2 and words[1] == "B":
        fresh, words = fresh.mT, words[::-1]
    fresh = fresh if "B" in words else fresh[None]
    fresh = fresh if words.strip("B") else fresh[..., None]
    if "G" in words:
        fresh = fresh.repeat_interleave(H // fresh.shape[1], 1)
    places = (fresh[..., None, None], fresh[..., None])
    return tuple(
        x if x is None else torch.where(p, 0, x) for x, p in zip(past, places, strict=True)
    )


def _tensors_of(state):
    return () if state is None else tuple(x for x in state.held() if x is not None)


def _last(x, axis, before):
    # the value at the last token; that of the state where no token came
    return x.select(axis, -1) if x.shape[axis] else before


def _map_tensors(change, state):
    return torch.utils._pytree.tree_map_only(torch.Tensor, change, state)


def _moved(x, *args, **kwargs):
    # numbers that are not floating keep their dtype
    if x.is_floating_point():
        return x.to(*args, **kwargs)
    return x.to(torch.empty(0, device=x.device).to(*args, **kwargs).device)


def _picked(x, indices, axis):
    indices = torch.as_tensor(indices, device=x.device)
    return x[(slice(None),) * axis + (indices if indices.dim() else indices[None],)]


def _pytree_node(cls):
    """Registers a state: its tensors are leaves, its length is part of the structure."""
    pytree = torch.utils._pytree
    names = [f.name for f in dataclasses.fields(cls) if f.name not in ("length", "room")]

    def flatten(state):
        return [getattr(state, name) for name in names], state.length

    def flatten_with_keys(state):
        return [(pytree.GetAttrKey(name), getattr(state, name)) for name in names], state.length

    def unflatten(leaves, length):
        return cls(**dict(zip(names, leaves, strict=True)), length=length)

    pytree.register_pytree_node(
        cls,
        flatten,
        unflatten,
        flatten_with_keys_fn=flatten_with_keys,
        serialized_type_name=f"{cls.__module__}.{cls.__qualname__}",
    )
    return cls


def _append(state, fresh, axes, in_place):
    """The tensors of all tokens, and the room that they lie in, None where they have no spare."""
    length = 0 if state is None else state.length
    held = (
        state.held()
        if length
        else tuple(x.narrow(a, 0, 0) for x, a in zip(fresh, axes, strict=True))
    )
    if not in_place:
        pairs = zip(held, fresh, axes, strict=True)
        return tuple(torch.cat([old, new], axis) for old, new, axis in pairs), None
    total = length + fresh[0].shape[axes[0]]
    room = None if state is None else state.room
    if room is None or not room.takes(length, total):
        room = _Room(total if room is None else room.grown(total))
        room.fill(held, axes, 0)
    room.fill(fresh, axes, length)
    return tuple(x.narrow(a, 0, total) for x, a in zip(room.buffers, axes, strict=True)), room


def _may_append(*tensors):
    # with gradients, or in a graph, nothing is changed in place
    if torch.compiler.is_compiling():
        return False
    return not (torch.is_grad_enabled() and any(x.requires_grad for x in tensors))
