"""The cases with known answers, on every form and backend."""

import pytest
import torch

from tests.golden import golden_cases
from tests.modules.made import backends, of_text

CASES = golden_cases()
DTYPES = {"triton": (torch.float32,), "torch": (torch.float32, torch.float64)}


@pytest.mark.parametrize("case", CASES, ids=lambda case: case["name"])
def test_golden(case) -> None:
    made = of_text(case["spec"])
    assert made.FORMS
    for backend in backends():
        for dtype in DTYPES[backend]:
            for form in made.FORMS:
                check(case, made, form, backend, dtype)


def check(case, made, form: str, backend: str, dtype: torch.dtype) -> None:
    bound = 1e-6 if dtype is torch.float64 else 2e-5
    given = {n: torch.tensor(x, dtype=dtype, requires_grad=True) for n, x in case["inputs"].items()}
    call = getattr(made, case["call"])
    o = call(**given, **case["options"], form=form, backend=backend)
    o.sum().backward()
    results = {"o": o.detach()} | {f"d{name}": x.grad for name, x in given.items()}
    assert set(case["expect"]) <= set(results)
    for name, x in case["expect"].items():
        wanted = torch.tensor(x, dtype=torch.float64)
        where = (name, form, backend, dtype)
        assert results[name].shape == wanted.shape, where
        error = (results[name] - wanted).abs()
        assert (error <= bound * wanted.abs().clamp(min=1)).all(), (where, error)
    for name, x in results.items():
        assert x.isfinite().all(), (name, form, backend, dtype)
