"""What is known of the leaves of a spec's expressions: intervals, and what the rows are made of."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace

from attnc.ir.expr import Dim, Expr, Index, IndexName, Row, RowName, substitute
from attnc.ir.sizes import Size
from attnc.ir.spec import AttnSpec
from attnc.passes.intervals import NONNEGATIVE, Interval, bounds


@dataclass(frozen=True)
class Knowledge:
    """`rows` gives what the clauses `query` and `key` made of q and k."""

    known: Mapping[Expr, Interval] = field(default_factory=dict)
    rows: Mapping[Expr, Expr] = field(default_factory=dict)

    def inlined(self, expr: Expr) -> Expr:
        """The expression in terms of the rows as passed in."""
        return substitute(expr, dict(self.rows)) if self.rows else expr

    def bounds(self, expr: Expr) -> Interval:
        return bounds(self.inlined(expr), self.known)

    def at_head(self, head: int) -> Knowledge:
        point: dict[Expr, Interval] = {Index(IndexName.HEAD): Interval.of(head, head)}
        return replace(self, known={**self.known, **point})


NOTHING = Knowledge()


def knowledge_of(spec: AttnSpec) -> Knowledge:
    rows: dict[Expr, Expr] = {}
    for name, made in ((RowName.Q, spec.query), (RowName.K, spec.key)):
        row = Row(name, made.type.shape[0])
        if made != row:
            rows[row] = made
    heads = Interval.of(0, spec.heads - 1) if spec.heads else NONNEGATIVE
    known: dict[Expr, Interval] = {
        Index(IndexName.HEAD): heads,
        Index(IndexName.BATCH): NONNEGATIVE,
        Index(IndexName.KEY): NONNEGATIVE,
    }
    for dim, value in (("d_k", spec.d_k), ("d_v", spec.d_v), ("H", spec.heads)):
        if value is not None:
            known[Dim(Size.of(dim))] = Interval.of(value, value)
    return Knowledge(known, rows)
