"""Gated DeltaNet: three layers of four keep a state by the gated delta rule, the fourth and the last attend.

S_t = a_t S_(t-1) + b_t k_t (v_t - a_t S_(t-1)' k_t)' and y_t = S_t' q_t in each head, after a short convolution, with a
gated norm. Source: arXiv 2412.06464, where hybrids with attention do best; the ratio is Qwen3-Next's. Levanter has the
layer and no model with it; speedrun/methods/hybrid.py keeps documents apart. FLOPs a token don't grow with the length.
"""

from speedrun import Author, Candidate, Recipe, Rung, reference
from speedrun.methods.attention import like
from speedrun.methods.hybrid import DeltaNetLlamaConfig


def recipe(rung: Rung) -> Recipe:
    return reference.recipe(rung).replace(model=like(reference.model(rung.name), DeltaNetLlamaConfig))


CANDIDATE = Candidate(
    name="gated_deltanet",
    authors=[Author("Marin Speedrun", "Marin community", "https://marin.community")],
    hypothesis="A state, written and erased by content, does most of attention's work at a fraction of its FLOPs.",
    recipe=recipe,
)

if __name__ == "__main__":
    CANDIDATE.main()
