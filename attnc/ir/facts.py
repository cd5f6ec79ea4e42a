"""What the passes find out about an AttnSpec, and why."""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum

from attnc.ir.expr import Expr
from attnc.ir.sizes import Size
from attnc.ir.spec import Form
from attnc.source import Span


class Side(Enum):
    """What an expression depends on."""

    CONSTANT = "constant"  # neither i, j nor a row; h and b are allowed
    QUERY = "query"
    KEY = "key"
    PAIR = "pair"


class Sign(Enum):
    POSITIVE = "positive"
    NONNEGATIVE = "non-negative"
    ANY = "of either sign"


@dataclass(frozen=True, slots=True)
class Factorized:
    """similarity = phi @ psi: phi reads query-side things only, psi key-side things only."""

    phi: Expr
    psi: Expr
    single_product: bool  # one A @ B with one-sided factors, as delta and channel decays want

    @property
    def size(self) -> Size:
        return self.phi.type.shape[0]


@dataclass(frozen=True, slots=True)
class NotFactorized:
    """Why there are no finite rows phi and psi, in the user's terms, and the place that says so."""

    reason: str
    span: Span | None


@dataclass(frozen=True, slots=True)
class MaskFacts:
    """`key_factors` and `pair_factors` together are the mask's conjunction.

    `first_key` and `past_key` bound the j that row i may see (first_key <= j < past_key), as
    expressions in i (nondecreasing in i) or None where nothing is known; `first_row` and `past_row`
    bound i for a given j in the same way.
    """

    key_factors: tuple[Expr, ...]
    pair_factors: tuple[Expr, ...]
    same_factors: tuple[Expr, ...]  # those of the pair factors that are same(..)
    implies_causal: bool
    is_causal: bool  # exactly `causal` beside key masks and same
    first_key: Expr | None
    past_key: Expr | None
    first_row: Expr | None
    past_row: Expr | None


@dataclass(frozen=True, slots=True)
class FormFact:
    """`reason` is empty where the form exists."""

    form: Form
    reason: str

    @property
    def exists(self) -> bool:
        return not self.reason


@dataclass(frozen=True, slots=True)
class Facts:
    """Everything that later stages may know beside the spec itself.

    `exponent` is e where the weight is exp(e), otherwise None. `log_decay` is log a, at most 0, in
    the numerically better form, None without decay. `simplified` is the similarity in the
    numerically better form.
    """

    simplified: Expr
    exponent: Expr | None
    factorization: Factorized | NotFactorized
    sign: Sign
    log_decay: Expr | None
    channel_decay: bool
    mask: MaskFacts
    forms: tuple[FormFact, ...]

    @property
    def form_names(self) -> tuple[Form, ...]:
        return tuple(fact.form for fact in self.forms if fact.exists)
