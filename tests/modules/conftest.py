"""Kernels run under Triton's interpreter here, in this folder alone.

Triton reads TRITON_INTERPRET when it is imported, when a kernel is decorated and at the first
launch. This file is read before any test is collected, so triton is first imported here; the tests
that compile kernels for a GPU do so in processes of their own.
"""

import importlib
import os
from collections.abc import Iterator
from importlib.util import find_spec

import pytest
import torch

SWITCH = "TRITON_INTERPRET"

if find_spec("triton"):
    before = os.environ.get(SWITCH)
    os.environ[SWITCH] = "1"
    importlib.import_module("triton.language")
    if before is None:
        del os.environ[SWITCH]
    else:
        os.environ[SWITCH] = before


@pytest.fixture(autouse=True)
def nothing_unwritten() -> Iterator[None]:
    """B63: new memory is full of NaN."""
    torch.use_deterministic_algorithms(True, warn_only=True)
    yield
    torch.use_deterministic_algorithms(False)


@pytest.fixture(autouse=True)
def interpreted(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(SWITCH, "1")
