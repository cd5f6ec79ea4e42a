import math

import pytest
import torch

from attnc.verify.compare import FLOAT32_BOUND, LOOSEST, bound, error
from attnc.verify.tensors import Guarded, Strides
from attnc.verify.verdict import Build, Comparison, Verdict


def compared(error: float, bound: float = 1e-5, what: str = "o") -> Comparison:
    return Comparison("parallel", "torch", what, "ragged", "B=1", "float32", error, bound)


def test_equal_tensors_have_no_error() -> None:
    x = torch.randn(2, 3, 4, 5)
    assert error(x, x.double()) == 0


def test_nan_is_an_error() -> None:
    x = torch.zeros(2, 3, 4)
    y = x.clone()
    y[1, 2, 3] = math.nan
    for got, wanted in ((y, x), (x, y), (y, y)):
        assert not error(got, wanted) <= 1e9


def test_infinities_agree_exactly() -> None:
    wanted = torch.tensor([[[0.5, -math.inf, 1.0]]])
    assert error(wanted.clone(), wanted) == 0
    for wrong in (math.inf, -1e30, 0.0):
        got = wanted.clone()
        got[0, 0, 1] = wrong
        assert not error(got, wanted) <= 1e9
    assert not error(torch.full_like(wanted, -math.inf), wanted) <= 1e9


def test_another_shape_is_an_error() -> None:
    assert not error(torch.zeros(2, 3, 1), torch.zeros(2, 3)) <= 1e9


def test_one_wrong_head_counts_as_if_it_were_alone() -> None:
    wanted = torch.ones(4, 8, 50, 50).double()
    got = wanted.clone()
    got[3, 7] *= 1.01
    assert error(got, wanted) == pytest.approx(0.01)


def test_the_bound_grows_with_what_a_rounding_does() -> None:
    assert bound(0.0, torch.float32) == FLOAT32_BOUND
    assert bound(1e-3, torch.float32) == 32e-3
    assert bound(0.0, torch.bfloat16) == 2.0**-7
    assert bound(1.0, torch.bfloat16) == LOOSEST
    assert bound(0.0, torch.float32, plain=1e-4) == 32e-4
    assert bound(0.0, torch.float32, plain=math.nan) == math.inf
    assert bound(math.nan, torch.float32) == bound(math.inf, torch.float32) == FLOAT32_BOUND


@pytest.mark.parametrize("number", [math.nan, math.inf, 2e-5])
def test_a_verdict_fails_on_what_is_not_within_the_bound(number: float) -> None:
    verdict = Verdict((compared(0.0), compared(number, what="dq")))
    assert not verdict.ok
    assert [row.what for row in verdict.rows if not row.ok] == ["dq"]
    assert "1 of 2 comparisons" in verdict.summary


def test_a_verdict_without_comparisons_or_with_a_failed_build_fails() -> None:
    build = Build("kernel", "sm_90", "", False, "no")
    assert Verdict((compared(0.0),)).ok
    assert not Verdict().ok
    assert not Verdict((compared(0.0),), (build,)).ok
    assert not Verdict((compared(0.0),), problem="no end").ok


@pytest.mark.parametrize("strides", list(Strides))
def test_guarded_tensors_hold_their_values_and_tell_who_wrote(strides: Strides) -> None:
    values = torch.randn(2, 3, 5, 7)
    guarded = Guarded()
    view = guarded.hold("k", values, strides)
    assert torch.equal(view, values) and not guarded.changed()
    around = guarded.buffers[0][1]
    assert int(around.isnan().sum()) == around.numel() - values.numel()
    view[1, 2, 4, 6] += 1
    assert guarded.changed() == "k"


def test_a_write_beside_a_guarded_tensor_is_found() -> None:
    guarded = Guarded()
    guarded.hold("v", torch.randn(2, 2, 3, 4), Strides.PADDED)
    guarded.buffers[0][1][0] = 0.0
    assert guarded.changed() == "v"
