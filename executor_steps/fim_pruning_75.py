"""FIM-guided pruning: 75 % of the weights of linear layers are zero, chosen by size and by squared gradients.

See fim_pruning_50 for source and merit, and speedrun/methods/pruning.py for definition, schedule and cost.
"""

from functools import partial

from speedrun import Author, Candidate
from speedrun.methods import pruning

CANDIDATE = Candidate(
    name="fim_pruning_75",
    authors=[Author("Marin Speedrun", "Marin community", "https://marin.community")],
    hypothesis="Weights chosen by the Fisher information can be dropped, 75 % of them, at no loss or a smaller one.",
    recipe=partial(pruning.recipe, score="fim", sparsity=0.75),
    metrics=[pruning.zeros],
)

if __name__ == "__main__":
    CANDIDATE.main()
