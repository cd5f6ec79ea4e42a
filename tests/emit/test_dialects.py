"""Every operation has a spelling in every dialect, and every helper named there exists."""

import re

import pytest

from attnc.emit.dialects import DIALECTS, TRITON, Apply
from attnc.emit.helpers import needed
from attnc.ir.ops import Op, Shape


@pytest.mark.parametrize("dialect", DIALECTS, ids=lambda d: d.name)
def test_every_operation_is_spelled_or_declared_absent(dialect):
    assert set(Op) == dialect.spellings.keys() | dialect.absent
    assert not dialect.spellings.keys() & dialect.absent


def test_nothing_elementwise_is_absent_from_kernels():
    rows = {Shape.DOT, Shape.REDUCTION, Shape.ROW_MAP, Shape.STRUCTURAL}
    assert TRITON.absent == {op for op in Op if op.info.shape in rows}


@pytest.mark.parametrize("dialect", DIALECTS, ids=lambda d: d.name)
def test_helpers_exist(dialect):
    tables = (dialect.spellings, dialect.integer, dialect.static)
    texts = [s.text for t in tables for s in t.values() if isinstance(s, Apply)]
    named = {name for text in texts for name in re.findall(r"(?<![\w.])_\w+(?=\()", text)}
    assert named, "the tables name no helper at all"
    for name in named:
        assert f"def {name}(" in needed(f"{dialect.name}/math.py", f"{name}()")


def test_helpers_bring_what_they_use_and_nothing_else():
    text = needed("triton/math.py", "_tl_elu(x)")
    assert "def _tl_tanh(" in text and "def _tl_elu(" in text and "_gelu" not in text
