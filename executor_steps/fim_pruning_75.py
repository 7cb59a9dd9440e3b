"""FIM-guided pruning: 75 % of the weights of linear layers are zero, chosen by size and by squared gradients.

Source: github.com/mcgrof/knlp ("bitter7"). Reported there for a Llama of 150M on TinyStories, one run each:
perplexity 7.69 at 25 % against 7.73 dense, and better than magnitude pruning by 0.6 % at 25 % to 8.9 % at 90 %. Its
author's verdict is that it neither cuts training FLOPs nor moves the score per FLOP. Definition, schedule and cost:
speedrun/methods/pruning.py.
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
