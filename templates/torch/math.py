"""Rows lie on the last axis, numbers have none for them; any argument may be a Python number."""

import math

import torch


def _tensors(*values):
    like = next(x for x in values if isinstance(x, torch.Tensor))
    return [torch.as_tensor(x, dtype=like.dtype, device=like.device) for x in values]


def _minimum(x, y):
    return torch.minimum(*_tensors(x, y))


def _maximum(x, y):
    return torch.maximum(*_tensors(x, y))


def _clamp(x, low, high):
    return torch.clamp(*_tensors(x, low, high))


def _floordiv(x, y):
    return torch.div(*_tensors(x, y), rounding_mode="floor")


def _mod(x, y):
    return torch.remainder(*_tensors(x, y))


def _softplus(x):
    return -torch.nn.functional.logsigmoid(-x)


def _only(chosen, x):
    # x, with no gradient where it is not chosen
    return torch.where(chosen, x, x.detach())


def _dot(x, y):
    return torch.einsum("...d,...d->...", x, y)


def _matmul(weight, x):
    return torch.einsum("...mn,...n->...m", weight, x)


def _outer(x, y):
    return (x[..., :, None] * y[..., None, :]).flatten(-2)


def _symmetric_power(x, n):
    # all products of n elements, each once, times the root of how often it occurs
    sets = torch.combinations(torch.arange(x.shape[-1]), n, with_replacement=True)
    counts = (sets[:, :, None] == sets[:, None, :]).sum(-1).double()
    # n! / prod(c!) = n! / prod over places of c!^(1/c)
    log_often = math.lgamma(n + 1) - (torch.lgamma(counts + 1) / counts).sum(-1)
    often = torch.exp(log_often).round()
    return x[..., sets.to(x.device)].prod(-1) * often.sqrt().to(x)


def _unit(x):
    norm = torch.linalg.vector_norm(x, dim=-1, keepdim=True)
    empty = norm == 0
    return torch.where(empty, 0, x / torch.where(empty, 1, norm))


def _concat(*parts):
    like = next(x for x in parts if isinstance(x, torch.Tensor))
    parts = [torch.as_tensor(x, dtype=like.dtype, device=like.device) for x in parts]
    parts = [x if x.dim() else x[None] for x in parts]
    shape = torch.broadcast_shapes(*(x.shape[:-1] for x in parts))
    return torch.cat([x.expand(*shape, x.shape[-1]) for x in parts], -1)


def _rotate(x, angle):
    # turns the pairs (x_c, x_{c + size/2})
    half = x.shape[-1] // 2
    first, second, rest = x[..., :half], x[..., half : 2 * half], x[..., 2 * half :]
    cos, sin = torch.cos(angle).to(x.dtype), torch.sin(angle).to(x.dtype)
    turned = (first * cos - second * sin, first * sin + second * cos)
    return _concat(*turned, rest) if rest.shape[-1] else _concat(*turned)


def _runs(ids, axis, before):
    # how often the id has changed up to each token, from the last token of the state on
    ids = ids.movedim(axis, -1)
    before = ids[..., :1] if before is None else before[..., None].to(ids)
    runs = torch.cat([before, ids], -1).diff(dim=-1).ne(0).cumsum(-1)
    return runs.movedim(-1, axis)


def _heads(x, heads, dtype):
    # query head h reads head h // (heads / own)
    return x.to(dtype).repeat_interleave(heads // max(x.shape[1], 1), 1)


def _not_empty(x, axis):
    # a place to read, though nothing of it is used
    if x.shape[axis]:
        return x
    return x.new_zeros([max(n, 1) if a == axis else n for a, n in enumerate(x.shape)])


def _judged(live, known):
    # a key mask is judged when the key enters
    return live if known is None else torch.cat([known, live[..., known.shape[-1] :]], -1)


def _own(rows, at):
    # the row of the key at the query's own position, 0 where it has none
    inside = (at >= 0) & (at < rows.shape[3])
    rows = _not_empty(rows[:, :, 0], 2)[:, :, at[:, 0].clamp(0, max(rows.shape[3] - 1, 0))]
    return torch.where(inside, rows, 0)[:, :, :, None]


def _sum_after(x):
    # for each key the sum over all later ones; nothing cancels in it
    x = x.flip(3).cumsum(3).flip(3)
    return torch.cat([x[:, :, :, 1:], torch.zeros_like(x[:, :, :, :1])], 3)


def _top(exponent, bound):
    # the largest exponent of a row; 0 where there is none
    top = torch.nn.functional.pad(exponent, (0, 1), value=-math.inf).amax(-1, keepdim=True)
    top = _maximum(top, bound).detach()
    return torch.where(top == -math.inf, 0, top)


def _log_sum(exponent, factor):
    top = _top(exponent, -math.inf)
    total = (factor * torch.exp(exponent - top)).sum(-1, keepdim=True)
    empty = total == 0
    log = torch.log(torch.where(empty, 1, total)) + top
    return torch.where(empty, -math.inf, log)[..., 0]


def _divide(x, n):
    # 0 with gradient 0 where there is nothing to divide by
    empty = n == 0
    return torch.where(empty, 0, x / torch.where(empty, 1, n))


def _decayed(memory, log_decay):
    # one number for a state, or one per channel
    decay = torch.exp(log_decay)
    return memory * decay.reshape(*decay.shape, *[1] * (memory.dim() - decay.dim()))
