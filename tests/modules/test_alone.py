"""A module in a process without attnc, and the tools that its kernels run on."""

import subprocess
import sys
from pathlib import Path

import pytest
import torch

from tests.modules.made import backends, imported, source, spec_of

USER = """
import sys

class Absent:
    def find_spec(self, name, path=None, target=None):
        if name.split(".")[0] in ("attnc", "lark", "click"):
            raise ImportError(f"{name} is not here")

sys.meta_path.insert(0, Absent())
import torch
import softmax, linear, retention

for made in (softmax, linear, retention):
    q, k, v = (torch.randn(1, 2, 5, 4, requires_grad=True) for _ in range(3))
    for form in made.FORMS:
        for backend in BACKENDS:
            o, state = made.attention(q, k, v, form=form, backend=backend, return_state=True)
            o.sum().backward()
            assert (o - made.reference(q, k, v)).abs().max() < 1e-5
            o, state = made.step(q[:, :, 0], k[:, :, 0], v[:, :, 0], state)
            assert o.isfinite().all() and state.length == 6
assert "attnc" not in sys.modules
try:
    import attnc
except ImportError:
    print("done")
"""


def in_folder(path: Path, **environment: str) -> subprocess.CompletedProcess[str]:
    for name in ("softmax", "linear", "retention"):
        (path / f"{name}.py").write_text(source(spec_of(name)), encoding="utf-8")
    ways = backends() if environment else ("torch",)
    script = path / "user.py"
    script.write_text(USER.replace("BACKENDS", repr(ways)), encoding="utf-8")
    return subprocess.run(
        [sys.executable, "user.py"],
        cwd=path, env={"PATH": "", **environment}, capture_output=True, text=True, timeout=120,
    )  # fmt: skip


@pytest.mark.parametrize("environment", [{}, {"TRITON_INTERPRET": "1"}], ids=["plain", "triton"])
def test_without_attnc(tmp_path: Path, environment: dict[str, str]) -> None:
    done = in_folder(tmp_path, **environment)
    assert done.returncode == 0 and done.stdout == "done\n", done.stderr[-2000:]


@pytest.mark.parametrize("backend", backends())
def test_modules_share_no_kernels(backend: str) -> None:
    """B55, B86: two modules of one process with kernels of the same names."""
    first = imported(source(spec_of("sums")), "shared_first")
    second = imported(source(spec_of("linear")), "shared_second")
    again = imported(source(spec_of("sums")), "shared_third")
    q, k, v = (torch.randn(1, 2, 5, 4) for _ in range(3))
    for made in (first, second, again, first):
        for form in made.FORMS:
            o = made.attention(q, k, v, form=form, backend=backend)
            assert (o - made.reference(q, k, v)).abs().max() < 1e-5
    assert (first.reference(q, k, v) - second.reference(q, k, v)).abs().max() > 0.1


def test_a_module_is_a_file_with_a_hash() -> None:
    """B55, B86: the text names what it was made of, so that no two specs have the same one."""
    headers = [source(spec_of(name)).splitlines()[1] for name in ("linear", "sums", "retention")]
    assert len(set(headers)) == 3 and all("hash" in line for line in headers)


PROBE = """
import torch, triton, triton.language as tl

@triton.jit
def filled(p_x, p_y, n, SIZE: tl.constexpr):
    o = tl.arange(0, SIZE)
    tl.store(p_y, tl.sum(tl.load(p_x + o, mask=o < n, other=0.0)))

@triton.jit
def product(p_x, p_y, p_o):
    o = tl.arange(0, 16)[:, None] * 16 + tl.arange(0, 16)[None, :]
    x, y = tl.load(p_x + o).to(tl.float32), tl.load(p_y + o).to(tl.float32)
    tl.store(p_o + o, tl.dot(x, y, input_precision="ieee"))
"""


def test_what_the_interpreter_must_do() -> None:
    """B50, B23: masked loads are filled, bfloat16 is right once it is cast, as the modules do."""
    pytest.importorskip("triton")
    made = imported(PROBE, "probe_of_the_interpreter")
    x, y = torch.arange(16.0), torch.zeros(1)
    made.filled[(1,)](x, y, 16, SIZE=256)
    assert y.item() == 120
    a, b = (torch.randint(-2, 3, (16, 16)).bfloat16() for _ in range(2))
    o = torch.empty(16, 16)
    made.product[(1,)](a, b, o)
    assert torch.equal(o, a.float() @ b.float())
