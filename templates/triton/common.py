"""What every kernel uses: products, and tiles that are 0 beyond their edges."""

import triton
import triton.language as tl


@triton.jit
def _product(x, y, PRECISION: tl.constexpr):
    # the interpreter keeps bfloat16 as integers, and its product of two such blocks is wrong
    if _INTERPRETED or x.dtype != y.dtype:
        x, y = x.to(tl.float32), y.to(tl.float32)
    return tl.dot(x, y, input_precision=PRECISION, out_dtype=tl.float32)


@triton.jit
def _cast(x, dtype: tl.constexpr):
    # the interpreter cuts bfloat16 off where the hardware rounds to the nearest, ties to even
    if _INTERPRETED and dtype == tl.bfloat16 and x.dtype == tl.float32:
        bits = x.to(tl.int32, bitcast=True)
        bits = (bits + 0x7FFF + ((bits >> 16) & 1)) & -0x10000
        x = bits.to(tl.float32, bitcast=True)
    return x.to(dtype)


@triton.jit
def _operand(x, dtype: tl.constexpr):
    # of a product with inputs of this dtype; what a sequence sums up may be more than float16
    # holds, and stays in float32
    return x if dtype == tl.float16 else _cast(x, dtype)


@triton.jit
def _tile(p, stride, o_rows, m_rows, o_columns, m_columns):
    # [rows, columns]; offsets are int64: a long sequence has more than 2^31 elements
    places = o_rows[:, None].to(tl.int64) * stride + o_columns[None, :]
    return tl.load(p + places, mask=m_rows[:, None] & m_columns[None, :], other=0.0)


@triton.jit
def _put(p, stride, o_rows, m_rows, o_columns, m_columns, x):
    places = o_rows[:, None].to(tl.int64) * stride + o_columns[None, :]
    tl.store(p + places, _cast(x, p.dtype.element_ty), mask=m_rows[:, None] & m_columns[None, :])


@triton.jit
def _within(x, m_rows, m_columns):
    # a feature of the padding need not be 0
    return tl.where(m_rows[:, None] & m_columns[None, :], x, 0.0)
