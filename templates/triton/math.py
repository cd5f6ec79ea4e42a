"""Elementwise mathematics on float32 blocks, right in the interpreter and compiled alike."""

import triton
import triton.language as tl


@triton.jit
def _tl_floordiv(x, y):
    # whole numbers; the quotient of the hardware truncates
    q = x // y
    r = x - q * y
    return tl.where((r != 0) & ((r < 0) != (y < 0)), q - 1, q)


@triton.jit
def _tl_mod(x, y):
    return x - _tl_floordiv(x, y) * y


@triton.jit
def _tl_floordiv_real(x, y):
    q = tl.floor(x / y)
    # the quotient was rounded: at a multiple of y it may be one off
    r = x - q * y
    q = tl.where((r != 0) & ((r < 0) != (y < 0)), q - 1, q)
    return tl.where((r / y) >= 1, q + 1, q)


@triton.jit
def _tl_mod_real(x, y):
    return x - _tl_floordiv_real(x, y) * y


@triton.jit
def _tl_powi(x, n: tl.constexpr):
    # x^n for a whole n >= 0, by squaring
    square = x
    power = 1
    for bit in tl.static_range(7):
        if (n >> bit) & 1:
            power = power * square
        if (n >> bit) > 1:
            square = square * square
    return power


@triton.jit
def _tl_pow(x, y):
    size = tl.exp2(y * tl.log2(tl.abs(x)))
    half = y * 0.5
    odd = (y == tl.floor(y)) & (half != tl.floor(half))
    signed = tl.where(odd, -size, size)
    signed = tl.where(y == tl.floor(y), signed, float("nan"))
    return tl.where(y == 0, 1.0, tl.where(x < 0, signed, size))


@triton.jit
def _tl_log1p(x):
    # for x >= 0; the rounding of 1 + x is corrected by its quotient
    u = 1 + x
    return tl.where(u == 1, x, tl.log(u) * (x / tl.where(u == 1, 1.0, u - 1)))


@triton.jit
def _tl_tanh(x):
    z = x * x
    p = -5.70498872745e-3 * z + 2.06390887954e-2
    p = p * z - 5.37397155531e-2
    p = p * z + 1.33314422036e-1
    p = p * z - 3.33332819422e-1
    small = p * z * x + x
    e = tl.exp(-2 * tl.abs(x))
    large = (1 - e) / (1 + e)
    return tl.where(tl.abs(x) < 0.625, small, tl.where(x < 0, -large, large))


@triton.jit
def _tl_sigmoid(x):
    return 1 / (1 + tl.exp(-x))


@triton.jit
def _tl_softplus(x):
    return _tl_relu(x) + _tl_log1p(tl.exp(-tl.abs(x)))


@triton.jit
def _tl_log_sigmoid(x):
    return -_tl_softplus(-x)


@triton.jit
def _tl_relu(x):
    return tl.where(x <= 0, 0.0, x)


@triton.jit
def _tl_elu(x):
    # exp(x) - 1 = 2 t / (1 - t) with t = tanh(x / 2), exact near 0
    t = _tl_tanh(0.5 * tl.where(x > 0, 0.0, x))
    return tl.where(x > 0, x, 2 * t / (1 - t))


@triton.jit
def _tl_silu(x):
    return x * _tl_sigmoid(x)


@triton.jit
def _tl_gelu(x):
    return 0.5 * x * (1 + tl.erf(x * 0.7071067811865476))


@triton.jit
def _tl_minimum(x, y):
    return tl.minimum(x, y, propagate_nan=tl.PropagateNan.ALL)


@triton.jit
def _tl_maximum(x, y):
    return tl.maximum(x, y, propagate_nan=tl.PropagateNan.ALL)


@triton.jit
def _tl_clamp(x, low, high):
    return _tl_minimum(_tl_maximum(x, low), high)
