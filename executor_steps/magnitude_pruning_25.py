"""Magnitude pruning: the smallest 25 % of the weights of linear layers are zero.

See magnitude_pruning_50 for source and merit, and speedrun/methods/pruning.py for definition, schedule and cost.
"""

from functools import partial

from speedrun import Author, Candidate
from speedrun.methods import pruning

CANDIDATE = Candidate(
    name="magnitude_pruning_25",
    authors=[Author("Marin Speedrun", "Marin community", "https://marin.community")],
    hypothesis="The smallest 25 % of the weights can be dropped at little loss; Fisher information must beat that.",
    recipe=partial(pruning.recipe, score="magnitude", sparsity=0.25),
    metrics=[pruning.zeros],
)

if __name__ == "__main__":
    CANDIDATE.main()
