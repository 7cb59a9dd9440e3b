"""Lion: the sign of a momentum, with one buffer instead of Adam's two.

Source: Chen et al. 2023 (arXiv 2302.06675) as Levanter has it. A systematic comparison (arXiv 2509.02046) finds it
level with AdamW or below at these sizes, with half the optimizer state. Learning rate: `speedrun sweep` at micro_1,
and 0.001, at which that comparison's sweep had its lowest loss at 130M, carried to the other rungs by one rule
(speedrun/methods/rates.py); its weight decay is 0.7 there.
"""

from levanter.optim.config import LionConfig

from speedrun import Author, Candidate, Recipe, Rung, reference
from speedrun.methods.rates import carried


def recipe(rung: Rung) -> Recipe:
    rate = carried(rung, micro_1=0.008, at_130m=0.001)
    return reference.recipe(rung).replace(optimizer=LionConfig(learning_rate=rate, weight_decay=0.7))


CANDIDATE = Candidate(
    name="lion",
    authors=[Author("Marin Speedrun", "Marin community", "https://marin.community")],
    hypothesis="The sign of a momentum trains as well as Adam's update and needs half the state.",
    recipe=recipe,
)

if __name__ == "__main__":
    CANDIDATE.main()
