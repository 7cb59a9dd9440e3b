"""SOAP: Adam in the eigenbasis of Shampoo's preconditioner.

Source: Vyas et al. 2024 (arXiv 2409.11321) as Levanter has it, in blocks of 256. A systematic comparison
(arXiv 2509.02046) counts it among the matrix optimizers, which lead AdamW by 1.4 times at 0.1B parameters and by 1.1 at
1.2B. Learning rate: 0.016, the winner of that comparison's sweep at 130M, carried to the other rungs by one rule
(speedrun/methods/rates.py); at micro_1 the same, which is AdamW's own there, and not tuned: on two CPU cores a step
takes ten times Muon's.
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
