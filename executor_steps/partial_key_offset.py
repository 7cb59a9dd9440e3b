"""Partial key offset: half of each key is that of the token before, in every fourth layer and the last.

That half has no rotary position (half_rope is the same without the shift), starts as zeros in each document, and is
normalised with the rest after the shift. Source: Open Athena (openathena.ai/blog/pretraining-speedup; marin PR 6153),
there 1.2 times theoretical and 1.2 realised on a mixture of experts. The first version shifted keys from one packed
document into the next, in training and evaluation; closing that leak cost 0.007 and 0.004 of the loss at widths 512
and 768 (marin issues 5795, 5801). It adds no FLOPs. The other layers, windowed there, see everything here.
"""

import dataclasses

from speedrun import Author, Candidate, Recipe, Rung, reference
from speedrun.methods.attention import like
from speedrun.methods.offset import HalfRotaryConfig, OffsetLlamaConfig


def recipe(rung: Rung) -> Recipe:
    model = like(reference.model(rung.name), OffsetLlamaConfig)
    model = dataclasses.replace(model, rope=HalfRotaryConfig(), use_qk_norm=True)
    return reference.recipe(rung).replace(model=model)


CANDIDATE = Candidate(
    name="partial_key_offset",
    authors=[Author("Marin Speedrun", "Marin community", "https://marin.community")],
    hypothesis="Keys that know the token before them make induction heads in one layer instead of two.",
    recipe=recipe,
)

if __name__ == "__main__":
    CANDIDATE.main()
