"""MuonH: Muon's orthogonalised momentum, with every matrix held at the norm that it was initialised with.

The update of a matrix is orthogonalised by Newton-Schulz steps, scaled to the matrix' own Frobenius norm,
and the matrix is scaled back to its initial norm after each step, which takes the place of weight decay.
The output head is updated by AdamH, which holds its norm too; embeddings and vectors by Adam. On Marin's
public board it is the strongest of the optimizers that were tried at every scale.
"""

from levanter.optim.muonh import MuonHConfig

from speedrun import Author, Candidate, Recipe, Rung, reference

LEARNING_RATE = {
    "micro_1": 0.02,
    "micro_2": 0.02,
    "micro_3": 0.02,
    "micro_4": 0.02,
    "30m": 0.02,
    "75m": 0.02,
    "300m": 0.02,
    "1_4b": 0.02,
}


def recipe(rung: Rung) -> Recipe:
    rate = LEARNING_RATE[rung.name]
    return reference.recipe(rung).replace(optimizer=MuonHConfig(learning_rate=rate, adam_lr=0.3 * rate, warmup=0.01))


CANDIDATE = Candidate(
    name="muonh",
    authors=[Author("Marin Speedrun", "Marin community", "https://marin.community")],
    hypothesis="Orthogonalised updates at constant weight norm reach a lower loss per FLOP than AdamW.",
    recipe=recipe,
)

if __name__ == "__main__":
    CANDIDATE.main()
