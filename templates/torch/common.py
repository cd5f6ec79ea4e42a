"""What the kernels' callers share."""

import contextlib
import functools

import torch


def _ceil(x, y):
    return -(-x // y)


def _power_of_two(x):
    return max(16, 1 << (x - 1).bit_length())


def _dense(x):
    # the kernels step over the elements of a row one by one, over rows by any stride
    return x if x.stride(-1) == 1 else x.contiguous()


def _expanded(heads, *rows):
    # query head h reads head h // (heads / own); computed in float32, or in float64
    dtype = torch.promote_types(rows[0].dtype, torch.float32)
    return [x.to(dtype).repeat_interleave(heads // x.shape[1], 1) for x in rows]


def _own_heads(gradient, x):
    # the sum over the query heads that read one head, in x's dtype
    heads = gradient.shape[1]
    if heads != x.shape[1]:
        gradient = gradient.unflatten(1, (x.shape[1], heads // x.shape[1])).sum(2)
    return gradient.to(x.dtype)


def _gradient_of(x, heads):
    # one for each query head; several are added in float32
    dtype = x.dtype if x.shape[1] == heads else torch.float32
    return x.new_empty(x.shape[0], heads, *x.shape[2:], dtype=dtype)


def _strides(q, k, v, heads):
    # of batch, head and row of each, then how many query heads read one head of it
    strides = [x.stride(axis) for x in (q, k, v) for axis in range(3)]
    return (*strides, *(heads // x.shape[1] for x in (q, k, v)))


def _launch(kernel, grid, *arguments, **constants):
    if 0 in grid:
        return
    precision = _PRECISION
    if torch.version.hip and precision == "tf32x3":
        precision = "bf16x6"  # what AMD's matrix cores have in its place
    if arguments[0].dtype == torch.float16 and not torch.version.hip:
        precision = "tf32"  # as exact as float16, where an operand is too large for it
    device = arguments[0].device
    with contextlib.nullcontext() if device.type == "cpu" else torch.cuda.device(device):
        kernel[grid](*arguments, **constants, PRECISION=precision, enable_fp_fusion=True)


def _pair_tiles(dtype, d_k, d_v):
    # float32 products take no tensor cores and more registers
    columns = {"BK": _power_of_two(d_k), "BV": _power_of_two(d_v)}
    widest = max(columns.values())
    rows = 64 if widest <= 128 else 32
    if dtype == torch.float32:
        rows //= 2
    return {"BL": rows, "BS": rows, **columns}


def _without_autocast(function):
    # autocast has cast the inputs; what is accumulated stays in float32
    @functools.wraps(function)
    def call(q, *arguments, **keywords):
        with torch.autocast(q.device.type, enabled=False):
            return function(q, *arguments, **keywords)

    return call


def _query_rows(x, B, H, L):
    # [B, H, L, size], from places [.., L, 1, size]
    return x.expand(B, H, L, 1, x.shape[-1])[:, :, :, 0]


def _key_rows(x, B, H, S):
    return x.expand(B, H, 1, S, x.shape[-1])[:, :, 0]


def _of_rows(x, B, H, L, dtype):
    # [B, H, L], from places [.., L, 1]
    return x.to(dtype).expand(B, H, L, 1)[..., 0].contiguous()


def _of_keys(x, B, H, S, dtype):
    return x.to(dtype).expand(B, H, 1, S)[:, :, 0].contiguous()


def _of_heads(x, B, H, dtype):
    return x.to(dtype).expand(B, H, 1, 1)[:, :, 0, 0].contiguous()


def _fade_state_torch(x, f):
    # x exp(f); near 1, where a rounded factor's error would add up, by what is lost
    return torch.where(f < -0.5, x * torch.exp(f), x + x * torch.expm1(f))
