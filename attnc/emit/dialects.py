"""How each target spells the operations: one table per dialect.

A row is an infix or prefix operator with its precedence, or a format of a call. Names that begin
with an underscore are helpers: templates/torch/math.py and templates/triton/math.py define them,
and `attnc.emit.helpers.needed` picks those that a text uses.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from attnc.ir.ops import Op

# Python's precedences, loosest first; both dialects are Python
LOOSE, COMPARE, BIT_OR, BIT_AND, SUM, PRODUCT, UNARY, POWER, ATOM = range(9)


@dataclass(frozen=True, slots=True)
class Infix:
    symbol: str
    level: int


@dataclass(frozen=True, slots=True)
class Prefix:
    symbol: str
    level: int = UNARY


@dataclass(frozen=True, slots=True)
class Apply:
    """A format with a hole per argument; `{args}` stands for all of them. Arguments are bracketed
    where `tight`, as before a dot or an index."""

    text: str
    tight: bool = False


Spelling = Infix | Prefix | Apply


@dataclass(frozen=True, slots=True)
class Dialect:
    """A target's spellings.

    `integer` replaces a row where the result is a whole number, `static` where nothing but
    constants and dims is read and the dialect has Python numbers for them. `cast` makes a whole
    number a real one, `lift` a Python number a tensor, `spread` lays a number along a row. `absent`
    names the operations that never reach the target.
    """

    name: str
    spellings: Mapping[Op, Spelling]
    integer: Mapping[Op, Spelling]
    static: Mapping[Op, Spelling]
    cast: Apply
    lift: Apply
    lift_whole: Apply
    spread: Apply
    infinity: str
    largest: float  # constants beyond it are infinite, and those below 1 / `largest` are 0
    absent: frozenset[Op] = field(default=frozenset())


OPERATORS: dict[Op, Spelling] = {
    Op.OR: Infix("|", BIT_OR),
    Op.AND: Infix("&", BIT_AND),
    Op.NOT: Prefix("~"),
    Op.LT: Infix("<", COMPARE),
    Op.LE: Infix("<=", COMPARE),
    Op.GT: Infix(">", COMPARE),
    Op.GE: Infix(">=", COMPARE),
    Op.EQ: Infix("==", COMPARE),
    Op.NE: Infix("!=", COMPARE),
    Op.ADD: Infix("+", SUM),
    Op.SUB: Infix("-", SUM),
    Op.MUL: Infix("*", PRODUCT),
    Op.DIV: Infix("/", PRODUCT),
    Op.NEG: Prefix("-"),
}

# the text expects `dtype` (of real numbers) and `device` in scope
TORCH = Dialect(
    name="torch",
    spellings=OPERATORS
    | {
        Op.FLOORDIV: Apply("_floordiv({0}, {1})"),
        Op.MOD: Apply("_mod({0}, {1})"),
        Op.POW: Infix("**", POWER),
        Op.EXP: Apply("torch.exp({0})"),
        Op.LOG: Apply("torch.log({0})"),
        Op.LOG2: Apply("torch.log2({0})"),
        Op.SQRT: Apply("torch.sqrt({0})"),
        Op.ABS: Apply("torch.abs({0})"),
        Op.SIN: Apply("torch.sin({0})"),
        Op.COS: Apply("torch.cos({0})"),
        Op.TANH: Apply("torch.tanh({0})"),
        Op.SIGMOID: Apply("torch.sigmoid({0})"),
        Op.LOG_SIGMOID: Apply("torch.nn.functional.logsigmoid({0})"),
        Op.RELU: Apply("torch.relu({0})"),
        Op.ELU: Apply("torch.nn.functional.elu({0})"),
        Op.SILU: Apply("torch.nn.functional.silu({0})"),
        Op.GELU: Apply("torch.nn.functional.gelu({0})"),
        Op.SOFTPLUS: Apply("_softplus({0})"),
        Op.ERF: Apply("torch.erf({0})"),
        Op.FLOOR: Apply("torch.floor({0})"),
        Op.MIN: Apply("_minimum({0}, {1})"),
        Op.MAX: Apply("_maximum({0}, {1})"),
        Op.CLAMP: Apply("_clamp({0}, {1}, {2})"),
        Op.WHERE: Apply("torch.where({0}, {1}, {2})"),
        Op.DOT: Apply("_dot({0}, {1})"),
        Op.SUM: Apply("{0}.sum(-1)", tight=True),
        Op.MEAN: Apply("{0}.mean(-1)", tight=True),
        Op.AMAX: Apply("{0}.amax(-1)", tight=True),
        Op.NORM: Apply("torch.linalg.vector_norm({0}, dim=-1)"),
        Op.SOFTMAX: Apply("torch.softmax({0}, -1)"),
        Op.SIZE: Apply("{0}.shape[-1]", tight=True),
        Op.CONCAT: Apply("_concat({args})"),
        Op.OUTER: Apply("_outer({0}, {1})"),
        Op.ROLL: Apply("torch.roll({0}, {1}, -1)"),
        Op.SLICE: Apply("{0}[..., {1}:{2}:{3}]", tight=True),
        Op.ELEMENT: Apply("{0}[..., {1}]", tight=True),
        Op.RANGE: Apply("torch.arange({0}, device=device)"),
        Op.MATMUL: Apply("_matmul({0}, {1})"),
        Op.ROTATE: Apply("_rotate({0}, {1})"),
        Op.SYMMETRIC_POWER: Apply("_symmetric_power({0}, {1})"),
    },
    integer={
        Op.FLOORDIV: Infix("//", PRODUCT),
        Op.MOD: Infix("%", PRODUCT),
        Op.FLOOR: Apply("torch.floor({0}).long()"),
    },
    static={
        Op.OR: Infix("|", BIT_OR),
        Op.AND: Infix("&", BIT_AND),
        Op.NOT: Apply("(not {0})"),
        Op.FLOORDIV: Infix("//", PRODUCT),
        Op.MOD: Infix("%", PRODUCT),
        Op.EXP: Apply("math.exp({0})"),
        # a length may be 0
        Op.LOG: Apply("(math.log({0}) if {0} > 0 else -math.inf)"),
        Op.LOG2: Apply("(math.log2({0}) if {0} > 0 else -math.inf)"),
        Op.SQRT: Apply("math.sqrt({0})"),
        Op.ABS: Apply("abs({0})"),
        Op.SIN: Apply("math.sin({0})"),
        Op.COS: Apply("math.cos({0})"),
        Op.TANH: Apply("math.tanh({0})"),
        Op.ERF: Apply("math.erf({0})"),
        Op.FLOOR: Apply("math.floor({0})"),
        Op.MIN: Apply("min({0}, {1})"),
        Op.MAX: Apply("max({0}, {1})"),
        Op.CLAMP: Apply("min(max({0}, {1}), {2})"),
        Op.WHERE: Apply("({1} if {0} else {2})"),
    },
    cast=Apply("{0}.to(dtype)", tight=True),
    lift=Apply("torch.tensor({0}, dtype=dtype, device=device)"),
    lift_whole=Apply("torch.tensor({0}, device=device)"),
    spread=Apply("{0}[..., None]", tight=True),
    infinity="math.inf",
    largest=1.7976931348623157e308,
)

# operations over whole rows: templates make these from `tl.sum`, products and index arithmetic
ROW_OPERATIONS = frozenset(
    {Op.DOT, Op.SUM, Op.MEAN, Op.AMAX, Op.NORM, Op.SOFTMAX, Op.SIZE, Op.CONCAT, Op.OUTER, Op.ROLL,
     Op.SLICE, Op.ELEMENT, Op.RANGE, Op.MATMUL, Op.ROTATE, Op.SYMMETRIC_POWER}
)  # fmt: skip

TRITON = Dialect(
    name="triton",
    spellings=OPERATORS
    | {
        Op.FLOORDIV: Apply("_tl_floordiv_real({0}, {1})"),
        Op.MOD: Apply("_tl_mod_real({0}, {1})"),
        Op.POW: Apply("_tl_pow({0}, {1})"),
        Op.EXP: Apply("tl.exp({0})"),
        Op.LOG: Apply("tl.log({0})"),
        Op.LOG2: Apply("tl.log2({0})"),
        Op.SQRT: Apply("tl.sqrt_rn({0})"),
        Op.ABS: Apply("tl.abs({0})"),
        Op.SIN: Apply("tl.sin({0})"),
        Op.COS: Apply("tl.cos({0})"),
        Op.TANH: Apply("_tl_tanh({0})"),
        Op.SIGMOID: Apply("_tl_sigmoid({0})"),
        Op.LOG_SIGMOID: Apply("_tl_log_sigmoid({0})"),
        Op.RELU: Apply("_tl_relu({0})"),
        Op.ELU: Apply("_tl_elu({0})"),
        Op.SILU: Apply("_tl_silu({0})"),
        Op.GELU: Apply("_tl_gelu({0})"),
        Op.SOFTPLUS: Apply("_tl_softplus({0})"),
        Op.ERF: Apply("tl.erf({0})"),
        Op.FLOOR: Apply("tl.floor({0})"),
        Op.MIN: Apply("_tl_minimum({0}, {1})"),
        Op.MAX: Apply("_tl_maximum({0}, {1})"),
        Op.CLAMP: Apply("_tl_clamp({0}, {1}, {2})"),
        Op.WHERE: Apply("tl.where({0}, {1}, {2})"),
    },
    integer={
        Op.FLOORDIV: Apply("_tl_floordiv({0}, {1})"),
        Op.MOD: Apply("_tl_mod({0}, {1})"),
        Op.POW: Apply("_tl_powi({0}, {1})"),
        Op.FLOOR: Apply("tl.floor({0}).to(tl.int32)"),
    },
    static={},
    cast=Apply("tl.cast({0}, tl.float32)"),
    lift=Apply("{0}"),
    lift_whole=Apply("{0}"),
    spread=Apply("{0}"),  # the names of a place have a block's axes already
    infinity='float("inf")',
    largest=2.0**126,
    absent=ROW_OPERATIONS,
)

DIALECTS = (TORCH, TRITON)
