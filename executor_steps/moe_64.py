"""Mixture of experts: 64 experts of half the width, four a token by sigmoid weights, and one shared (16 at micro).

Source: Open Athena's "MoE V1" (openathena.ai/blog/pretraining-speedup), there 6.7 times theoretical and 3.6 realised
over a dense Llama, with more than the experts changed (gated norms, gated heads, windows, AdamH). Definition, and how
loads are balanced without an auxiliary loss: speedrun/methods/moe.py. A token meets 3 widths of MLP where the reference
has 2.7 to 3.5, so that about as many tokens fit the budget.
"""

from functools import partial

from speedrun import Author, Candidate
from speedrun.methods import moe

CANDIDATE = Candidate(
    name="moe_64",
    authors=[Author("Marin Speedrun", "Marin community", "https://marin.community")],
    hypothesis="Many more parameters at the same FLOPs a token lower the loss at the same compute.",
    recipe=partial(moe.recipe, experts=64),
)

if __name__ == "__main__":
    CANDIDATE.main()
