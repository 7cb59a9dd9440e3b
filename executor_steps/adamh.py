"""AdamH: Adam's direction, with every matrix held at the norm that it was initialised with.

A matrix p moves to p - lr |p| u / |u|, u being Adam's bias-corrected direction, and is scaled back to |p|; norms are
Frobenius'. That takes the place of weight decay; embeddings and vectors get Adam. Marin's public board has it ahead
of AdamW at every size (1.177, 1.065, 0.995, 0.933 against 1.186, 1.069, 0.999, 0.944), with a norm on queries and
keys that is left out here. Learning rates of (matrices, rest): `speedrun sweep` at micro_1, Kaiyue Wen's public
sweeps at 130M (0.02, 0.008), carried to the other rungs by one rule (speedrun/methods/rates.py).
"""

from levanter.optim.adamh import AdamHConfig

from speedrun import Author, Candidate, Recipe, Rung, reference
from speedrun.methods.rates import carried


def recipe(rung: Rung) -> Recipe:
    matrices = carried(rung, micro_1=0.08, at_130m=0.02)
    rest = carried(rung, micro_1=0.016, at_130m=0.008)
    return reference.recipe(rung).replace(optimizer=AdamHConfig(learning_rate=matrices, adam_lr=rest))


CANDIDATE = Candidate(
    name="adamh",
    authors=[Author("Marin Speedrun", "Marin community", "https://marin.community")],
    hypothesis="Constant weight norms make the learning rate the only step size, which is better than weight decay.",
    recipe=recipe,
)

if __name__ == "__main__":
    CANDIDATE.main()
