"""KVSplice on latent attention: of the latent vector half as many numbers are cached.

z = LN(W_c c), c' = W_e z between latent_attention's normalised latent vector c and its keys and values. Source:
github.com/mcgrof/knlp (gpt2/mla.py), where twelve times less cache in all layers took a perplexity of 83.9 and seven
times in four of twelve layers 63.1, an hour each and unequal steps. Compare with latent_attention. Beyond that, no gain
is to be expected of the score: what it pays for is the cache, which stands beside it as a metric.
"""

import dataclasses

from speedrun import Author, Candidate, Recipe, Rung, reference
from speedrun.methods.attention import like
from speedrun.methods.splice import LatentLlamaConfig, kv_cache


def recipe(rung: Rung) -> Recipe:
    model = dataclasses.replace(like(reference.model(rung.name), LatentLlamaConfig), splice_ratio=0.5)
    return reference.recipe(rung).replace(model=model)


CANDIDATE = Candidate(
    name="kvsplice_latent",
    authors=[Author("Marin Speedrun", "Marin community", "https://marin.community")],
    hypothesis="A latent vector can be cached at half its size for little in bits per byte.",
    recipe=recipe,
    metrics=[kv_cache],
)

if __name__ == "__main__":
    CANDIDATE.main()
