"""Whole specs: the forms they have, and what is found wrong with them."""

from __future__ import annotations

import time

import pytest

from attnc.diagnostics import errors
from attnc.ir.facts import Factorized, Facts
from attnc.ir.spec import Form
from attnc.passes.analyse import analyse
from attnc.passes.resolve import resolve
from attnc.source import Source

P, C, R = Form.PARALLEL, Form.CHUNKWISE, Form.RECURRENT
CAUSAL = "mask = causal; align = lower_right"


def analysed(clauses: str) -> tuple[Facts | None, list[str]]:
    text = "attention a {\n" + "\n".join(c.strip() for c in clauses.split(";")) + "\n}\n"
    spec, found = resolve(Source("a.attn", text), {})
    assert spec is not None, "\n".join(map(str, found))
    assert not errors(found)
    facts, diagnostics = analyse(spec)
    assert (facts is None) == bool(errors(diagnostics))
    return facts, [d.code for d in diagnostics]


@pytest.mark.parametrize(
    ("clauses", "forms"),
    [
        ("similarity = exp(q @ k); normalizer = on; " + CAUSAL, (P,)),
        ("similarity = q @ k; normalizer = off; " + CAUSAL, (P, C, R)),
        ("similarity = q @ k; normalizer = off", (P, C)),
        ("input len : int [B]; similarity = q @ k; normalizer = off; mask = keys(len)", (P, C)),
        ("input len : int [B]; input doc : int [B, S]; similarity = q @ k; normalizer = off;"
         "mask = causal and same(doc) and keys(len); align = lower_right", (P, C, R)),
        ("input doc : int [B, S]; similarity = q @ k; normalizer = off; mask = same(doc);"
         "align = lower_right", (P,)),
        ("similarity = q @ k; normalizer = off; mask = window(4); align = lower_right", (P,)),
        ("similarity = q @ k; normalizer = off; mask = not (j > i); align = upper_left", (P, C, R)),
        ("similarity = q @ k; normalizer = off; decay = 0.9; " + CAUSAL, (P, C, R)),
        ("input g : [B, H, S, d_k]; similarity = q @ k; normalizer = off; decay = sigmoid(g); "
         + CAUSAL, (C, R)),
        ("input w : [B, H, S]; key = unit(k); similarity = q @ k; normalizer = off;"
         "update = delta(sigmoid(w)); " + CAUSAL, (C, R)),
        ("similarity = 1 + q @ k + (q @ k)^2 / 2; normalizer = on; " + CAUSAL, (P, C, R)),
        ("similarity = relu(q @ k)^2; normalizer = on; " + CAUSAL, (P,)),
    ],
)  # fmt: skip
def test_forms(clauses: str, forms: tuple[Form, ...]) -> None:
    facts, codes = analysed(clauses)
    assert facts is not None
    assert facts.form_names == forms
    assert codes == []
    for fact in facts.forms:
        assert fact.exists == (fact.form in forms)


@pytest.mark.parametrize("form", ["parallel", "chunkwise", "recurrent"])
def test_asking_for_a_form(form: str) -> None:
    facts, codes = analysed(f"similarity = exp(q @ k); normalizer = on; form = {form}; {CAUSAL}")
    assert codes == ([] if form == "parallel" else ["E302"])
    facts, codes = analysed(f"similarity = q @ k; normalizer = off; form = {form}; {CAUSAL}")
    assert codes == []
    assert facts is not None


@pytest.mark.parametrize(
    "decay", ["1 - 2^(-5 - h)", "exp(g)", "sigmoid(g)", "exp(-exp(s[h]))", "0.5", "1", "g", "2 * g",
              "exp(-s[h] * softplus(g))", "sigmoid(g)^(1/16)"],
)  # fmt: skip
def test_legal_decays(decay: str) -> None:
    tensors = "input g : [B, H, S]; param s : [H]; heads = 4"
    facts, codes = analysed(
        f"{tensors}; similarity = q @ k; normalizer = off; decay = {decay}; {CAUSAL}"
    )
    assert codes == []
    assert facts is not None
    assert facts.log_decay is not None


@pytest.mark.parametrize(
    "decay",
    [
        "0",
        "-1",
        "1.1",
        "1 + exp(g)",
        "-sigmoid(g)",
        "-exp(g)",
        "2^h",
        "h",
        "1 - 2^h",
        "3 / (h + 2)",
    ],
)
def test_decays_outside(decay: str) -> None:
    tensors = "input g : [B, H, S]; heads = 4"
    _, codes = analysed(
        f"{tensors}; similarity = q @ k; normalizer = off; decay = {decay}; {CAUSAL}"
    )
    assert codes == ["E304"]


def test_all_errors_at_once() -> None:
    _, codes = analysed("similarity = q @ k; decay = 2; mask = j < 4; normalizer = on")
    assert sorted(codes) == ["E301", "E303", "E304"]


def test_signed_normalizers_are_the_authors_business() -> None:
    facts, codes = analysed(f"similarity = q @ k; normalizer = on(floor = 1, signed); {CAUSAL}")
    assert codes == []
    assert facts is not None


@pytest.mark.parametrize(
    ("clauses", "words"),
    [
        ("phi(x) = x; similarity = phi(q) @ phi(k)", "`phi(x) = x` can be negative"),
        ("phi(x) = silu(x); similarity = phi(q) @ phi(k)", "`phi(x) = silu(x)`"),
        ("similarity = tanh(q) @ relu(k)", "`tanh(q)`"),
        ("similarity = relu(q) @ tanh(k)", "`tanh(k)`"),
        ("similarity = (relu(q) @ relu(k)) * (q @ k)", "`q`"),
        ("similarity = 1 + (q @ k)^3", "`1 + (q @ k)^3`"),
    ],
)
def test_negative_weights_name_what_is_at_fault(clauses: str, words: str) -> None:
    text = f"attention a {{\n{clauses.replace(';', chr(10))}\nnormalizer = on\n}}\n"
    spec, _ = resolve(Source("a.attn", text), {})
    assert spec is not None
    _, found = analyse(spec)
    assert [d.code for d in found] == ["E301"]
    assert words in found[0].message


def test_elu_of_a_small_number_is_not_zero_in_phi() -> None:
    facts, _ = analysed(
        f"phi(x) = elu(x) + 1; similarity = phi(q) @ phi(k); normalizer = on; {CAUSAL}"
    )
    assert facts is not None
    assert isinstance(facts.factorization, Factorized)
    assert "WHERE" in repr(facts.factorization.psi)


def test_it_is_quick() -> None:
    text = f"similarity = taylor2(q) @ taylor2(k); normalizer = on; {CAUSAL}"
    analysed(text)
    start = time.perf_counter()
    for _ in range(5):
        analysed(text)
    assert (time.perf_counter() - start) / 5 < 0.1
