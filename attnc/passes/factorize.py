"""Similarity -> Factorized: rows phi of the query and psi of the key with similarity = phi @ psi.

The similarity is expanded into terms (passes/terms.py). A term with one product A @ B is the rows
themselves, several products are `outer`, a power of one product is a symmetric power, a term
without products is a row of one; terms are laid side by side. What stands on the key side alone
goes to psi, everything else to phi.
"""

from __future__ import annotations

from attnc.ir.expr import Expr, call
from attnc.ir.facts import Factorized, NotFactorized
from attnc.ir.ops import Op
from attnc.passes.sides import structure
from attnc.passes.simplify import make, simplify
from attnc.passes.terms import CannotExpand, Term, coefficient, expand

MAX_SIZE = 65536  # of a row, where its size is known


def factorize(similarity: Expr) -> Factorized | NotFactorized:
    """The rows, or the reason why there are none."""
    try:
        terms = expand(similarity)
    except CannotExpand as failure:
        return NotFactorized(failure.reason, failure.span)
    phi = simplify(_row([_times(coefficient(t), _features(t, 0)) for t in terms]))
    psi = simplify(_row([_times(t.key, _features(t, 1)) for t in terms]))
    size = phi.type.shape[0].constant
    if size is not None and size > MAX_SIZE:
        reason = f"its rows would have {size} elements, more than {MAX_SIZE}"
        return NotFactorized(reason, similarity.span)
    single = len(terms) == 1 and terms[0].degree == 1
    return Factorized(phi, psi, single)


def _times(factor: Expr, features: Expr | None) -> Expr:
    return factor if features is None else make(Op.MUL, factor, features)


def _features(term: Term, side: int) -> Expr | None:
    """The product of the term's rows of one side (0 query, 1 key), None where there are none."""
    found: Expr | None = None
    for pair, n in sorted(term.pairs, key=lambda item: structure(item[0][0])):
        row = pair[side] if n == 1 else call(Op.SYMMETRIC_POWER, pair[side], n)
        found = row if found is None else call(Op.OUTER, found, row)
    return found


def _row(parts: list[Expr]) -> Expr:
    if len(parts) == 1 and parts[0].type.shape:
        return parts[0]
    return call(Op.CONCAT, *parts)
