"""Specs built from expressions, for tests of the parts behind the front end."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from attnc.ir.expr import (
    Expr,
    Index,
    IndexName,
    Role,
    Row,
    RowName,
    Tensor,
    TensorDecl,
    call,
    reads,
)
from attnc.ir.facts import Factorized, Facts, FormFact, MaskFacts, NotFactorized, Sign
from attnc.ir.ops import Op
from attnc.ir.sizes import Size
from attnc.ir.spec import Align, AttnSpec, Form, Normalizer, Read
from attnc.ir.types import Kind
from attnc.passes.lower_reference import factors
from attnc.source import Source

D_K, D_V = Size.of("d_k"), Size.of("d_v")
Q, K = Row(RowName.Q, D_K), Row(RowName.K, D_K)
V, O = Row(RowName.V, D_V), Row(RowName.O, D_V)  # noqa: E741
I, J, H, B = (  # noqa: E741
    Index(n) for n in (IndexName.QUERY, IndexName.KEY, IndexName.HEAD, IndexName.BATCH)
)
QK = call(Op.DOT, Q, K)
CAUSAL = call(Op.LE, J, I)
ROLES = {Kind.FLOAT: Role.PARAM, Kind.INT: Role.INPUT, Kind.BOOL: Role.INPUT}


def declare(name: str, *dims: str | int, kind: Kind = Kind.FLOAT) -> TensorDecl:
    return TensorDecl(name, ROLES[kind], kind, tuple(Size.of(d) for d in dims))


def read(decl: TensorDecl, *axes: Expr | None, runs: bool = False) -> Tensor:
    return Tensor(decl, axes, runs)


def both(left: Expr, *rest: Expr, op: Op = Op.AND) -> Expr:
    for right in rest:
        left = call(op, left, right)
    return left


def spec(**fields: Any) -> AttnSpec:
    """Softmax attention, causal, aligned at the lower right, but for the fields given."""
    plain = AttnSpec(
        name="a",
        source=Source("a.attn", ""),
        tensors=(),
        lets=(),
        query=Q,
        key=K,
        value=V,
        similarity=call(Op.EXP, QK),
        mask=CAUSAL,
        align=Align.LOWER_RIGHT,
        decay=None,
        beta=None,
        read=Read.AFTER,
        normalizer=Normalizer(),
        output=O,
    )
    return replace(plain, **fields)


def facts(made: AttnSpec, phi: Expr | None = None, psi: Expr | None = None) -> Facts:
    """What the passes would find, for a similarity that is phi @ psi where these are given."""
    pairs = tuple(f for f in factors(made.mask) if reads(f, IndexName.QUERY))
    runs = tuple(f for f in pairs if any(isinstance(c, Tensor) and c.runs for c in f.children))
    rest = [f for f in pairs if f not in runs]
    causal = rest == [CAUSAL]
    forms: tuple[Form, ...] = ()
    if phi is not None and (causal or not pairs):
        forms = (Form.CHUNKWISE, Form.RECURRENT)
    single = phi is not None
    factorization = Factorized(phi, psi, single) if phi and psi else NotFactorized("", None)
    mask = MaskFacts((), pairs, runs, causal, causal, None, None, None, None)
    channels = made.decay is not None and bool(made.decay.type.shape)
    found = tuple(FormFact(f, "") for f in forms)
    log_decay = None if made.decay is None else _log(made.decay)
    return Facts(made.similarity, None, factorization, Sign.ANY, log_decay, channels, mask, found)


def _log(decay: Expr) -> Expr:
    match decay.children:
        case (x,) if getattr(decay, "op", None) is Op.EXP:
            return x
        case (x,) if getattr(decay, "op", None) is Op.SIGMOID:
            return call(Op.LOG_SIGMOID, x)
    return call(Op.LOG, decay)
