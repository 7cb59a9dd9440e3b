"""Muon: momentum orthogonalised by Newton-Schulz steps on every hidden matrix, AdamW on the rest.

Source: Keller Jordan's Muon (2024) as Levanter has it, scaled by sqrt(max(1, out / in)). Marin's public board has it
ahead of AdamW at every size (1.170, 1.062, 0.991, 0.937 against 1.186, 1.069, 0.999, 0.944). Learning rate of
matrices: `speedrun sweep` at micro_1 and the public sweep's winner at 130M (0.016), carried to the other rungs by one
rule (speedrun/methods/rates.py); the rest: AdamW's own at the micro rungs, and a fifth of the matrices' as published.
"""

from levanter.optim.muon import MuonConfig

from speedrun import Author, Candidate, Recipe, Rung, reference
from speedrun.methods.rates import carried


def recipe(rung: Rung) -> Recipe:
    rates = {
        "learning_rate": carried(rung, micro_1=0.06, at_130m=0.016),
        "adam_lr": carried(rung, micro_1=0.016, at_130m=0.0032),
    }
    return reference.recipe(rung).replace(optimizer=MuonConfig(weight_decay=0.1, **rates))


CANDIDATE = Candidate(
    name="muon",
    authors=[Author("Marin Speedrun", "Marin community", "https://marin.community")],
    hypothesis="Orthogonalised updates use every direction of a matrix, and so learn more from each step than Adam's.",
    recipe=recipe,
)

if __name__ == "__main__":
    CANDIDATE.main()
