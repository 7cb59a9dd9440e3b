"""Gains that others published for steps that candidates here take too, to be shown beside what was measured."""

from pydantic import BaseModel


class Published(BaseModel):
    """By how many times less compute, and less time, a step reached the same loss, by its authors' account."""

    theoretical: float
    realised: float | None
    source: str
    measured: str
    """On what, where that is not the step as it stands here."""


_OPEN_ATHENA = "Open Athena, openathena.ai/blog/pretraining-speedup"
_FOUR = "each measured alone, against its mixture of 64 experts"
_WHOLE = "the last four steps together, at 3e19 FLOPs"


def _step(theoretical: float, realised: float | None, measured: str = _FOUR) -> Published:
    return Published(theoretical=theoretical, realised=realised, source=_OPEN_ATHENA, measured=measured)


STEPS = {
    ("moe_64", "adamw"): _step(6.7, 3.6, "a dense Llama to its mixture of 64 experts"),
    ("moe_256", "moe_64"): _step(1.4, 1.3),
    ("moe_muonh", "moe_256"): _step(1.3, 1.25),
    ("moe_offset", "moe_muonh"): _step(1.2, 1.2),
    ("moe_normalised", "moe_offset"): _step(1.04, 1.04),
    ("moe_normalised", "moe_64"): _step(2.1, None, _WHOLE),
}
"""By (candidate, what it is compared with)."""
