"""Kron (PSGD): gradients whitened by a Kronecker-factored preconditioner that is itself learned.

Source: Xi-Lin Li's PSGD (arXiv 2211.04422) as Levanter has it, in blocks of 256. A systematic comparison
(arXiv 2509.02046) counts it among the matrix optimizers, which lead AdamW by 1.4 times at 0.1B parameters and by 1.1 at
1.2B. Learning rate: `speedrun sweep` at micro_1 (0.032, the largest tried: the optimum may lie above), and 0.002, the
winner of that comparison's sweep at 130M, carried to the other rungs by one rule (speedrun/methods/rates.py); the other
settings are that sweep's. A run of fewer than 2,000 steps, as all micro runs are, updates the preconditioner at every
one.
"""

from levanter.optim.kron import KronConfig

from speedrun import Author, Candidate, Recipe, Rung, reference
from speedrun.methods.rates import carried


def recipe(rung: Rung) -> Recipe:
    settings = {"weight_decay": 0.5, "beta1": 0.95, "normalize_grads": True, "preconditioner_lr": 0.2}
    rate = carried(rung, micro_1=0.032, at_130m=0.002)
    optimizer = KronConfig(learning_rate=rate, update_prob_flat_start=2000, **settings)
    return reference.recipe(rung).replace(optimizer=optimizer)


CANDIDATE = Candidate(
    name="kron",
    authors=[Author("Marin Speedrun", "Marin community", "https://marin.community")],
    hypothesis="A learned preconditioner whitens gradients better than Adam's diagonal one.",
    recipe=recipe,
)

if __name__ == "__main__":
    CANDIDATE.main()
