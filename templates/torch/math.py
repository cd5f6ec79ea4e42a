"""Rows lie on the last axis, numbers have none for them; any argument may be a Python number."""

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
    cos, sin = torch.cos(angle), torch.sin(angle)
    turned = (first * cos - second * sin, first * sin + second * cos)
    return _concat(*turned, rest) if rest.shape[-1] else _concat(*turned)
