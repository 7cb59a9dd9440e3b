"""Half-RoPE: rotary positions on the first half of each head's dimensions, and RMS-normalised queries and keys.

The control of partial_key_offset, which adds its shifted keys to this and nothing else. Source: Open Athena's recipe of
May 2026 (openathena.ai/blog/pretraining-speedup), which has both in all its layers and no figure for them alone.
"""

import dataclasses

from speedrun import Author, Candidate, Recipe, Rung, reference
from speedrun.methods.offset import HalfRotaryConfig


def recipe(rung: Rung) -> Recipe:
    model = dataclasses.replace(reference.model(rung.name), rope=HalfRotaryConfig(), use_qk_norm=True)
    return reference.recipe(rung).replace(model=model)


CANDIDATE = Candidate(
    name="half_rope",
    authors=[Author("Marin Speedrun", "Marin community", "https://marin.community")],
    hypothesis="Dimensions without a position can match content at any distance.",
    recipe=recipe,
)

if __name__ == "__main__":
    CANDIDATE.main()
