"""Windows and global layers: three layers of four see a quarter of the sequence, the fourth and the last see all of it.

Rotary positions in the layers with a window, none in the global ones. Source: the interleaving of Gemma 2 (arXiv
2408.00118) without positions in the global layers, as in Command A (arXiv 2504.00698) and Llama 4; Open Athena's recipe
has windows too (openathena.ai/blog/pretraining-speedup). The gain is less work on long sequences, with no loss of
quality to speak of. The budget counts every position for everybody, so that here it must win by quality alone; what
it would cost with windows counted stands in the record's causal figure.
"""

import dataclasses

from speedrun import Author, Candidate, Recipe, Rung, reference
from speedrun.methods.attention import like
from speedrun.methods.hybrid import WindowLlamaConfig


def recipe(rung: Rung) -> Recipe:
    model = like(reference.model(rung.name), WindowLlamaConfig)
    return reference.recipe(rung).replace(model=dataclasses.replace(model, sliding_window=model.max_seq_len // 4))


CANDIDATE = Candidate(
    name="window_hybrid",
    authors=[Author("Marin Speedrun", "Marin community", "https://marin.community")],
    hypothesis="Layers near the text and layers that match content at any distance are better apart.",
    recipe=recipe,
)

if __name__ == "__main__":
    CANDIDATE.main()
