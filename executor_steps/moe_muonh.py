"""moe_256 with MuonH on every matrix, each expert's included; the head by AdamH, the rest by Adam.

Third step of Open Athena's ladder (openathena.ai/blog/pretraining-speedup), there 1.3 times theoretical and 1.25
realised over AdamH: 1.33, 1.26, 1.22, 1.19 at widths 512 to 1280, with a mixed outlook at scale (marin issues 5596,
5597). Here it comes on AdamW instead, so that it does AdamH's part too. Rates: speedrun/methods/stack.py.
"""

from speedrun import Author, Candidate, Recipe, Rung
from speedrun.methods import moe, stack


def recipe(rung: Rung) -> Recipe:
    return moe.recipe(rung, experts=256).replace(optimizer=stack.muonh(rung))


CANDIDATE = Candidate(
    name="moe_muonh",
    authors=[Author("Marin Speedrun", "Marin community", "https://marin.community")],
    hypothesis="Orthogonalised updates help experts, which see few tokens each, as they help dense layers.",
    recipe=recipe,
)

if __name__ == "__main__":
    CANDIDATE.main()
