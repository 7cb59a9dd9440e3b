"""Magnitude pruning: the smallest 75 % of the weights of linear layers are zero.

The control of fim_pruning_75: the same schedule, masks and masked optimizer state, another score. In the source
(github.com/mcgrof/knlp) the magnitude arm's state was not masked, so that its comparison showed two things at once.
Definition, schedule and cost: speedrun/methods/pruning.py.
"""

from functools import partial

from speedrun import Author, Candidate
from speedrun.methods import pruning

CANDIDATE = Candidate(
    name="magnitude_pruning_75",
    authors=[Author("Marin Speedrun", "Marin community", "https://marin.community")],
    hypothesis="The smallest 75 % of the weights can be dropped at little loss; Fisher information must beat that.",
    recipe=partial(pruning.recipe, score="magnitude", sparsity=0.75),
    metrics=[pruning.zeros],
)

if __name__ == "__main__":
    CANDIDATE.main()
