"""SOAP: Adam in the eigenbasis of Shampoo's preconditioner.

Source: Vyas et al. 2024 (arXiv 2409.11321) as Levanter has it, in blocks of 256. A systematic comparison
(arXiv 2509.02046) finds it among the best per token, 1.3 to 1.4 times AdamW at 130M and falling with size; its
matrix products are priced beside the model's (docs/pricing.md). Learning rate: `speedrun sweep` at micro_1, and
0.016, the winner of that comparison's sweep at 130M, carried to the other rungs by one rule
(speedrun/methods/rates.py).
"""

from levanter.optim.soap import SoapConfig

from speedrun import Author, Candidate, Recipe, Rung, reference
from speedrun.methods.rates import carried


def recipe(rung: Rung) -> Recipe:
    rate = carried(rung, micro_1=0.016, at_130m=0.016)
    optimizer = SoapConfig(learning_rate=rate, weight_decay=0.1, beta2=0.98, epsilon=1e-15)
    return reference.recipe(rung).replace(optimizer=optimizer)


CANDIDATE = Candidate(
    name="soap",
    authors=[Author("Marin Speedrun", "Marin community", "https://marin.community")],
    hypothesis="Adam learns faster in the basis in which the gradient's covariance is diagonal.",
    recipe=recipe,
)

if __name__ == "__main__":
    CANDIDATE.main()
