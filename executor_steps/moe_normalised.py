"""moe_offset with the weights of a token's routed experts rescaled to add up to 2.5: the whole of the stack.

Last step of Open Athena's ladder (openathena.ai/blog/pretraining-speedup), there 1.04 times theoretical and realised;
2.5 is the best of 1, 2, 2.5, 3 and 4 (marin issue 5797). All of its steps after the experts come to 2.1 times there.
"""

from speedrun import Author, Candidate, Recipe, Rung
from speedrun.methods import moe, stack
from speedrun.methods.offset import HalfRotaryConfig


def recipe(rung: Rung) -> Recipe:
    model = {"kind": stack.RoutedOffsetLlamaConfig, "rope": HalfRotaryConfig(), "use_qk_norm": True, "routed_sum": 2.5}
    return moe.recipe(rung, experts=256, **model).replace(optimizer=stack.muonh(rung))


CANDIDATE = Candidate(
    name="moe_normalised",
    authors=[Author("Marin Speedrun", "Marin community", "https://marin.community")],
    hypothesis="Experts whose weights have a fixed sum speak at one volume, which should be louder than sigmoids'.",
    recipe=recipe,
)

if __name__ == "__main__":
    CANDIDATE.main()
