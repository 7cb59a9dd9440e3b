"""Latent attention: keys and values of all heads are made from one small latent vector, which alone is cached.

DeepSeek's MLA (arXiv 2405.04434) as Levanter has it, which no model of Levanter's uses: a latent vector of a quarter of
the width, and half of each head's dimensions with rotary positions that all heads share. DeepSeek reports it better
than grouped queries at a smaller cache. It is the control of kvsplice_latent. The cache stands beside the score.
"""

from speedrun import Author, Candidate, Recipe, Rung, reference
from speedrun.methods.attention import like
from speedrun.methods.splice import LatentLlamaConfig, kv_cache


def recipe(rung: Rung) -> Recipe:
    return reference.recipe(rung).replace(model=like(reference.model(rung.name), LatentLlamaConfig))


CANDIDATE = Candidate(
    name="latent_attention",
    authors=[Author("Marin Speedrun", "Marin community", "https://marin.community")],
    hypothesis="Keys and values of low rank lose little, and leave FLOPs for more steps.",
    recipe=recipe,
    metrics=[kv_cache],
)

if __name__ == "__main__":
    CANDIDATE.main()
