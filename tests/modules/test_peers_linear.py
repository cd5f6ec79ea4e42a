"""Linear attention beside the naive functions of flash-linear-attention (package fla-core).

They know nothing of attnc. All of them go through float32 whatever they are given, so that outputs
and gradients are compared in float32; the gradients of both sides are autograd's. Where they and
the examples write a thing differently, the peer's docstring says how. What all but Mamba-2's has in
common: their q is multiplied by d_k^(-1/2) where ours is taken as it is, so that ours is given q
already multiplied, and the factor is part of what is differentiated.
"""

from collections.abc import Callable
from dataclasses import dataclass
from importlib.util import find_spec
from pathlib import Path
from types import ModuleType

import pytest
import torch
from torch import Tensor
from torch.nn.functional import logsigmoid, softplus

from tests.modules.made import CHUNK, Sizes, backends, example, imported, leaves, near, rows

pytest.importorskip("einops")
fla = find_spec("fla")
if fla is None or not fla.submodule_search_locations:
    pytest.skip("fla-core is not installed", allow_module_level=True)


def naive(name: str) -> ModuleType:
    """The file alone: the package around it brings kernels that need the compiler."""
    path = Path(fla.submodule_search_locations[0], "ops", f"{name}.py")
    return imported(path.read_text(encoding="utf-8"), name.replace("/", "_"))


gla, retention, rwkv6, simple_gla = map(
    naive, ("gla/naive", "retention/naive", "rwkv6/recurrent_naive", "simple_gla/naive")
)

Tensors = dict[str, Tensor]
Peer = Callable[..., Tensor]

# several chunks and a part of one, on the interpreter fewer; d_k and d_v differ
LARGE = Sizes(L=5 * CHUNK + 7, S=5 * CHUNK + 7, d_k=24, d_v=12, B=2, H=4, G=4)
SMALL = Sizes(L=2 * CHUNK + 5, S=2 * CHUNK + 5, d_k=8, d_v=6, B=1, H=2, G=2)


def swapped(*tensors: Tensor) -> list[Tensor]:
    """Heads before rows becomes rows before heads, and back."""
    return [x.transpose(1, 2) for x in tensors]


def retained(q: Tensor, k: Tensor, v: Tensor) -> Tensor:
    """Axes are ours; the decays 1 - 2^(-5 - h) are inside."""
    return retention.naive_retention(q, k, v)


def gated(q: Tensor, k: Tensor, v: Tensor, a: Tensor) -> Tensor:
    """Rows come before heads; the gate is given as its logarithm, log_sigmoid(a) / 16."""
    o, _ = gla.naive_recurrent_gla(*swapped(q, k, v, logsigmoid(a) / 16))
    return o.transpose(1, 2)


def eagle(q: Tensor, k: Tensor, v: Tensor, w: Tensor, u: Tensor) -> Tensor:
    """Axes are ours; the decay is given as its logarithm, -exp(w). The factor on q is in the bonus,
    too."""
    return rwkv6.naive_recurrent_rwkv6(q, k, v, -torch.exp(w), u)[0]


def ssd(peer: Callable[..., tuple[Tensor, Tensor]]) -> Peer:
    """Simple GLA is Mamba-2 where the log decay is dt A and v is dt x, with dt = softplus(..)
    and A = -exp(A_log), both made here. Rows come before heads; the factor on q is set to 1."""

    def call(q: Tensor, k: Tensor, v: Tensor, dt: Tensor, A_log: Tensor, dt_bias: Tensor) -> Tensor:
        step = softplus(dt + dt_bias[:, None])
        g = -step * A_log.exp()[:, None]
        o, _ = peer(*swapped(q, k, step[..., None] * v, g), scale=1.0)
        return o.transpose(1, 2)

    return call


def normal(*shape: int) -> Tensor:
    return torch.randn(*shape, generator=torch.Generator().manual_seed(7))


def per_channel(lowest: float, highest: float) -> Callable[[Sizes], Tensor]:
    """Logits from one to the other over the channels, a little different at every token."""

    def make(n: Sizes) -> Tensor:
        return torch.linspace(lowest, highest, n.d_k) + 0.5 * normal(n.B, n.H, n.S, n.d_k)

    return make


def of_gla(n: Sizes) -> Tensors:
    """From exp(-20 / 16) to almost no decay a token: logits of the gates from -20 to 6."""
    return {"a": per_channel(-20, 6)(n)}


def of_rwkv6(n: Sizes) -> Tensors:
    """Decays from exp(-exp(2.5)), which forgets all, to exp(-exp(-6)), which forgets nothing."""
    return {"w": per_channel(-6, 2.5)(n), "u": normal(n.H, n.d_k)}


def of_mamba2(n: Sizes) -> Tensors:
    """A from -0.05 to -20 over the heads, steps from 0.02 to 3."""
    return {
        "dt": 2 * normal(n.B, n.H, n.S) - 1,
        "A_log": torch.linspace(-3, 3, n.H),
        "dt_bias": 0.3 * normal(n.H),
    }


@dataclass(frozen=True)
class Pair:
    """An example and who computes the same."""

    example: str
    peer: Peer
    tensors: Callable[[Sizes], Tensors] = lambda n: {}
    scaled: bool = True  # q by d_k^(-1/2), by the peer
    per_head: bool = False  # the spec fixes the number of heads

    def module(self, n: Sizes):
        settings = {"heads": n.H} if self.per_head else {}
        return example(self.example, chunk=CHUNK, **settings)


PAIRS = {
    "retention": Pair("retention", retained, per_head=True),
    "gla": Pair("gla", gated, of_gla),
    "rwkv6": Pair("rwkv6", eagle, of_rwkv6),
    "mamba2": Pair("mamba2", ssd(simple_gla.naive_recurrent_simple_gla), of_mamba2, scaled=False),
    "mamba2_parallel": Pair(
        "mamba2", ssd(simple_gla.naive_parallel_simple_gla), of_mamba2, scaled=False
    ),
    "mamba2_chunks": Pair(
        "mamba2", ssd(simple_gla.naive_chunk_simple_gla), of_mamba2, scaled=False
    ),
}
FORMS = {
    "retention": ("parallel", "chunkwise", "recurrent"),
    "mamba2": ("parallel", "chunkwise", "recurrent"),
    "gla": ("chunkwise", "recurrent"),
    "rwkv6": ("chunkwise", "recurrent"),
}


def ways() -> list[tuple[str, str, str]]:
    """The other naive functions of Simple GLA are one more judge of the fast backend alone."""
    return [
        (name, form, backend)
        for name, pair in PAIRS.items()
        for form in FORMS[pair.example]
        for backend in backends()
        if backend == "torch" or name == pair.example
    ]


def results(call: Callable[..., Tensor], given: list[Tensor], do: Tensor) -> list[Tensor]:
    """The output and the gradient of every tensor given."""
    given = leaves(*given)
    o = call(*given)
    return [o.detach(), *torch.autograd.grad(o, given, do)]


@pytest.mark.parametrize("name", FORMS)
def test_every_form_is_compared(name: str) -> None:
    assert FORMS[name] == PAIRS[name].module(SMALL).FORMS


@pytest.mark.parametrize(("name", "form", "backend"), ways())
def test_outputs_and_gradients_are_theirs(name: str, form: str, backend: str) -> None:
    pair, n = PAIRS[name], LARGE if backend == "torch" else SMALL
    made, tensors = pair.module(n), pair.tensors(n)
    q, k, v, do = rows(n)
    factor = n.d_k**-0.5 if pair.scaled else 1.0

    def ours(q: Tensor, k: Tensor, v: Tensor, *declared: Tensor) -> Tensor:
        named = dict(zip(tensors, declared, strict=True))
        return made.attention(q * factor, k, v, form=form, backend=backend, **named)

    given = [q, k, v, *tensors.values()]
    near(results(ours, given, do), results(pair.peer, given, do))
