"""SDPA output gate: what each head of the attention returns is multiplied by sigmoid(W x), element by element.

y = W_o (SDPA(q, k, v) * sigmoid(W_g x)), x the normalised input of the attention, W_g without bias. Source:
Qiu et al., Gated Attention for Large Language Models (arXiv 2505.06708); Levanter implements it. In knlp's
tests of reciprocal attention (docs/ra-evidence.md) this gate, there as a control, beat the baseline with every seed.
The gates' FLOPs are counted, so fewer steps fit the budget.
"""

from speedrun import Author, Candidate, Recipe, Rung, reference
from speedrun.methods.attention import OutputGateLlamaConfig, like


def recipe(rung: Rung) -> Recipe:
    return reference.recipe(rung).replace(model=like(reference.model(rung.name), OutputGateLlamaConfig))


CANDIDATE = Candidate(
    name="output_gate",
    authors=[Author("Marin Speedrun", "Marin community", "https://marin.community")],
    hypothesis="A gate on the attention's output is worth more than the steps that its FLOPs cost.",
    recipe=recipe,
)

if __name__ == "__main__":
    CANDIDATE.main()
