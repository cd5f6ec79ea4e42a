"""Specs put together at random from parts, with sizes and tensors: the same for the same number."""

from __future__ import annotations

import random
from dataclasses import dataclass, field
from typing import Any

import torch
from torch import Tensor

from attnc.ir.expr import TensorDecl
from attnc.ir.types import Kind

# similarity clauses, and whether their weights are never negative; all have kernels of every form
SIMILARITIES = {
    "product": ("similarity = q @ k\n", False),
    "scaled": ("similarity = 0.3 * (q @ k)\n", False),
    "elu1": ("similarity = elu1(q) @ elu1(k)\n", True),
    "relu": ("similarity = (relu(q) + 0.1) @ (relu(k) + 0.1)\n", True),
    "two_maps": ("similarity = sigmoid(q) @ softplus(k)\n", True),
    "softmax": ("phi(x) = softmax(x)\nsimilarity = phi(q) @ phi(k)\n", True),
    "shares": ("phi(x) = softplus(x) / sum(softplus(x))\nsimilarity = phi(q) @ phi(k)\n", True),
    "unit": ("key = k / sqrt(sum(k^2) + 1e-6)\nsimilarity = q @ k\n", False),
    "rotary": ("query = rope(q, i)\nkey = rope(k, j)\nsimilarity = q @ k\n", False),
    "halves": ("phi(x) = concat(relu(x), relu(-x)) + 0.1\nsimilarity = phi(q) @ phi(k)\n", True),
    "neighbours": ("phi(x) = relu(x) * relu(roll(x, 1)) + 0.1\nsimilarity = phi(q) @ phi(k)\n", True),
    "taylor": ("similarity = taylor2(q) @ taylor2(k)\n", True),
    "dpfp": ("similarity = dpfp1(q) @ dpfp1(k) + 0.01\n", True),
    "square": ("similarity = (q @ k)^2 + 0.01\n", True),
    "polynomial": ("similarity = 1 + q @ k + (q @ k)^2 / 2\n", True),
    "one_sided": ("input t : [B, H, S]\nsimilarity = sigmoid(t[j]) * (elu1(q) @ elu1(k))\n", True),
    "hedgehog": ("param W : [H, m, d_k]\nphi(x) = hedgehog(matmul(W, x))\n"
                 "similarity = phi(q) @ phi(k)\n", True),
    "favor": ("buffer W : [m, d_k]\nsimilarity = favor(q, W) @ favor(k, W)\n", True),
}  # fmt: skip
PER_CHANNEL = ("product", "scaled", "elu1", "relu", "two_maps", "softmax", "unit", "rotary")

TOKENS = {
    "none": "",
    "per_head": "decay = 1 - 2^(-5 - h)\n",
    "number": "decay = 0.9\n",
    "param": "param A : [H] = 0\ndecay = exp(-exp(A[h] - 2))\n",
    "log_gate": "input g : [B, H, S]\ndecay = exp(g)\n",
    "log_gate_of_all": "input g : [B, 1, S]\ndecay = exp(g)\n",
    "sigmoid": "input a : [B, H, S]\ndecay = sigmoid(a + 2)\n",
    "root": "input a : [B, H, S]\ndecay = sigmoid(a)^(1/16)\n",
    "steps": "input dt : [B, H, S]\nparam A : [H] = 0\nvalue = softplus(dt) * v\n"
             "decay = exp(-softplus(dt) * exp(A[h]))\n",
}  # fmt: skip
CHANNELS = {
    "channels": "input g : [B, H, S, d_k]\ndecay = exp(g)\n",
    "channels_root": "input a : [B, H, S, d_k]\ndecay = sigmoid(a)^(1/16)\n",
    "channels_of_head": "param A : [H, d_k] = 0\ndecay = exp(-exp(A[h]))\n",
    "one_minus_key": "input f : [B, H, S, d_k]\nkey = sigmoid(f)\nsimilarity = q @ k\n"
    "decay = 1 - sigmoid(f)\n",
}
MASKS = {
    "none": "mask = none\n",
    "keys_of_all": "input lengths : int [B]\nmask = keys(lengths)\n",
    "causal": "mask = causal\nalign = lower_right\n",
    "upper": "mask = causal\nalign = upper_left\n",
    "padded": "input lengths : int [B]\nmask = causal and keys(lengths)\nalign = lower_right\n",
    "left": "input lengths : int [B]\nmask = causal and keys_left(lengths)\nalign = lower_right\n",
    "documents": "input doc : int [B, S]\nmask = causal and same(doc)\nalign = lower_right\n",
    "padded_documents": "input doc : int [B, S]\ninput lengths : int [B]\n"
                        "mask = causal and same(doc) and keys(lengths)\nalign = lower_right\n",
}  # fmt: skip
NORMALIZERS = ("off", "on", "on(eps = 1)", "on(floor = 1)")
OUTPUTS = (
    "",
    "",
    "",
    "input r : [B, H, L, d_v]\noutput = silu(r) * o / sqrt(mean(o^2) + 1e-2)\n",
)

# field report B26: (log gates, one per token) where ordinary random gates hide what is wrong
REGIMES = ("one", "near_one", "some_one", "half", "strong", "in_turn", "random")


@dataclass(frozen=True)
class Combination:
    """The text of a spec, and sizes: B, H, G (k's heads), V (v's), L, S, d_k, d_v, m."""

    text: str
    sizes: dict[str, int]
    regime: str
    seed: int
    parts: tuple[str, ...] = field(default=())

    def rows(self) -> list[Tensor]:
        """q, k and v in float64"""
        n = self.sizes
        shapes = [
            (n["H"], n["L"], n["d_k"]),
            (n["G"], n["S"], n["d_k"]),
            (n["V"], n["S"], n["d_v"]),
        ]
        return [self._normal(n["B"], *shape, seed=at) * 0.7 for at, shape in enumerate(shapes)]

    def tensor(self, decl: TensorDecl) -> Tensor:
        """A declared tensor: float64, ids of runs, or lengths."""
        n = self.sizes
        shape = [size.evaluate(n) for size in decl.dims]
        if decl.kind is Kind.INT:
            made = torch.Generator().manual_seed(self.seed)
            if decl.name == "lengths":
                return torch.randint(0, n["S"] + 1, shape, generator=made)
            return (torch.rand(shape, generator=made) < 0.15).long().cumsum(-1)
        if decl.name == "g":
            return self._log_gates(shape)
        return self._normal(*shape, seed=sum(map(ord, decl.name)))

    def _normal(self, *shape: int, seed: int) -> Tensor:
        made = torch.Generator().manual_seed(1000 * self.seed + seed)
        return torch.randn(*shape, generator=made, dtype=torch.float64)

    def _log_gates(self, shape: list[int]) -> Tensor:
        x = self._normal(*shape, seed=9)
        turn = (torch.arange(shape[2]) % 2).view(-1, *[1] * (len(shape) - 3)).expand(shape)
        return {
            "one": torch.zeros_like(x),
            "near_one": -1e-3 * x.abs(),
            "some_one": torch.where(x > 0, torch.zeros_like(x), x),
            "half": torch.full_like(x, -0.7),
            "strong": torch.full_like(x, -10.0),
            "in_turn": -20.0 * turn.double(),
            "random": torch.nn.functional.logsigmoid(x + 2),
        }[self.regime]


def linear(seed: int) -> Combination:
    """An attention that has a state: every part by chance, so that all of them meet in time."""
    pick = random.Random(seed)
    channels = pick.random() < 0.2
    names = PER_CHANNEL if channels else tuple(SIMILARITIES)
    name = names[seed % len(names)]
    decays = tuple(CHANNELS if channels else TOKENS)
    decay = decays[(seed // 3) % len(decays)]
    mask = pick.choice(tuple(MASKS))
    similarity, positive = SIMILARITIES[name]
    if not channels and "causal" not in MASKS[mask] and pick.random() < 0.5:
        decay = "none"
    clauses = (CHANNELS if channels else TOKENS)[decay]
    if decay == "one_minus_key":
        similarity, positive = "", False
    if clauses and "causal" not in MASKS[mask]:
        mask = "causal"
    normalizer = pick.choice(NORMALIZERS)
    if not positive and normalizer != "off":
        normalizer = pick.choice(("off", "on(floor = 1, signed)"))
    read = pick.choice(("", "", "read = before\n")) if "causal" in MASKS[mask] else ""
    align = "" if "align" in MASKS[mask] or name != "rotary" else "align = lower_right\n"
    lines = [similarity, clauses, MASKS[mask], align, f"normalizer = {normalizer}\n", read]
    lines += [pick.choice(OUTPUTS), f"chunk = {32 if channels else 16}\n"]
    parts = (name, decay, mask, normalizer, read.strip())
    return _combination(seed, pick, lines, parts)


def _combination(
    seed: int, pick: random.Random, lines: list[str], parts: tuple[str, ...]
) -> Combination:
    H = pick.choice((1, 2, 4))
    divisors = [G for G in (1, 2, 4) if H % G == 0]
    sizes: dict[str, Any] = {"B": pick.choice((1, 2)), "H": H}
    sizes |= {"G": pick.choice(divisors), "V": pick.choice(divisors), "m": pick.choice((3, 5))}
    # a border of a chunk lies inside, and is missed by one or more
    sizes |= {"L": pick.choice((1, 15, 33)), "S": pick.choice((1, 16, 35))}
    if pick.random() < 0.6:
        sizes["S"] = sizes["L"]
    sizes |= {"d_k": pick.choice((2, 4, 6)), "d_v": pick.choice((1, 3, 7))}
    regime = pick.choice(REGIMES)
    text = f"attention mixed_{seed} {{\n{''.join(lines)}}}\n"
    return Combination(text, sizes, regime, seed, (*parts, regime))
