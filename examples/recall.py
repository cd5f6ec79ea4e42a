"""How much a linear attention's state remembers.

Write N random unit keys with Gaussian values into a state of 32 x 32, read back with the same keys:
the mean relative error is about sqrt((N - 1) / 32), so a state is full long before it has as many
entries as rows. Softmax attention keeps every key and has no such limit; this is its price.

    python examples/recall.py
"""

from __future__ import annotations

import argparse

import torch

import attnc

SPEC = """
# The bare memory of linear attention: a sum of outer products.
attention memory {
    similarity = q @ k
    mask       = none
    normalizer = off
}
"""
SIZE = 32


def recall_error(memory: object, pairs: int, trials: int, seed: int = 0) -> float:
    """Mean of |read - written| / |written| over all pairs of all trials."""
    generator = torch.Generator().manual_seed(seed)
    keys = torch.randn(trials, 1, pairs, SIZE, generator=generator)
    keys = keys / keys.norm(dim=-1, keepdim=True)
    values = torch.randn(trials, 1, pairs, SIZE, generator=generator)
    _, state = memory.attention(keys, keys, values, return_state=True)
    # keys of zero add nothing to what is read: what comes back is the state's alone
    read = memory.attention(keys, torch.zeros_like(keys), values, initial_state=state)
    return ((read - values).norm(dim=-1) / values.norm(dim=-1)).mean().item()


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--trials", type=int, default=2000)
    arguments = parser.parse_args()
    memory = attnc.load(SPEC, verify="none")
    print("pairs  error  sqrt((N - 1) / 32)")
    for pairs in (8, 16, 32):
        error = recall_error(memory, pairs, arguments.trials)
        print(f"{pairs:5}  {error:5.2f}  {((pairs - 1) / SIZE) ** 0.5:.2f}")


if __name__ == "__main__":
    main()
