"""The reference recipes."""

import dataclasses

import pytest

from speedrun import reference
from speedrun.errors import SpeedrunError
from speedrun.ladder import LADDER


def test_a_rung_of_ones_own_without_a_shape_says_where_to_put_it() -> None:
    rung = dataclasses.replace(LADDER["30m"], name="60m")
    with pytest.raises(SpeedrunError, match=r"speedrun/reference\.py has no shape.* for 60m"):
        reference.recipe(rung)
