"""A module whose attention is two Triton kernels that need not be right, only compiled."""

import torch
import triton
import triton.language as tl

FORMS = ("parallel",)


@triton.jit
def copied(p_x, p_y, n, SIZE: tl.constexpr):
    o = tl.program_id(0) * SIZE + tl.arange(0, SIZE)
    m = o < n
    tl.store(p_y + o, tl.load(p_x + o, mask=m, other=0.0), mask=m)


@triton.jit
def product(p_x, p_y, d, TILE: tl.constexpr):
    o = tl.arange(0, TILE)
    m = (o < d)[None, :]
    x = tl.load(p_x + o[:, None] * d + o[None, :], mask=m, other=0.0)
    tl.store(p_y + o[:, None] * TILE + o[None, :], tl.dot(x, x, input_precision="ieee"))


def reference(q, k, v):
    return v


class _Copy(torch.autograd.Function):
    @staticmethod
    def forward(ctx, q, k, v):
        o = torch.empty_like(v)
        ctx.shapes = q.shape, k.shape, v.shape
        copied[(triton.cdiv(v.numel(), 128),)](v, o, v.numel(), SIZE=128)
        return o

    @staticmethod
    def backward(ctx, do):
        d = do.shape[-1]
        y = do.new_empty(16, 16, dtype=torch.float32)
        product[(1,)](do, y, d, TILE=16)
        return tuple(do.new_zeros(shape) for shape in ctx.shapes)


def attention(q, k, v, *, form, backend):
    return _Copy.apply(q, k, v)
