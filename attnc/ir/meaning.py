"""The truth: an AttnSpec in numpy, float64, straight from the definition in docs/language.md.

Clear before fast. It knows no form, no kernel and no pass; every form and the generated reference
are compared with it.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace

import numpy as np

from attnc.ir.expr import Call, Expr, IndexName, RowName, call, reads
from attnc.ir.numeric import Array, Env, evaluate
from attnc.ir.ops import Op
from attnc.ir.placing import History, Matrix, Places, own_row, place, sees_past
from attnc.ir.spec import AttnSpec, Read

__all__ = ["Env", "History", "Matrix", "Outcome", "evaluate", "meaning"]


@dataclass(frozen=True)
class Outcome:
    """o [B, H, L, d]; lse [B, H, L] where the weight has an exponential and a normalizer;
    `weights` [B, H, L, S] as they multiply v (None for delta); `state` to go on from."""

    o: Array
    lse: Array | None
    weights: Array | None
    state: History


def meaning(
    spec: AttnSpec,
    q: Array,
    k: Array,
    v: Array,
    tensors: Mapping[str, Array] | None = None,
    state: History | Matrix | None = None,
) -> Outcome:
    """The attention of q [B, any heads, L, d_k] to k [.., S, d_k] and v [.., S, d_v]."""
    places = place(spec, q, k, v, dict(tensors or {}), state)
    with np.errstate(all="ignore"):
        if spec.beta is not None:
            num = _delta(spec, places, state if isinstance(state, Matrix) else None)
            return Outcome(_output(spec, places, num), None, None, places.tokens)
        weights, top = _weights(spec, places, _bound(spec, places))
        num, n = _sum_up(weights, places.tokens.v), weights.sum(-1)
        if isinstance(state, Matrix):
            num, n = _add_matrix(spec, places, num, n, state)
        if spec.normalizer is None:
            return Outcome(_output(spec, places, num), None, weights, places.tokens)
        divisor = _divisor(spec, places, n, top)[..., None]
        empty = divisor == 0
        o, weights = (np.where(empty, 0.0, x / divisor) for x in (num, weights))
        lse = None
        if top is not None:
            plain, top = _weights(spec, places, np.asarray(-np.inf))
            lse = np.log(plain.sum(-1)) + (0.0 if top is None else top[..., 0])
        return Outcome(_output(spec, places, o), lse, weights, places.tokens)


def _weights(spec: AttnSpec, places: Places, bound: Array) -> tuple[Array, Array | None]:
    """W_ij = M_ij D_ij sim(q_i, k_j). Where the similarity has an exponential and there is a
    normalizer, the weights are divided by exp(top), top being the row's largest exponent or
    `bound`, so that they do not overflow."""
    mask, decay = places.mask, places.decay
    if decay is not None and decay.ndim == 5:
        phi, psi = _sides(spec.similarity, places.env)
        pairs = (phi * np.exp(decay) * psi).sum(-1)
        return np.where(mask, pairs, 0.0), None
    exponent, factor = _exponent(spec.similarity)
    rest = 1.0 if factor is None else evaluate(factor, places.env)
    e = np.zeros(()) if exponent is None else np.asarray(evaluate(exponent, places.env))
    e = np.where(mask, e if decay is None else e + decay, -np.inf)
    if exponent is None or spec.normalizer is None:
        return np.where(mask, np.exp(e) * rest, 0.0), None
    top = np.maximum(e.max(-1, keepdims=True, initial=-np.inf), bound)
    shift = np.where(top == -np.inf, 0.0, top)
    return np.where(mask, np.exp(e - shift) * rest, 0.0), shift


def _bound(spec: AttnSpec, places: Places) -> Array:
    """log of eps or floor: the running maximum is at least that."""
    if spec.normalizer is None:
        return np.asarray(-np.inf)
    least = spec.normalizer.eps or spec.normalizer.floor
    if least is None:
        return np.asarray(-np.inf)
    return np.log(np.asarray(evaluate(least, places.env), np.float64))


def _sum_up(weights: Array, v: Array) -> Array:
    """sum_j W_ij v_j; a key that a row may not see does not touch it, whatever stands there."""
    if np.isfinite(v).all():
        return np.asarray(np.einsum("bhls,bhsd->bhld", weights, v))
    rows = [
        np.where(w[..., None] != 0, w[..., None] * v, 0.0).sum(2)
        for w in np.moveaxis(weights, 2, 0)
    ]
    return np.stack(rows, 2)


def _divisor(spec: AttnSpec, places: Places, n: Array, top: Array | None) -> Array:
    """N(n), divided by exp(top) as n is."""
    assert spec.normalizer is not None
    scale = 1.0 if top is None else np.exp(-top[..., 0])
    if spec.normalizer.eps is not None:
        return n + _per_row(spec.normalizer.eps, places) * scale
    if spec.normalizer.floor is not None:
        return np.maximum(np.abs(n), _per_row(spec.normalizer.floor, places) * scale)
    return n


def _per_row(number: Expr, places: Places) -> Array:
    """A number without keys in it, over [B, H, L]."""
    value = np.asarray(evaluate(number, places.env), np.float64)
    return value[..., 0] if value.ndim else value


def _output(spec: AttnSpec, places: Places, o: Array) -> Array:
    rows = {
        **places.env.rows,
        RowName.O: o[:, :, :, None],
        RowName.OWN_K: own_row(places, places.tokens.k),
        RowName.OWN_V: own_row(places, places.tokens.v),
    }
    row = evaluate(spec.output, replace(places.env, rows=rows))
    return np.broadcast_to(row, (*o.shape[:3], 1, row.shape[-1]))[:, :, :, 0].copy()


def _exponent(expr: Expr) -> tuple[Expr | None, Expr | None]:
    """Splits a product into e and f with expr = exp(e) * f; None stands for 0 and 1."""
    match expr:
        case Call(Op.EXP, (x,)):
            return x, None
        case Call(Op.MUL, (x, y)):
            (e, f), (g, w) = _exponent(x), _exponent(y)
            return _joined(Op.ADD, e, g), _joined(Op.MUL, f, w)
        case Call(Op.DIV, (x, y)):
            (e, f), (g, w) = _exponent(x), _exponent(y)
            return _joined(Op.SUB, e, g), _joined(Op.DIV, f, w)
        case Call(Op.POW, (Call(Op.EXP, (x,)), n)):
            return call(Op.MUL, x, n), None
    return None, expr


def _joined(op: Op, left: Expr | None, right: Expr | None) -> Expr | None:
    if right is None:
        return left
    if left is None:
        return right if op in (Op.ADD, Op.MUL) else call(op, 0 if op is Op.SUB else 1, right)
    return call(op, left, right)


def _on_keys(expr: Expr) -> bool:
    of_keys = reads(expr, IndexName.KEY, RowName.K, RowName.V)
    return of_keys and not reads(expr, IndexName.QUERY, RowName.Q)


def _sides(similarity: Expr, env: Env) -> tuple[Array, Array]:
    """phi [B, H, L, 1, C] and psi [B, H, 1, S, C] of one product A @ B with one-sided factors."""
    match similarity:
        case Call(Op.DOT, (x, y)):
            phi, psi = (y, x) if _on_keys(x) else (x, y)
            return np.asarray(evaluate(phi, env), float), np.asarray(evaluate(psi, env), float)
        case Call(Op.NEG, (x,)):
            phi_row, psi_row = _sides(x, env)
            return -phi_row, psi_row
        case Call(Op.MUL | Op.DIV as op, (x, y)):
            product, factor = (x, y) if op is Op.DIV or _has_product(x) else (y, x)
            phi_row, psi_row = _sides(product, env)
            value = np.asarray(evaluate(factor, env), np.float64)[..., None]
            value = 1 / value if op is Op.DIV else value
            return (phi_row, psi_row * value) if _on_keys(factor) else (phi_row * value, psi_row)
    raise ValueError("the similarity is no single product of rows")


def _has_product(expr: Expr) -> bool:
    if isinstance(expr, Call) and expr.op is Op.DOT:
        return reads(expr, RowName.Q) and reads(expr, RowName.K)
    return any(_has_product(c) for c in expr.children)


def _add_matrix(
    spec: AttnSpec, places: Places, num: Array, n: Array, state: Matrix
) -> tuple[Array, Array]:
    """Adds what the state of earlier tokens gives each row."""
    phi = np.asarray(evaluate(state.phi, places.env), np.float64)[:, :, :, 0]
    phi = np.broadcast_to(phi, (*num.shape[:3], phi.shape[-1]))
    if places.carried is not None:
        channels = places.carried.ndim == 5
        phi = phi * np.exp(places.carried[:, :, :, 0] if channels else places.carried)
    phi = np.where(sees_past(spec, places), phi, 0.0)
    num = num + np.einsum("bhlc,bhcd->bhld", phi, state.S)
    return num, n if state.z is None else n + np.einsum("bhlc,bhc->bhl", phi, state.z)


def _delta(spec: AttnSpec, places: Places, state: Matrix | None) -> Array:
    """Each row runs through the keys before it; one that it may not see decays but writes not."""
    phi, psi = _sides(spec.similarity, places.env)
    v, beta = places.tokens.v, places.tokens.beta
    assert beta is not None
    B, H, L, S = places.mask.shape
    phi = np.broadcast_to(phi, (B, H, L, 1, phi.shape[-1]))
    psi = np.broadcast_to(psi, (B, H, 1, S, psi.shape[-1]))
    beta = np.broadcast_to(beta, (B, H, 1, S))
    start = np.zeros((B, H, psi.shape[-1], v.shape[-1])) if state is None else state.S
    last = places.position[:, 0] - (spec.read is Read.BEFORE)
    seen = np.broadcast_to(sees_past(spec, places), (B, H, L, 1))
    rows = []
    for i in range(L):
        memory = start * seen[:, :, i, :, None]
        for t in np.flatnonzero(places.key <= last[i]):
            if places.tokens.log_decay is not None:
                memory = memory * _one_decay(places.tokens.log_decay, int(t))
            key = psi[:, :, 0, t]
            missing = v[:, :, t] - np.einsum("bhcd,bhc->bhd", memory, key)
            write = np.einsum("bh,bhc,bhd->bhcd", beta[:, :, 0, t], key, missing)
            memory = memory + np.where(places.mask[:, :, i, t, None, None], write, 0.0)
        rows.append(np.einsum("bhcd,bhc->bhd", memory, phi[:, :, i, 0]))
    return np.stack(rows, 2) if rows else np.zeros((B, H, 0, v.shape[-1]))


def _one_decay(log_decay: Array, t: int) -> Array:
    """a_t over [B, H, C, d]."""
    a = np.exp(log_decay[:, :, 0, min(t, log_decay.shape[3] - 1)])
    return a[..., None] if log_decay.ndim == 5 else a[..., None, None]
