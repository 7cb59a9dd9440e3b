"""MuonH: Muon's orthogonalised momentum, with every matrix held at the norm that it was initialised with.

The update of a matrix is orthogonalised by Newton-Schulz steps, scaled to the matrix' own Frobenius norm,
and the matrix is scaled back to its initial norm after each step, which takes the place of weight decay.
The output head is updated by AdamH, which holds its norm too; embeddings and vectors by Adam. On Marin's
public board it is the strongest of the optimizers that were tried at every scale.
"""

from levanter.optim.muonh import MuonHConfig

from speedrun import LADDER, Author, Candidate, Recipe, Rung, reference

# Learning rates of matrices and head, and of embeddings and vectors, rung by rung. Micro: from `speedrun sweep`. The
# others: the winners of Kaiyue Wen's sweeps on Marin's board at the nearest size (130m, 130m, 300m, 1_2b).
MATRICES = dict(zip(LADDER, (0.08, 0.08, 0.04, 0.04, 0.02, 0.02, 0.01, 0.0075), strict=True))
REST = dict(zip(LADDER, (0.016, 0.016, 0.016, 0.016, 0.0046, 0.0046, 0.0023, 0.0017), strict=True))


def recipe(rung: Rung) -> Recipe:
    published = {} if rung.is_micro else {"beta2": 0.98, "momentum": 0.98, "min_lr_ratio": 0.0}
    rates = {"learning_rate": MATRICES[rung.name], "adam_lr": REST[rung.name]}
    return reference.recipe(rung).replace(optimizer=MuonHConfig(warmup=0.01, **rates, **published))


CANDIDATE = Candidate(
    name="muonh",
    authors=[Author("Marin Speedrun", "Marin community", "https://marin.community")],
    hypothesis="Orthogonalised updates at constant weight norm reach a lower loss per FLOP than AdamW.",
    recipe=recipe,
)

if __name__ == "__main__":
    CANDIDATE.main()
