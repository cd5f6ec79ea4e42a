"""One call in numpy: its tokens after the clauses, positions, mask and decay between all pairs.
The part of the truth (meaning.py) that comes before the weights."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace

import numpy as np

from attnc.ir.expr import Call, Expr, IndexName, RowName, Tensor, reads
from attnc.ir.numeric import Array, Env, evaluate
from attnc.ir.ops import Op
from attnc.ir.sizes import Size
from attnc.ir.spec import Align, AttnSpec, Read


@dataclass(frozen=True)
class History:
    """All tokens of earlier calls, as they entered: a going-on of any spec."""

    k: Array
    v: Array
    live: Array  # [B, H, 1, length]
    log_decay: Array | None  # [B, H, 1, length] or with a channel axis
    beta: Array | None
    tensors: Mapping[str, Array]  # the declared tensors over S alone

    @property
    def length(self) -> int:
        return int(self.k.shape[-2])


@dataclass(frozen=True)
class Matrix:
    """What factorized keys leave behind: S [B, H, C, d] and z [B, H, C] after `length` tokens.
    `before` has the last ids of the tensors that the mask compares by runs."""

    S: Array
    z: Array | None
    length: int
    phi: Expr
    psi: Expr
    before: Mapping[str, Array] = field(default_factory=dict)


@dataclass(frozen=True)
class Places:
    """One call's values: rows after the clauses, all tokens, positions."""

    env: Env  # over all pairs
    tokens: History
    position: Array  # [L, 1]
    key: Array  # [S]
    mask: Array  # [B, H, L, S], which pairs exist
    decay: Array | None  # its logarithm from each key to each row, [B, H, L, S] or with channels
    carried: Array | None  # the same from before the first token to each row
    size: int  # of an output row


def place(
    spec: AttnSpec,
    q: Array,
    k: Array,
    v: Array,
    tensors: dict[str, Array],
    state: History | Matrix | None,
) -> Places:
    dims = _dims(spec, q, k, v, tensors)
    length = state.length if state is not None else 0
    new = dims["S"]
    dims["S"] += length
    heads = dims["H"]
    q, k, v = (_spread_heads(np.asarray(x, np.float64), heads) for x in (q, k, v))
    position = np.arange(dims["L"])[:, None]
    position = position + (dims["S"] - dims["L"] if spec.align is Align.LOWER_RIGHT else length)
    indices: dict[IndexName, Array] = {
        IndexName.BATCH: np.arange(dims["B"])[:, None, None, None],
        IndexName.HEAD: np.arange(heads)[:, None, None],
        IndexName.KEY: np.arange(length, length + new),
        IndexName.QUERY: position,
    }
    before = state.before if isinstance(state, Matrix) else {}
    env = Env(dims, indices, {}, tensors, np.arange(dims["L"])[:, None], length, before)
    tokens = _tokens(spec, env, k, v)
    if isinstance(state, History):
        tokens = _joined(spec, state, tokens)
        indices = {**indices, IndexName.KEY: np.arange(dims["S"])}
        env = replace(env, indices=indices, tensors={**tensors, **tokens.tensors}, start=0)
    rows = {RowName.Q: q[:, :, :, None]}
    query = _over(evaluate(spec.query, replace(env, rows=rows)), (*q.shape[:3], 1))
    rows = {RowName.Q: query, RowName.K: tokens.k[:, :, None], RowName.V: tokens.v[:, :, None]}
    env = replace(env, rows=rows)
    return _places(spec, env, tokens)


def _places(spec: AttnSpec, env: Env, tokens: History) -> Places:
    """The pairs that exist and the decay between them."""
    shape = (*(env.dims[d] for d in ("B", "H", "L")), tokens.length)
    position, key = env.indices[IndexName.QUERY], env.indices[IndexName.KEY]
    mask = np.ones(shape, bool)
    for factor in _factors(spec.mask):
        if not _is_key_factor(factor):
            mask = mask & np.asarray(evaluate(factor, env), bool)
    last = position - (spec.read is Read.BEFORE)
    mask = mask & tokens.live & ((key <= last) | (spec.read is Read.AFTER))
    decay, carried = None, None
    if tokens.log_decay is not None:
        decay, carried = _fade(tokens.log_decay, key, last)
    size = tokens.v.shape[-1]
    return Places(env, tokens, position, key, mask, decay, carried, size)


def _dims(
    spec: AttnSpec, q: Array, k: Array, v: Array, tensors: Mapping[str, Array]
) -> dict[str, int]:
    heads = spec.heads or max(x.shape[1] for x in (q, k, v))
    dims = {"B": q.shape[0], "H": heads, "G": k.shape[1], "L": q.shape[2], "S": k.shape[2]}
    dims |= {"d_k": k.shape[3], "d_v": v.shape[3]}
    for decl in spec.tensors:
        for size, length in zip(decl.dims, tensors[decl.name].shape, strict=True):
            if size == Size.of(str(size)):
                dims.setdefault(str(size), length)
    return dims


def _spread_heads(x: Array, heads: int) -> Array:
    """Query head h reads head h // (heads / own)."""
    return np.repeat(x, heads // x.shape[1], 1)


def _over(x: Array, places: tuple[int, ...]) -> Array:
    """A row of its own for each place."""
    return np.broadcast_to(x, (*places, x.shape[-1]))


def _factors(mask: Expr | None) -> list[Expr]:
    match mask:
        case None:
            return []
        case Call(Op.AND, (left, right)):
            return _factors(left) + _factors(right)
    return [mask]


def _is_key_factor(factor: Expr) -> bool:
    return not reads(factor, IndexName.QUERY)


def _tokens(spec: AttnSpec, env: Env, k: Array, v: Array) -> History:
    """The call's own keys: what the clauses make of them, and which of them count."""
    places = (*k.shape[:2], 1, k.shape[2])
    live = np.ones(places, bool)
    for factor in _factors(spec.mask):
        if _is_key_factor(factor):
            live = live & np.asarray(evaluate(factor, env), bool)
    # whatever stands at a hidden place, NaN too, has no effect
    k, v = np.where(live[..., None], k[:, :, None], 0), np.where(live[..., None], v[:, :, None], 0)
    raw = replace(env, rows={RowName.K: k, RowName.V: v})
    key = np.where(live[..., None], _over(evaluate(spec.key, raw), places), 0)
    value = np.where(live[..., None], _over(evaluate(spec.value, raw), places), 0)
    made = replace(env, rows={RowName.K: key, RowName.V: value})
    log_decay, beta = None, None
    if spec.decay is not None:
        log_decay = np.minimum(_log(spec.decay, made), 0)
        hidden = ~live[..., None] if spec.decay.type.shape else ~live
        log_decay = np.where(hidden, 0.0, log_decay)
    if spec.beta is not None:
        beta = np.where(live, evaluate(spec.beta, made), 0.0)
    over_keys = {
        d.name: env.tensors[d.name]
        for d in spec.tensors
        if d.axis_of("S") is not None and d.axis_of("L") is None
    }
    return History(key[:, :, 0], value[:, :, 0], live, log_decay, beta, over_keys)


def _joined(spec: AttnSpec, past: History, new: History) -> History:
    """All tokens, in order."""

    def join(x: Array | None, y: Array | None, axis: int) -> Array | None:
        return None if x is None or y is None else np.concatenate([x, y], axis)

    tensors = {
        d.name: np.concatenate([past.tensors[d.name], new.tensors[d.name]], d.axis_of("S") or 0)
        for d in spec.tensors
        if d.name in new.tensors
    }
    return History(
        np.concatenate([past.k, new.k], 2),
        np.concatenate([past.v, new.v], 2),
        np.concatenate([past.live, new.live], 3),
        join(past.log_decay, new.log_decay, 3),
        join(past.beta, new.beta, 3),
        tensors,
    )


def _log(expr: Expr, env: Env) -> Array:
    """log of an expression, through the exponentials in it."""
    match expr:
        case Call(Op.EXP, (x,)):
            return np.asarray(evaluate(x, env), np.float64)
        case Call(Op.SIGMOID, (x,)):
            return -np.logaddexp(0, -np.asarray(evaluate(x, env), np.float64))
        case Call(Op.MUL, (x, y)) if not (x.type.shape or y.type.shape):
            return _log(x, env) + _log(y, env)
        case Call(Op.DIV, (x, y)) if not (x.type.shape or y.type.shape):
            return _log(x, env) - _log(y, env)
    return np.log(np.asarray(evaluate(expr, env), np.float64))


def _fade(log_decay: Array, key: Array, last: Array) -> tuple[Array, Array]:
    """For each row: the sum of log a_t over t = j + 1 .. last, for each key j and from before the
    first token. Summed from the row backwards, so that nothing cancels."""
    channels = log_decay.ndim == 5
    steps = log_decay if channels else log_decay[..., None]
    rows = []
    for p in last[:, 0]:
        used = np.where((key <= p)[:, None], steps[:, :, 0], 0.0)
        upto = np.flip(np.cumsum(np.flip(used, 2), 2), 2)  # the sum over t = j .. last
        rows.append(np.concatenate([upto, np.zeros_like(upto[:, :, :1])], 2))
    table = np.stack(rows, 2) if rows else np.zeros((*steps.shape[:2], 0, 1 + len(key), 1))
    fade, carried = table[:, :, :, 1:], table[:, :, :, :1]
    return (fade, carried) if channels else (fade[..., 0], carried[..., 0])


def sees_past(spec: AttnSpec, places: Places) -> Array:
    """Which rows see a state that stands for earlier tokens: those in the run of the last one."""
    seen = np.ones((1, 1, 1, 1), bool)
    for factor in _factors(spec.mask):
        match factor:
            case Call(Op.EQ, (Tensor(runs=True) as one, Tensor(runs=True) as other)):
                row = one if reads(one, IndexName.QUERY) else other
                seen = seen & (evaluate(row, places.env) == 0)
    return seen


def own_row(places: Places, rows: Array) -> Array:
    """For each row of the call the key or value at its own position, or 0."""
    at = np.clip(places.position[:, 0] - places.env.start, 0, max(rows.shape[2] - 1, 0))
    if not rows.shape[2]:
        return np.zeros((*rows.shape[:2], len(at), 1, rows.shape[3]))
    inside = np.isin(places.position, places.key)
    return np.where(inside, rows[:, :, at], 0.0)[:, :, :, None]
