"""Cautious AdamW: Adam's update only where it agrees in sign with the gradient of this step.

Source: Liang et al. 2024 (arXiv 2411.16085) as Levanter has it: entries that disagree are dropped, the others scaled
up to keep the mean. On Marin's public board it is level with AdamW (1.188, 1.071, 0.997, 0.938 against 1.186, 1.069,
0.999, 0.944). Learning rate: `speedrun sweep` at micro_1, and 0.008, which that board's runs have at 130M, carried to
the other rungs by one rule (speedrun/methods/rates.py).
"""

from levanter.optim.cautious import CautiousConfig

from speedrun import Author, Candidate, Recipe, Rung, reference
from speedrun.methods.rates import carried


def recipe(rung: Rung) -> Recipe:
    rate = carried(rung, micro_1=0.008, at_130m=0.008)
    optimizer = CautiousConfig(learning_rate=rate, beta1=0.95, beta2=0.98, epsilon=1e-15)
    return reference.recipe(rung).replace(optimizer=optimizer)


CANDIDATE = Candidate(
    name="cautious",
    authors=[Author("Marin Speedrun", "Marin community", "https://marin.community")],
    hypothesis="Momentum that points against the present gradient does harm; leaving it out is free.",
    recipe=recipe,
)

if __name__ == "__main__":
    CANDIDATE.main()
