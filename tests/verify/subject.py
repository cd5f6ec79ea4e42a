"""Causal linear attention with elu + 1, by hand, with the public functions of a generated module.

What the verification is tested on: its lines are replaced by wrong ones.
"""

from dataclasses import dataclass, replace

import torch

FORMS = ("parallel", "chunkwise")
CHUNK = 64


@dataclass(frozen=True)
class State:
    S: torch.Tensor
    z: torch.Tensor
    length: int


def _phi(x):
    return torch.where(x > 0, x + 1, torch.exp(torch.clamp(x, max=0)))


def _heads(x, heads):
    return x.repeat_interleave(heads // x.shape[1], 1)


def _prepared(q, k, v, dtype):
    q, k, v = q.to(dtype), k.to(dtype), v.to(dtype)
    heads = max(q.shape[1], k.shape[1])
    return _phi(q), _phi(_heads(k, heads)), _heads(v, heads)


def _divide(o, n):
    safe = torch.where(n == 0, 1, n)
    return torch.where(n == 0, 0, o / safe)


def init_state(batch, heads=None, kv_heads=None, d_k=None, d_v=None, capacity=None, device=None,
               dtype=None):  # fmt: skip
    S = torch.zeros(batch, heads, d_k, d_v, dtype=dtype, device=device)
    return State(S, S[..., 0].clone(), 0)


def reference(q, k, v, *, initial_state=None, return_state=False):
    dtype = torch.promote_types(q.dtype, torch.float32)
    phi, psi, x = _prepared(q, k, v, dtype)
    L, S = q.shape[2], k.shape[2]
    mask = torch.arange(S) <= torch.arange(L)[:, None] + S - L
    weight = torch.where(mask, phi @ psi.mT, 0)
    o, n = weight @ x, weight.sum(-1, keepdim=True)
    state = State(psi.mT @ x, psi.sum(2), S)
    if initial_state is not None:
        o, n = o + phi @ initial_state.S, n + phi @ initial_state.z[..., None]
        state = _joined(state, initial_state)
    o = _divide(o, n).to(q.dtype)
    return (o, state) if return_state else o


def _joined(new, old):
    return State(new.S + old.S, new.z + old.z, new.length + old.length)


def attention(q, k, v, *, form=None, backend=None, initial_state=None, return_state=False):
    phi, psi, x = _prepared(q, k, v, torch.float32)
    past = initial_state or init_state(
        q.shape[0], phi.shape[1], None, q.shape[3], v.shape[3], dtype=torch.float32
    )
    run = _parallel if form == "parallel" else _chunkwise
    o, n, state = run(phi, psi, x, past)
    o = _divide(o, n).to(q.dtype)
    return (o, state) if return_state else o


def _parallel(phi, psi, x, past):
    L, S = phi.shape[2], psi.shape[2]
    seen = torch.ones(L, S, dtype=torch.bool).tril(S - L)
    weight = torch.where(seen, phi @ psi.mT, 0)
    o = weight @ x + phi @ past.S
    n = weight.sum(-1, keepdim=True) + phi @ past.z[..., None]
    return o, n, _joined(State(psi.mT @ x, psi.sum(2), S), past)


def _chunkwise(phi, psi, x, past):
    L, S = phi.shape[2], psi.shape[2]
    if L != S:
        return _parallel(phi, psi, x, past)
    outs, sums, state = [phi[:, :, :0] @ past.S], [phi[:, :, :0] @ past.z[..., None]], past
    for first in range(0, S, CHUNK):
        end = min(first + CHUNK, S)
        a, b, c = phi[:, :, first:end], psi[:, :, first:end], x[:, :, first:end]
        weight = (a @ b.mT).tril()
        outs.append(weight @ c + a @ state.S)
        sums.append(weight.sum(-1, keepdim=True) + a @ state.z[..., None])
        state = replace(_joined(State(b.mT @ c, b.sum(2), end - first), state))
    return torch.cat(outs, 2), torch.cat(sums, 2), state


def step(q, k, v, state):
    o, state = attention(
        q[:, :, None], k[:, :, None], v[:, :, None], form="parallel", initial_state=state,
        return_state=True,
    )  # fmt: skip
    return o[:, :, 0], state
