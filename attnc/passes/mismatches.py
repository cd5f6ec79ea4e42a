"""TypeMismatch -> what to tell the user."""

from __future__ import annotations

from collections.abc import Sequence

from attnc.ir.expr import Expr, Row
from attnc.ir.ops import FUNCTIONS, INFIX, Op, Shape
from attnc.ir.types import Mismatch, TypeMismatch

CODES = {
    Mismatch.SIZES: "E206",
    Mismatch.ROW_NOT_NUMBER: "E207",
    Mismatch.NUMBER_NOT_ROW: "E208",
    Mismatch.BOOLEAN_NOT_NUMBER: "E209",
    Mismatch.NUMBER_NOT_BOOLEAN: "E209",
    Mismatch.ARITY: "E205",
    Mismatch.CONSTANT: "E221",
    Mismatch.MATRIX: "E222",
}
SOFTMAX_HINT = (
    "attention's softmax over the keys is written `similarity = exp(q @ k / sqrt(d_k))` with "
    "`normalizer = on`"
)
REDUCED = {
    Op.SUM: "sums the entries of one row; the sum over the keys is made by the language itself",
    Op.MEAN: "is the mean of one row",
    Op.AMAX: "is the largest entry of one row; of two numbers it is max(x, y)",
    Op.NORM: "is the length of one row; of a number it is abs(x)",
    Op.SIZE: "counts the entries of one row",
}


def explain(error: TypeMismatch, texts: Sequence[str], args: Sequence[Expr]) -> tuple[str, str]:
    """Message and hint; `texts` are the arguments as written."""
    op, n = error.op, error.argument
    text = texts[n] if n < len(texts) else ""
    name = op.info.spelling
    match error.what:
        case Mismatch.SIZES:
            return _sizes(error, texts, args)
        case Mismatch.ROW_NOT_NUMBER:
            return f"`{name}` wants a number, and `{text}` is {error.found}", _to_number(args[n])
        case Mismatch.NUMBER_NOT_ROW if op is Op.SOFTMAX:
            return f"softmax works over one row, and `{text}` is a single number", SOFTMAX_HINT
        case Mismatch.NUMBER_NOT_ROW if op is Op.DOT:
            hint = "a product of numbers, or of a number and a row, is written `*`"
            return f"`@` is the dot product of two rows, and `{text}` is a number", hint
        case Mismatch.NUMBER_NOT_ROW:
            hint = (
                f"`{name}` {REDUCED[op]}"
                if op in REDUCED
                else "a number becomes a row of one by concat(x)"
            )
            return f"`{name}` wants a row, and `{text}` is a number", hint
        case Mismatch.BOOLEAN_NOT_NUMBER:
            hint = f"write `where({text}, 1, 0)` for a number"
            return f"`{name}` wants a number, and `{text}` is {error.found}", hint
        case Mismatch.NUMBER_NOT_BOOLEAN:
            literal = text.replace(".", "").isdigit()
            hint = "write a condition, e.g. `i < 4`" if literal else f"compare it: `{text} > 0`"
            return f"`{name}` wants a boolean, and `{text}` is {error.found}", hint
        case Mismatch.CONSTANT:
            hint = "only numbers, `let`s and sizes are known when the module is made"
            return f"`{text}` is not a whole number known at compile time", hint
        case Mismatch.MATRIX if op is Op.MATMUL:
            hint = "declare it with two axes of its own, e.g. `param W : [m, d_k]`"
            return f"matmul wants a matrix first, and `{text}` is {error.found}", hint
        case Mismatch.MATRIX:
            hint = f"a matrix stands only in `matmul({text}, x)`; index it for a row or a number"
            return f"`{text}` is {error.found}", hint
    return f"wrong number of arguments for `{name}`", arity_hint(op)


def _sizes(error: TypeMismatch, texts: Sequence[str], args: Sequence[Expr]) -> tuple[str, str]:
    op, sizes = error.op, error.detail
    if op is Op.MATMUL:
        return f"matmul's matrix has rows of another size than `{texts[1]}`: {sizes}", (
            "W : [m, n] takes rows of n"
        )
    if op is Op.ROTATE:
        hint = "angles of a row x are made of range(size(x) // 2)"
        return f"rotate wants half as many angles as the row has entries: {sizes}", hint
    where = f"`{op.info.spelling}` of rows of different sizes: {sizes}"
    rows = [arg for arg in args if isinstance(arg, Row)]
    hint = "cut one by x[0:m], or join entries to it by concat(x, 0)"
    if len(rows) == 2:
        hint = "q and k are rows of d_k, v and o of d_v"
    return where, hint


def _to_number(arg: Expr) -> str:
    return "a row becomes a number by `x @ y`, sum(x), norm(x), or x[0]"


def arity_hint(op: Op) -> str:
    """How the operation is called."""
    if op.info.arity is None:
        return f"write `{op.info.spelling}(x, y, ...)`"
    named = {Op.CLAMP: "x, low, high", Op.WHERE: "condition, x, y", Op.MATMUL: "W, x",
             Op.ROTATE: "x, angle", Op.ROLL: "x, n", Op.RANGE: "n"}  # fmt: skip
    hint = f"write `{op.info.spelling}({named.get(op, ', '.join('xyz'[: op.info.arity]))})`"
    if op in (Op.MIN, Op.MAX):
        return hint + "; the largest entry of a row is amax(x)"
    return hint


# what people write for a word of ours
NAME_SLIPS = {
    "true": "there is no such word: a clause has `on` and `off`, a mask of all pairs is `none`",
    "false": "there is no such word: a clause has `on` and `off`",
    "True": "there is no such word: a clause has `on` and `off`, a mask of all pairs is `none`",
    "False": "there is no such word: a clause has `on` and `off`",
    "None": "write `none`",
    "dot": "the dot product is written `x @ y`",
    "pow": "a power is written `x^2`",
    "maximum": "the larger of two numbers is max(x, y)",
    "minimum": "the smaller of two numbers is min(x, y)",
    "cat": "rows are joined by concat(x, y)",
    "concatenate": "rows are joined by concat(x, y)",
    "normalize": "a row of length 1 is unit(x)",
    "l2norm": "a row of length 1 is unit(x)",
    "l2_norm": "a row of length 1 is unit(x)",
    "rmsnorm": "write rms(x)",
    "layernorm": "write rms(center(x))",
    "rsqrt": "write 1 / sqrt(x)",
    "square": "a square is written `x^2`",
    "log1p": "write log(1 + x)",
    "expm1": "write exp(x) - 1",
    "exp2": "write 2^x",
    "ln": "the natural logarithm is log(x)",
    "logsigmoid": "write log_sigmoid(x)",
    "swish": "write silu(x)",
    "identity": "leave it out: the identity needs no function",
    "arange": "the row 0, 1, .. n - 1 is range(n)",
    "len": "the size of a row is size(x)",
    "length": "the size of a row is size(x)",
    "d": "the size of a row of q and k is d_k, of v d_v",
    "D": "the size of a row of q and k is d_k, of v d_v",
    "dk": "the size of a row of q and k is d_k",
    "dv": "the size of a row of v is d_v",
    "d_head": "the size of a row of q and k is d_k, of v d_v",
    "head_dim": "the size of a row of q and k is d_k, of v d_v",
    "d_model": "an attention sees heads only: the size of a row of q and k is d_k",
    "T": "the number of keys is S, of rows L",
    "N": "the number of keys is S, of rows L",
    "t": "a position is i for a row, j for a key",
    "s": "a position is i for a row, j for a key",
    "Q": "rows are written in small letters: q",
    "K": "rows are written in small letters: k",
    "V": "rows are written in small letters: v",
    "e": "the exponential is exp(x)",
    "infinity": "write inf",
    "delta": "delta(beta) is a value of the clause `update`",
    "cumsum": "sums along the sequence are made by `decay`: a_t are its factors",
    "eps": "eps is written in `normalizer = on(eps = 1e-6)`",
    "alibi": "ALiBi is a decay: `param slope : [H]` and `decay = exp(-slope[h])`",
    "full": "a mask without condition is `none`",
    "local": "write `window(128)`",
    "sliding_window": "write `window(128)`",
    "document": "write `same(doc)` with `input doc : int [B, S]`",
    "padding": "write `keys(lengths)` with `input lengths : int [B]`",
    "if": "write where(condition, x, y)",
    "transpose": "q @ k is the dot product of two rows: nothing is transposed",
}
CALLABLE = frozenset(FUNCTIONS)
ELEMENTWISE = frozenset(
    name for name, op in FUNCTIONS.items() if op.info.shape is Shape.ELEMENTWISE
)
assert not CALLABLE & frozenset(INFIX)
