import json

import pytest

from attnc.ir.facts import Facts
from attnc.ir.spec import AttnSpec
from attnc.pipeline import check
from attnc.resources import folder
from attnc.source import Source
from attnc.verify.probe import Numbers, Strides, Task, as_data, job_from
from attnc.verify.probes import TILE, build_job, design, mask_constants
from attnc.verify.verdict import Effort


def understood(text: str) -> tuple[AttnSpec, Facts]:
    checked = check(Source("a.attn", text))
    assert checked.spec is not None and checked.facts is not None, checked.diagnostics
    return checked.spec, checked.facts


def softmax(mask: str, more: str = "") -> tuple[AttnSpec, Facts]:
    return understood(
        f"attention a {{\n similarity = exp(q @ k)\n mask = {mask}\n align = lower_right\n"
        f" normalizer = on\n {more}\n}}\n"
    )


EXAMPLES = [path.stem for path in sorted(folder("examples").glob("*.attn"))]


def example(name: str) -> tuple[AttnSpec, Facts]:
    return understood((folder("examples") / f"{name}.attn").read_text(encoding="utf-8"))


@pytest.mark.parametrize("constant", [3, 40, 128, 300, 1000])
def test_distances_and_places_lie_on_both_sides_of_a_constant_of_the_mask(constant: int) -> None:
    for mask in (f"window({constant})", f"causal and (i - j < {constant} or j < 2)"):
        job = design(*softmax(mask), Effort.QUICK)
        ends = [(p.keys - p.rows, p.keys - 1) for p in job.probes if p.keys and p.rows]
        assert any(last < constant for _, last in ends)
        # the last row sees keys nearer than the constant and further away
        assert any(last > constant for _, last in ends)


def test_constants_come_from_the_whole_mask() -> None:
    spec, _ = softmax("causal and (window(96) or prefix(4) or j // 32 == 2)")
    assert mask_constants(spec.mask) == (2, 4, 32, 96)
    assert mask_constants(None) == ()


@pytest.mark.parametrize("name", EXAMPLES)
def test_the_probes_reach_every_trap(name: str) -> None:
    spec, facts = example(name)
    job = design(spec, facts, Effort.QUICK)
    probes = [p for p in job.probes if p.task is not Task.EMPTY]
    tile = spec.chunk or TILE
    lengths = {p.rows for p in probes}
    assert 1 in lengths and tile - 1 in lengths and tile + 1 in lengths and max(lengths) > 2 * tile
    assert any(p.rows < p.keys for p in probes) and any(p.rows > p.keys for p in probes)
    awkward = [p for p in probes if p.d_k != p.d_v and p.d_k & (p.d_k - 1) and p.d_v & (p.d_v - 1)]
    assert awkward and any(p.d_k > 64 for p in awkward)
    assert any(p.batch > 1 and p.heads > 1 and p.key_heads < p.heads for p in probes)
    assert {p.dtype for p in probes} == {"float32", "bfloat16", "float16"}
    assert {p.strides for p in probes} == set(Strides)
    tasks = {Task.VALUES, Task.STATE, Task.SPLIT} if facts.mask.implies_causal else {Task.VALUES}
    if name == "sigmoid":  # its weights read S, which differs between one call and several
        tasks.remove(Task.SPLIT)
    assert {p.task for p in probes} >= tasks
    assert all(sum(p.pieces) == p.keys for p in probes if p.pieces)
    assert any(p.thorough for p in probes)
    assert all(p.heads % p.key_heads == 0 == p.heads % p.value_heads for p in probes)


def test_hard_numbers_follow_from_the_functions() -> None:
    names = {p.name for p in design(*example("softmax_causal"), Effort.QUICK).probes}
    assert "huge scores" in names and "small features" not in names
    names = {p.name for p in design(*example("linear"), Effort.QUICK).probes}
    assert "small features" in names and "huge scores" not in names


def test_full_is_more_than_quick() -> None:
    spec, facts = example("linear")
    quick, full = (design(spec, facts, effort) for effort in (Effort.QUICK, Effort.FULL))
    assert {p.name for p in quick.probes} < {p.name for p in full.probes}
    assert len(build_job(full, Effort.FULL).probes) > len(build_job(quick, Effort.QUICK).probes)


def test_the_recurrent_form_is_left_out_of_long_quick_probes_alone() -> None:
    spec, facts = example("retention")
    quick, full = (design(spec, facts, effort) for effort in (Effort.QUICK, Effort.FULL))
    for dtype in ("float32", "bfloat16", "float16"):
        assert any(p.recurrent and p.dtype == dtype and p.rows > 8 for p in quick.probes)
    assert any(p.recurrent and p.task is Task.STATE for p in quick.probes)
    assert not all(p.recurrent for p in quick.probes) and all(p.recurrent for p in full.probes)


def test_what_the_spec_fixes_is_kept() -> None:
    spec, facts = softmax("causal", "heads = 6\n kv_heads = 3\n d_k = 8\n d_v = 4")
    for p in design(spec, facts, Effort.QUICK).probes:
        assert (p.heads, p.key_heads, p.value_heads, p.d_k, p.d_v) == (6, 3, 3, 8, 4)


def test_declared_tensors_have_shapes_and_numbers() -> None:
    spec, facts = understood(
        "attention a {\n input f : [B, H, S]\n input doc : int [B, S]\n param w : [H, m] = 1\n"
        " param u : [m]\n similarity = exp(q @ k + sum(w[h]) + sum(u))\n"
        " mask = causal and same(doc)\n align = lower_right\n decay = exp(f)\n normalizer = on\n}\n"
    )
    probe = next(p for p in design(spec, facts, Effort.QUICK).probes if p.name == "more keys")
    given = {t.name: t for t in probe.tensors}
    assert given["f"].shape == (1, 4, probe.keys) and given["f"].numbers is Numbers.GATES
    assert given["f"].keys == 2 and given["f"].rows is None
    assert given["doc"].numbers is Numbers.IDS and given["w"].numbers is Numbers.NORMAL
    assert given["w"].shape == (4, 6) and given["u"].shape == (6,)


@pytest.mark.parametrize("name", EXAMPLES)
def test_a_job_survives_json(name: str) -> None:
    job = design(*example(name), Effort.FULL)
    assert job_from(json.loads(json.dumps(as_data(job)))) == job
