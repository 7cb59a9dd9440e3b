"""moe_muonh with half-RoPE, normalised queries and keys, and partial key offset in every fourth layer and the last.

Fourth step of Open Athena's ladder (openathena.ai/blog/pretraining-speedup), there 1.2 times theoretical and realised.
Definition: speedrun/methods/offset.py; partial_key_offset is the same on the dense model.
"""

from speedrun import Author, Candidate, Recipe, Rung
from speedrun.methods import moe, stack
from speedrun.methods.offset import HalfRotaryConfig


def recipe(rung: Rung) -> Recipe:
    model = {"kind": stack.RoutedOffsetLlamaConfig, "rope": HalfRotaryConfig(), "use_qk_norm": True}
    return moe.recipe(rung, experts=256, **model).replace(optimizer=stack.muonh(rung))


CANDIDATE = Candidate(
    name="moe_offset",
    authors=[Author("Marin Speedrun", "Marin community", "https://marin.community")],
    hypothesis="Keys that know the token before them help beside experts and MuonH.",
    recipe=recipe,
)

if __name__ == "__main__":
    CANDIDATE.main()
