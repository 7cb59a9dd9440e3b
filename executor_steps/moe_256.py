"""Mixture of experts with 256 experts (64 at micro) instead of moe_64's 64 (16), at the same FLOPs a token.

Second step of Open Athena's ladder (openathena.ai/blog/pretraining-speedup), there 1.4 times theoretical and 1.3
realised. It comes with size: 0.994, 1.17 and 1.25 times at widths 512, 768 and 1024 (marin issue 5387). Definition:
speedrun/methods/moe.py.
"""

from functools import partial

from speedrun import Author, Candidate
from speedrun.methods import moe

CANDIDATE = Candidate(
    name="moe_256",
    authors=[Author("Marin Speedrun", "Marin community", "https://marin.community")],
    hypothesis="Four times as many experts, none of which costs a token more, lower the loss again.",
    recipe=partial(moe.recipe, experts=256),
)

if __name__ == "__main__":
    CANDIDATE.main()
