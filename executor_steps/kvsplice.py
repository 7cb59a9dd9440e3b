"""KVSplice: the cache holds half as many numbers, a learned compression of each token's keys and values.

z = LN(W_c [k; v]) and [k'; v'] = W_e z in each layer, z half as large as k and v together; the form for grouped queries
of a method made for latent attention. Source: github.com/mcgrof/knlp (gpt2/mla.py). On a Llama of 150M, without latent
attention, a cache 2.0 times smaller cost 2.7 % in perplexity, 1.2 times in two layers 1.6 %; one run each. It cannot
win here: it pays FLOPs for a cache that the score does not see. The cache stands beside the score as a metric.
"""

from speedrun import Author, Candidate, Recipe, Rung, reference
from speedrun.methods.attention import like
from speedrun.methods.splice import SplicedLlamaConfig, kv_cache


def recipe(rung: Rung) -> Recipe:
    return reference.recipe(rung).replace(model=like(reference.model(rung.name), SplicedLlamaConfig))


CANDIDATE = Candidate(
    name="kvsplice",
    authors=[Author("Marin Speedrun", "Marin community", "https://marin.community")],
    hypothesis="Keys and values can be cached at half their size for little in bits per byte.",
    recipe=recipe,
    metrics=[kv_cache],
)

if __name__ == "__main__":
    CANDIDATE.main()
