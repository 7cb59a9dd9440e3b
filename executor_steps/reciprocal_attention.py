"""Reciprocal attention: the last head of each layer attends once more, with its queries and keys exchanged.

y = W_o SDPA(q, k, v) + tanh(b) LN(W_r SDPA(k_S, q_S, v_S)), b starting at 0. Source: github.com/mcgrof/knlp
(docs/ra.md, docs/ra-evidence.md). One configuration at 124M parameters went from a perplexity of 72.5 to 68.9, one at
30M gained 0.5 % over three seeds, one at 1B nothing; in the last comparison, with three seeds, no variant beat the
baseline while the output gate did, and the author closed the line. The second attention's FLOPs are counted.
"""

from speedrun import Author, Candidate, Recipe, Rung, reference
from speedrun.methods.attention import like
from speedrun.methods.reciprocal import ReciprocalLlamaConfig


def recipe(rung: Rung) -> Recipe:
    return reference.recipe(rung).replace(model=like(reference.model(rung.name), ReciprocalLlamaConfig))


CANDIDATE = Candidate(
    name="reciprocal_attention",
    authors=[Author("Marin Speedrun", "Marin community", "https://marin.community")],
    hypothesis="A head that looks both ways, from query to key and back, is worth more than the steps that it costs.",
    recipe=recipe,
)

if __name__ == "__main__":
    CANDIDATE.main()
