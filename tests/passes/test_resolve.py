"""What clauses and expressions come to: the index rule, the prelude, sizes, overrides."""

from __future__ import annotations

import pytest

from attnc.diagnostics import errors
from attnc.emit.language import spell
from attnc.ir.expr import Dim, Number, Role, Row, RowName, Tensor, walk
from attnc.ir.ops import Op
from attnc.ir.sizes import Size
from attnc.ir.spec import Align, AttnSpec, Form, Layout, Normalizer, Precision, Read
from attnc.ir.types import Kind
from attnc.passes.resolve import FormulaError, formula, resolve
from attnc.source import Source


def spec(*clauses: str, **overrides: str) -> AttnSpec:
    """The spec of these clauses, with the required ones and an alignment added."""
    given = {clause.split("=")[0].strip() for clause in clauses}
    usual = {"similarity": "q @ k", "normalizer": "off", "align": "lower_right"}
    lines = [*clauses, *(f"{name} = {value}" for name, value in usual.items() if name not in given)]
    text = "attention a {\n" + "\n".join(lines) + "\n}\n"
    result, found = resolve(Source("a.attn", text), overrides)
    assert result is not None, "\n".join(map(str, found))
    return result


def codes(*clauses: str, **overrides: str) -> list[str]:
    text = "attention a {\n" + "\n".join(clauses) + "\nsimilarity = q @ k\nnormalizer = off\n}\n"
    result, found = resolve(Source("a.attn", text), overrides)
    assert (result is None) == bool(errors(found))
    return [d.code for d in found]


def shown(tensor: Tensor) -> str:
    axes = (":" if axis is None else spell(axis) for axis in tensor.axes)
    return f"{tensor.decl.name}[{', '.join(axes)}]"


def mask_of(text: str, *declarations: str) -> str:
    mask = spec(f"mask = {text}", *declarations).mask
    assert mask is not None
    return spell(mask)


def test_defaults() -> None:
    made = spec()
    assert made.name == "a"
    assert made.query == Row(RowName.Q, Size.of("d_k"))
    assert made.value == Row(RowName.V, Size.of("d_v"))
    assert made.output == Row(RowName.O, Size.of("d_v"))
    assert (made.mask, made.decay, made.beta, made.normalizer) == (None, None, None, None)
    assert (made.read, made.form, made.chunk) == (Read.AFTER, None, None)
    assert (made.layout, made.precision) == (Layout.BHLD, Precision.IEEE)
    assert (made.heads, made.kv_heads, made.v_heads, made.d_k, made.d_v) == (None,) * 5


def test_scalar_clauses() -> None:
    made = spec(
        "heads = 2 * n4", "let n4 = 4", "kv_heads = 4", "v_heads = 2", "d_k = 64", "d_v = n4 ^ 2",
        "align = upper_left", "read = before", "form = chunkwise", "chunk = 32", "layout = blhd",
        "precision = tf32x3",
    )  # fmt: skip
    assert (made.heads, made.kv_heads, made.v_heads, made.d_k, made.d_v) == (8, 4, 2, 64, 16)
    assert (made.align, made.read, made.form) == (Align.UPPER_LEFT, Read.BEFORE, Form.CHUNKWISE)
    assert (made.chunk, made.layout, made.precision) == (32, Layout.BLHD, Precision.TF32X3)
    assert made.lets == (("n4", 4),)


def test_fixed_sizes_are_numbers() -> None:
    made = spec("heads = 8", "kv_heads = 2", "d_k = 64",
                "similarity = exp(q @ k / sqrt(d_k)) * H * G * S")  # fmt: skip
    assert made.query.type.shape == (Size.of(64),)
    numbers = [node.value for node in walk(made.similarity) if isinstance(node, Number)]
    assert numbers == [64, 8, 2]
    assert [node for node in walk(made.similarity) if isinstance(node, Dim)] == [Dim(Size.of("S"))]


def test_declarations() -> None:
    made = spec(
        "heads = 8", "let w = 16", "input g, doc_ : int [B, H, S]",
        "param t : [w, 2 * w + 1] = -0.5",
        "buffer W : [m, d_k // 2]", "input f : [B, G, S, 1]", "input m_ : bool [B, m]",
        "param u : float [H * 2]",
    )  # fmt: skip
    found = [(t.name, t.role, t.kind, tuple(map(str, t.dims)), t.initial) for t in made.tensors]
    assert found == [
        ("g", Role.INPUT, Kind.INT, ("B", "H", "S"), None),
        ("doc_", Role.INPUT, Kind.INT, ("B", "H", "S"), None),
        ("t", Role.PARAM, Kind.FLOAT, ("16", "33"), -0.5),
        ("W", Role.BUFFER, Kind.FLOAT, ("m", "((d_k) // (2))"), None),
        ("f", Role.INPUT, Kind.FLOAT, ("B", "G", "S", "1"), None),
        ("m_", Role.INPUT, Kind.BOOL, ("B", "m"), None),
        ("u", Role.PARAM, Kind.FLOAT, ("16",), None),
    ]


@pytest.mark.parametrize(
    ("mask", "meaning"),
    [
        ("causal", "j <= i"),
        ("window(8)", "i - 8 < j and j <= i"),
        ("window(8, 2)", "i - 8 <= j and j <= i + 2"),
        ("window(left = 8, right = 2)", "i - 8 <= j and j <= i + 2"),
        ("prefix(4)", "j < 4"),
        ("blocks(16)", "i // 16 == j // 16"),
        ("same(doc)", "run(doc[b, i]) == run(doc[b, j])"),
        ("keys(lens)", "j < lens[b]"),
        ("keys_left(lens)", "j >= S - lens[b]"),
        ("causal and (window(256) or prefix(4)) and keys(lens)",
         "j <= i and (i - 256 < j and j <= i or j < 4) and j < lens[b]"),
        ("doc[i] == doc[j] ∧ ¬ (i ≠ j)", "doc[b, i] == doc[b, j] and not i != j"),
        ("doc[j - 1] == 0", "doc[b, j - 1] == 0"),
    ],
)  # fmt: skip
def test_masks(mask: str, meaning: str) -> None:
    assert mask_of(mask, "input doc : int [B, S]", "input lens : int [B]") == meaning


@pytest.mark.parametrize(
    ("declared", "text", "read"),
    [
        ("[H]", "x[h]", "x[h]"),
        ("[H]", "x", "x[h]"),
        ("[G]", "x", "x[h]"),
        ("[1]", "x", "x[0]"),
        ("[B, 1, S]", "x[j]", "x[b, 0, j]"),
        ("[B, H, L, S]", "x[b, h, i, j]", "x[b, h, i, j]"),
        ("[B, H, L, S]", "x[i, j]", "x[b, h, i, j]"),
        ("[S, S]", "x[i, j]", "x[i, j]"),
        ("[S, S]", "x[j, i]", "x[j, i]"),
        ("[L]", "x[i]", "x[i]"),
        ("[H, 255]", "x[h, i - j + 127]", "x[h, i - j + 127]"),
        ("[H, 255]", "x[i - j + 127]", "x[h, i - j + 127]"),
        ("[H, 255]", "x[h // 2, i - j + 127]", "x[h // 2, i - j + 127]"),
        ("[B, H, S]", "x[j - 1]", "x[b, h, j - 1]"),
        ("[H, 32]", "x[h, min(floor(log2(1 + abs(i - j))), 31)]",
         "x[h, min(floor(log2(1 + abs(i - j))), 31)]"),
        ("[B, H, S, 4]", "x[j, 2]", "x[b, h, j, 2]"),
        ("[32]", "x[h]", "x[h]"),
        ("[64]", "x[j]", "x[j]"),
    ],
)  # fmt: skip
def test_the_index_rule(declared: str, text: str, read: str) -> None:
    made = spec(f"input x : {declared}", f"similarity = exp(q @ k + {text})")
    assert [shown(n) for n in walk(made.similarity) if isinstance(n, Tensor)] == [read]


@pytest.mark.parametrize(
    ("clause", "declared", "axes"),
    [
        ("query = q * x", "[B, L]", "x[b, i]"),
        ("query = q * x", "[B, H, S]", "x[b, h, i]"),
        ("key = k * x", "[B, G, S]", "x[b, h, j]"),
        ("value = v + x", "[B, S, d_v]", "x[b, j, :]"),
        ("decay = sigmoid(x)", "[B, H, S]", "x[b, h, j]"),
        ("decay = sigmoid(x)", "[H]", "x[h]"),
        ("decay = sigmoid(x)", "[B, H, S, d_k]", "x[b, h, j, :]"),
        ("update = delta(x)", "[B, H, S]", "x[b, h, j]"),
        ("output = o * sigmoid(x)", "[B, H, L, d_v]", "x[b, h, i, :]"),
        ("output = o + matmul(x, q)", "[H, d_v, d_k]", "x[h, :, :]"),
        ("normalizer = on(eps = exp(x[h]))", "[H]", "x[h]"),
        ("normalizer = on(floor = x)", "[H]", "x[h]"),
    ],
)
def test_bare_tensors_take_the_places_of_their_clause(
    clause: str, declared: str, axes: str
) -> None:
    made = spec(f"input x : {declared}", clause)
    added = made.normalizer or Normalizer()
    roots = [made.query, made.key, made.value, made.decay, made.beta, made.output,
             added.eps, added.floor]  # fmt: skip
    found = [n for root in roots if root for n in walk(root) if isinstance(n, Tensor)]
    assert [shown(tensor) for tensor in found] == [axes]


def test_rows_seen_by_other_clauses_have_the_size_made() -> None:
    made = spec("d_k = 64", "query = q[0:48:2]", "key = concat(k[:23], 1)", "value = concat(v, 1)")
    rows = {n.name: str(n.size) for n in walk(made.similarity) if isinstance(n, Row)}
    assert rows == {RowName.Q: "24", RowName.K: "24"}
    assert made.output == Row(RowName.O, Size.of("d_v") + Size.of(1))


def test_output_reads_its_own_key_and_value() -> None:
    made = spec("output = o + q[0] * v[i] * sum(k[i])", "align = lower_right")
    names = [n.name for n in walk(made.output) if isinstance(n, Row)]
    assert names == [RowName.O, RowName.Q, RowName.OWN_V, RowName.OWN_K]


def test_indexed_rows_are_the_rows() -> None:
    assert spec("similarity = q[i] @ k[j]").similarity == spec().similarity


@pytest.mark.parametrize(
    ("text", "meaning"),
    [
        ("q[-1]", "q[d_k - 1]"),
        ("sum(q[1:])", "sum(q[1:d_k])"),
        ("sum(q[:-1])", "sum(q[0:d_k - 1])"),
        ("sum(q[::2])", "sum(q[0:d_k:2])"),
        ("size(concat(q, q, 1))", "2*d_k + 1"),
    ],
)
def test_slices_count_as_numpy_does(text: str, meaning: str) -> None:
    assert spell(spec(f"similarity = q @ k * {text}").similarity).split(" * ", 1)[1] in (
        meaning, f"({meaning})",
    )  # fmt: skip


def test_user_functions_are_inlined_with_defaults_and_names() -> None:
    made = spec("f(x, a = 2, c = 3) = x * a + c", "similarity = f(q @ k, c = 1) + f(1, 5)")
    assert spell(made.similarity) == "q @ k * 2 + 1 + (1 * 5 + 3)"


def test_functions_take_tensors_and_read_them_in_the_clause() -> None:
    made = spec("input len_ : int [B]", "short(x) = keys(x) and j < x[b]", "mask = short(len_)")
    assert made.mask is not None
    assert spell(made.mask) == "j < len_[b] and j < len_[b]"


def test_spans_point_to_the_users_text() -> None:
    made = spec("act(x) = elu1(x)", "similarity = act(q) @ act(k)", "mask = window(3)")
    assert made.mask is not None
    assert {n.span.text for n in walk(made.mask) if n.span} == {"window(3)", "3"}
    adds = [n for n in walk(made.similarity) if n.span and n.span.text == "elu1(x)"]
    assert len(adds) == 6  # the sum, elu and the number, twice


def test_overrides() -> None:
    made = spec(
        "let w = 8", "mask = window(w)", w="2 * 3", heads="4", form="parallel", align="upper_left"
    )
    assert made.mask == spec("mask = window(6)").mask
    assert (made.heads, made.form, made.align) == (4, Form.PARALLEL, Align.UPPER_LEFT)
    assert made.lets == (("w", 6),)


@pytest.mark.parametrize("name", ["similarity", "w", "mask", "", "a b", "__"])
def test_overrides_of_what_is_not_there(name: str) -> None:
    assert codes(**{name: "3"}) == ["E223"]


@pytest.mark.parametrize("value", ["", "*", "(", "q", "x" * 10, "1/0", "\0", "é"])
def test_overrides_by_what_is_no_value(value: str) -> None:
    assert any(code.startswith("E") for code in codes("let w = 1", "mask = j < w", w=value))


def test_let_cycles_through_clauses() -> None:
    assert codes("heads = w", "let w = H") == ["E217"]


def test_one_mistake_gives_one_message() -> None:
    assert codes("input doc int [B, S]", "mask = same(doc) and causal", "align = upper_left") == [
        "E103"
    ]
    assert codes("mask = causal and window(3) and j < i") == ["E213"]
    assert codes("f(x) = x + nope", "output = f(o) + f(f(o))") == ["E201"]


def test_growth_is_refused_fast() -> None:
    doubling = [f"f{n}(x) = f{n - 1}(x) * f{n - 1}(x)" if n else "f0(x) = x" for n in range(60)]
    assert "E219" in codes(*doubling, "output = f59(o)")
    hidden = [f"g{n}(x) = size(concat(o, g{n - 1}(x), g{n - 1}(x)))" if n else "g0(x) = x"
              for n in range(60)]  # fmt: skip
    assert "E219" in codes(*hidden, "output = o * g59(1)")
    squares = [f"s{n}(x) = outer(s{n - 1}(x), s{n - 1}(x))" if n else "s0(x) = concat(x, 1)"
               for n in range(30)]  # fmt: skip
    assert "E219" in codes(*squares, "output = o * sum(s29(o))")
    powers = "".join(["(a1 + a2 + a3 + a4 + a5 + a6 + a7 + a8)", *["^8"] * 6])
    declared = ", ".join(f"a{n}" for n in range(1, 9))
    assert codes(f"input x : [{declared}]", f"input y : [{powers}]")
    assert codes("let w = 9^9^9^9", "output = o * w") == ["E218"]


@pytest.mark.parametrize("name", ["unit", "rms", "center", "elu1", "taylor2", "hedgehog", "dpfp1",
                                  "dpfp2", "dpfp3"])  # fmt: skip
def test_prelude_maps_make_rows(name: str) -> None:
    sizes = {"taylor2": "d_k*d_k + d_k + 1", "hedgehog": "2*d_k", "dpfp1": "2*d_k",
             "dpfp2": "4*d_k", "dpfp3": "6*d_k"}  # fmt: skip
    made = spec(f"key = {name}(k)", f"query = {name}(q)")
    assert str(made.key.type.shape[0]) == sizes.get(name, "d_k")


def test_formula() -> None:
    x = Row(RowName.Q, Size.of("d_k"))
    assert spell(formula("1 - tanh(x)^2", x=x)) == "1 - tanh(q)^2"
    assert formula("x", x=x) == x
    for bad in ("y", "x +", "x @ 2", "sum(1)"):
        with pytest.raises(FormulaError):
            formula(bad, x=x)


@pytest.mark.parametrize("op", list(Op), ids=lambda op: op.name)
def test_every_derivative_is_a_formula(op: Op) -> None:
    numbers = {name: Number(1.5) for name in "xyz"}
    for text in op.info.derivatives:
        assert formula(text, **numbers).type.is_number
