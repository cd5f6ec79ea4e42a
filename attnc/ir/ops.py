"""The one vocabulary of operations. What is known of an operation stands in its row here.

Adding an elementary function is one row, and its spelling in each dialect (emit/dialects.py) and in
the judge (ir/meaning.py); tests demand all of them.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from enum import Enum

INF = math.inf


class Shape(Enum):
    """What an operation does to shapes and kinds."""

    ARITHMETIC = "numbers or rows, a number is spread over a row; integers stay integers"
    DIVISION = "as ARITHMETIC, the result is never an integer"
    POWER = "as ARITHMETIC, an integer only for a literal exponent >= 0"
    ELEMENTWISE = "as ARITHMETIC, the result is floating point"
    COMPARISON = "two numbers to a boolean, element by element over rows"
    LOGICAL = "booleans to a boolean, element by element over rows"
    CHOICE = "where(boolean, x, y), element by element over rows"
    REDUCTION = "a row to a number"
    ROW_MAP = "a row to a row of the same size"
    DOT = "two rows of one size to a number"
    STRUCTURAL = "has a rule of its own in ir/types.py"


@dataclass(frozen=True, slots=True)
class Info:
    """One row of the table.

    `derivatives` has one text per argument, in the language itself, over x, y, z; only for
    operations that work element by element. `interval` bounds the result whatever the arguments
    are; `monotone` says that the result grows with its one argument. `python` is the function of
    Python numbers, for constants and interval arithmetic.
    """

    spelling: str
    arity: int | None  # None: any number of arguments, at least one
    shape: Shape
    precedence: int | None = None  # of an infix or prefix operator; functions have none
    derivatives: tuple[str, ...] = ()
    interval: tuple[float, float] = (-INF, INF)
    monotone: bool = False
    python: Callable[..., float] | None = None


def _softplus(x: float) -> float:
    return max(x, 0.0) + math.log1p(math.exp(-abs(x)))


def _sigmoid(x: float) -> float:
    return 1 / (1 + math.exp(-x)) if x >= 0 else math.exp(x) / (1 + math.exp(x))


def _exp(x: float) -> float:
    return math.exp(x) if x < 709.78 else INF


def _log(x: float) -> float:
    return math.log(x) if x > 0 else -INF


def _gelu(x: float) -> float:
    return x * 0.5 * (1 + math.erf(x / math.sqrt(2)))


def _silu(x: float) -> float:
    return x * _sigmoid(x)


# precedences, loosest first; the printer and `attnc fmt` both read them
OR, AND, NOT, COMPARE, SUM, PRODUCT, NEGATION, POWER, ATOM = range(1, 10)


class Op(Enum):
    """Every operation. `op.info` is its row."""

    OR = Info("or", 2, Shape.LOGICAL, OR)
    AND = Info("and", 2, Shape.LOGICAL, AND)
    NOT = Info("not", 1, Shape.LOGICAL, NOT)
    LT = Info("<", 2, Shape.COMPARISON, COMPARE)
    LE = Info("<=", 2, Shape.COMPARISON, COMPARE)
    GT = Info(">", 2, Shape.COMPARISON, COMPARE)
    GE = Info(">=", 2, Shape.COMPARISON, COMPARE)
    EQ = Info("==", 2, Shape.COMPARISON, COMPARE)
    NE = Info("!=", 2, Shape.COMPARISON, COMPARE)

    ADD = Info("+", 2, Shape.ARITHMETIC, SUM, ("1", "1"))
    SUB = Info("-", 2, Shape.ARITHMETIC, SUM, ("1", "-1"))
    MUL = Info("*", 2, Shape.ARITHMETIC, PRODUCT, ("y", "x"))
    DIV = Info("/", 2, Shape.DIVISION, PRODUCT, ("1 / y", "-x / y^2"))
    FLOORDIV = Info("//", 2, Shape.ARITHMETIC, PRODUCT, ("0", "0"))
    MOD = Info("%", 2, Shape.ARITHMETIC, PRODUCT, ("1", "-(x // y)"))
    DOT = Info("@", 2, Shape.DOT, PRODUCT)
    NEG = Info("-", 1, Shape.ARITHMETIC, NEGATION, ("-1",))
    POW = Info("^", 2, Shape.POWER, POWER, ("y * x^(y - 1)", "x^y * log(x)"))

    EXP = Info("exp", 1, Shape.ELEMENTWISE, None, ("exp(x)",), (0, INF), True, _exp)
    LOG = Info("log", 1, Shape.ELEMENTWISE, None, ("1 / x",), (-INF, INF), True, _log)
    LOG2 = Info(
        "log2", 1, Shape.ELEMENTWISE, None, ("1 / (x * log(2))",), (-INF, INF), True,
        lambda x: _log(x) / math.log(2),
    )  # fmt: skip
    SQRT = Info(
        "sqrt", 1, Shape.ELEMENTWISE, None, ("1 / (2 * sqrt(x))",), (0, INF), True,
        lambda x: math.sqrt(x) if x >= 0 else math.nan,
    )  # fmt: skip
    ABS = Info(
        "abs", 1, Shape.ARITHMETIC, None, ("where(x > 0, 1, where(x < 0, -1, 0))",), (0, INF),
        python=abs,
    )  # fmt: skip
    SIN = Info("sin", 1, Shape.ELEMENTWISE, None, ("cos(x)",), (-1, 1), python=math.sin)
    COS = Info("cos", 1, Shape.ELEMENTWISE, None, ("-sin(x)",), (-1, 1), python=math.cos)
    TANH = Info("tanh", 1, Shape.ELEMENTWISE, None, ("1 - tanh(x)^2",), (-1, 1), True, math.tanh)
    SIGMOID = Info(
        "sigmoid", 1, Shape.ELEMENTWISE, None, ("sigmoid(x) * sigmoid(-x)",), (0, 1), True, _sigmoid
    )
    LOG_SIGMOID = Info(
        "log_sigmoid", 1, Shape.ELEMENTWISE, None, ("sigmoid(-x)",), (-INF, 0), True,
        lambda x: -_softplus(-x),
    )  # fmt: skip
    RELU = Info(
        "relu", 1, Shape.ELEMENTWISE, None, ("where(x > 0, 1, 0)",), (0, INF), True,
        lambda x: max(x, 0.0),
    )  # fmt: skip
    ELU = Info(
        "elu", 1, Shape.ELEMENTWISE, None, ("where(x > 0, 1, exp(min(x, 0)))",), (-1, INF), True,
        lambda x: x if x > 0 else math.expm1(x),
    )  # fmt: skip
    SILU = Info(
        "silu", 1, Shape.ELEMENTWISE, None, ("sigmoid(x) * (1 + x * sigmoid(-x))",),
        (-0.2784645427610738, INF), python=_silu,
    )  # fmt: skip
    GELU = Info(
        "gelu", 1, Shape.ELEMENTWISE, None,
        ("(1 + erf(x / sqrt(2))) / 2 + x * exp(-x^2 / 2) / sqrt(2 * pi)",),
        (-0.1699712074, INF), python=_gelu,
    )  # fmt: skip
    SOFTPLUS = Info(
        "softplus", 1, Shape.ELEMENTWISE, None, ("sigmoid(x)",), (0, INF), True, _softplus
    )
    ERF = Info(
        "erf", 1, Shape.ELEMENTWISE, None, ("2 * exp(-x^2) / sqrt(pi)",), (-1, 1), True, math.erf
    )
    FLOOR = Info(
        "floor", 1, Shape.ARITHMETIC, None, ("0",), (-INF, INF), True,
        lambda x: float(math.floor(x)) if math.isfinite(x) else x,
    )  # fmt: skip
    MIN = Info(
        "min", 2, Shape.ARITHMETIC, None,
        ("where(x < y, 1, where(x > y, 0, 0.5))", "where(y < x, 1, where(y > x, 0, 0.5))"),
        python=min,
    )  # fmt: skip
    MAX = Info(
        "max", 2, Shape.ARITHMETIC, None,
        ("where(x > y, 1, where(x < y, 0, 0.5))", "where(y > x, 1, where(y < x, 0, 0.5))"),
        python=max,
    )  # fmt: skip
    CLAMP = Info(
        "clamp", 3, Shape.ARITHMETIC, None,
        ("where(x >= y and x <= z, 1, 0)", "where(x < y and y < z, 1, 0)",
         "where(x > z or y >= z, 1, 0)"),
        python=lambda x, low, high: min(max(x, low), high),
    )  # fmt: skip
    WHERE = Info("where", 3, Shape.CHOICE)

    SUM = Info("sum", 1, Shape.REDUCTION)
    MEAN = Info("mean", 1, Shape.REDUCTION)
    AMAX = Info("amax", 1, Shape.REDUCTION)
    NORM = Info("norm", 1, Shape.REDUCTION, interval=(0, INF))
    SOFTMAX = Info("softmax", 1, Shape.ROW_MAP, interval=(0, 1))
    SIZE = Info("size", 1, Shape.STRUCTURAL, interval=(0, INF))

    CONCAT = Info("concat", None, Shape.STRUCTURAL)
    OUTER = Info("outer", 2, Shape.STRUCTURAL)
    ROLL = Info("roll", 2, Shape.STRUCTURAL)
    SLICE = Info("slice", 4, Shape.STRUCTURAL)  # x[start:stop:step], written out
    ELEMENT = Info("element", 2, Shape.STRUCTURAL)  # x[n] of a row that is no tensor
    RANGE = Info("range", 1, Shape.STRUCTURAL, interval=(0, INF))
    MATMUL = Info("matmul", 2, Shape.STRUCTURAL)
    ROTATE = Info("rotate", 2, Shape.STRUCTURAL)
    # all products of n elements, each once, times the root of how often it occurs, in the order of
    # itertools.combinations_with_replacement: power(x, n) @ power(y, n) = (x @ y)^n. Made by the
    # compiler; the language has no name for it
    SYMMETRIC_POWER = Info("symmetric_power", 2, Shape.STRUCTURAL)

    @property
    def info(self) -> Info:
        value: Info = self.value
        return value

    @property
    def is_infix(self) -> bool:
        return self.info.precedence is not None


# functions that a spec may call by name; where several rows share a spelling it is an operator's
FUNCTIONS: dict[str, Op] = {
    op.info.spelling: op
    for op in Op
    if op.info.precedence is None and op not in (Op.SLICE, Op.ELEMENT, Op.SYMMETRIC_POWER)
}
INFIX: dict[str, Op] = {op.info.spelling: op for op in Op if op.is_infix and op.info.arity == 2}
COMPARISONS = (Op.LT, Op.LE, Op.GT, Op.GE, Op.EQ, Op.NE)
RIGHT_ASSOCIATIVE = (Op.POW,)
