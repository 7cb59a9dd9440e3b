"""What a recipe may say of its training data, before any step is made."""

import functools

import pytest

from speedrun.errors import SpeedrunError
from speedrun.training_data import Filtered, Mixture, names_in


def is_long(document: dict[str, str], least: int = 10) -> bool:
    return len(document["text"]) >= least


def test_a_filter_is_a_function_that_can_be_told_from_others() -> None:
    assert Filtered("x", is_long).keep is is_long
    Filtered("x", functools.partial(is_long, least=3))
    for nameless in (lambda document: True, functools.partial(lambda document: True), "is_long"):
        with pytest.raises(SpeedrunError, match="a filter takes a function of the candidate's module"):
            Filtered("x", nameless)  # type: ignore[arg-type]


@pytest.mark.parametrize("weight", [0, -1, float("nan"), float("inf")])
def test_a_weight_that_means_nothing_is_refused(weight: float) -> None:
    with pytest.raises(SpeedrunError, match="must be above 0"):
        Mixture([("x", 1), ("y", weight)])


def test_a_mixture_has_parts_and_no_mixtures() -> None:
    with pytest.raises(SpeedrunError, match="at least one part"):
        Mixture([])
    with pytest.raises(SpeedrunError, match="cannot be part of a mixture"):
        Mixture([(Mixture([("x", 1)]), 1)])  # type: ignore[list-item]


def test_every_name_in_it_is_found() -> None:
    assert list(names_in("a")) == ["a"]
    assert list(names_in(Mixture([("a", 1), (Filtered("b", is_long), 2)]))) == ["a", "b"]
