"""Train a small language model of bytes whose attention is a module made by attnc.

    python examples/train.py --attention retention --seconds 60

The text is Python's own documentation (pydoc_data), so nothing is downloaded. The loss is printed
in bits per byte; at the end the model writes on by itself, one byte at a time: the attention layers
are called with the state that their last call returned.
"""

from __future__ import annotations

import argparse
import time
from pathlib import Path
from pydoc_data.topics import topics
from types import ModuleType

import torch
from torch import Tensor, nn
from torch.nn import functional as F

import attnc

HERE = Path(__file__).resolve().parent
HEADS, WIDTH, DEPTH, LENGTH, BATCH = 4, 128, 2, 128, 16


class Block(nn.Module):
    """Attention, then a two-layer network, each added to what came in."""

    def __init__(self, attention: ModuleType):
        super().__init__()
        self.attention = attention.Attention(d_model=WIDTH, heads=HEADS)
        self.network = nn.Sequential(
            nn.Linear(WIDTH, 4 * WIDTH), nn.GELU(), nn.Linear(4 * WIDTH, WIDTH)
        )
        self.before_attention = nn.LayerNorm(WIDTH)
        self.after_attention = nn.LayerNorm(WIDTH)
        self.before_network = nn.LayerNorm(WIDTH)

    def forward(self, x: Tensor, state: object = None) -> tuple[Tensor, object]:
        y, state = self.attention(self.before_attention(x), state=state, return_state=True)
        x = x + self.after_attention(y)
        return x + self.network(self.before_network(x)), state


class Model(nn.Module):
    """Bytes in, a guess at the next byte out. A byte is embedded together with the one before it,
    which is all that the model knows of positions beside what the attention does with them."""

    def __init__(self, attention: ModuleType):
        super().__init__()
        self.now = nn.Embedding(256, WIDTH)
        self.before = nn.Embedding(256, WIDTH)
        self.blocks = nn.ModuleList(Block(attention) for _ in range(DEPTH))
        self.norm = nn.LayerNorm(WIDTH)
        self.guess = nn.Linear(WIDTH, 256)

    def forward(
        self, now: Tensor, before: Tensor, states: list[object] | None = None
    ) -> tuple[Tensor, list[object]]:
        x = self.now(now) + self.before(before)
        new_states = []
        for block, state in zip(self.blocks, states or [None] * DEPTH, strict=True):
            x, state = block(x, state)
            new_states.append(state)
        return self.guess(self.norm(x)), new_states


def load(path: Path, verify: str) -> ModuleType:
    """The module of a spec, for this model's number of heads."""
    return attnc.load(path, set={"heads": HEADS}, verify=verify)


def batch(text: Tensor, generator: torch.Generator) -> Tensor:
    starts = torch.randint(len(text) - LENGTH - 2, (BATCH,), generator=generator)
    return torch.stack([text[s : s + LENGTH + 2] for s in starts.tolist()])


def train(model: Model, text: Tensor, seconds: float, steps: int | None) -> list[float]:
    """Train for a time, or for a number of steps; return the losses in bits per byte."""
    generator = torch.Generator().manual_seed(0)
    optimizer = torch.optim.AdamW(model.parameters(), lr=2e-3, weight_decay=0.01)
    losses: list[float] = []
    start, shown = time.monotonic(), 0.0
    while True:
        now = time.monotonic()
        done = len(losses) / steps if steps else (now - start) / seconds
        if done >= 1:
            return losses
        for group in optimizer.param_groups:  # warm up, then down to a tenth
            group["lr"] = 2e-3 * min(1, (len(losses) + 1) / 30, 1.1 - done)
        part = batch(text, generator)
        guess, _ = model(part[:, 1:-1], part[:, :-2])
        loss = F.cross_entropy(guess.flatten(0, 1), part[:, 2:].flatten())
        optimizer.zero_grad()
        loss.backward()
        nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimizer.step()
        losses.append(loss.item() / torch.log(torch.tensor(2.0)).item())
        if len(losses) == 1 or done - shown > 1 / 12:
            shown = done
            recent = losses[-20:]
            print(f"{now - start:5.0f} s  step {len(losses):5}  "
                  f"{sum(recent) / len(recent):.3f} bits per byte", flush=True)  # fmt: skip


@torch.no_grad()
def sample(model: Model, prompt: str, length: int) -> str:
    """Write on from a prompt: it is read in one call, then each byte costs one step."""
    known = list(prompt.encode())
    generator = torch.Generator().manual_seed(0)
    tokens = torch.tensor([known])
    guess, states = model(tokens[:, 1:], tokens[:, :-1])
    for _ in range(length):
        chances = torch.softmax(guess[0, -1] / 0.7, -1)
        known.append(int(torch.multinomial(chances, 1, generator=generator)))
        now, before = torch.tensor([[known[-1]]]), torch.tensor([[known[-2]]])
        guess, states = model(now, before, states)
    return bytes(known).decode(errors="replace")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument(
        "--attention", default="retention", help="an example's name, or a .attn file"
    )
    parser.add_argument("--seconds", type=float, default=60.0)
    parser.add_argument("--steps", type=int, help="train for so many steps instead")
    parser.add_argument("--verify", choices=("quick", "full", "none"), default="quick")
    arguments = parser.parse_args()
    torch.manual_seed(0)
    path = Path(arguments.attention)
    if path.suffix != ".attn":
        path = HERE / f"{arguments.attention}.attn"
    attention = load(path, arguments.verify)
    model = Model(attention)
    text = torch.tensor(list("\n".join(topics.values()).encode()))
    weights = sum(p.numel() for p in model.parameters())
    print(f"{path.stem}: {weights:,} weights, {len(text):,} bytes of text")
    train(model, text, arguments.seconds, arguments.steps)
    print("\n" + sample(model, "The expression", 300))


if __name__ == "__main__":
    main()
