"""Fields of a recipe set from the command line or a file."""

from pathlib import Path

import pytest
from levanter.models.llama import LlamaConfig

from speedrun import LADDER, reference
from speedrun.errors import SpeedrunError, UnknownNameError
from speedrun.overrides import apply_overrides, parse_arguments, read_file

RECIPE = reference.recipe(LADDER["micro_1"])


def test_nested_fields_are_set_and_nothing_else_changes() -> None:
    changed = apply_overrides(RECIPE, {"optimizer.learning_rate": 1e-3, "model.num_layers": 3, "batch_size": 4})
    assert (changed.optimizer.learning_rate, changed.model.num_layers, changed.batch_size) == (1e-3, 3, 4)
    assert changed.optimizer.beta2 == RECIPE.optimizer.beta2
    assert isinstance(changed.model, LlamaConfig)
    assert changed.model.rope == RECIPE.model.rope


def test_both_spellings_and_numbers_without_a_dot() -> None:
    words = ["--optimizer.learning_rate", "1e-3", "--model.num_layers=3", "--optimizer.nesterov", "true"]
    expected = {"optimizer.learning_rate": 1e-3, "model.num_layers": 3, "optimizer.nesterov": True}
    assert parse_arguments(words) == expected


def test_whole_numbers_fit_a_float_field() -> None:
    rate = apply_overrides(RECIPE, {"optimizer.learning_rate": 1}).optimizer.learning_rate
    assert (rate, type(rate)) == (1.0, float)


@pytest.mark.parametrize(
    ("field", "value", "message"),
    [
        ("optimizer.learning_rte", 1, "Did you mean 'optimizer.learning_rate'"),
        ("optimiser.beta1", 1, "Did you mean 'optimizer'"),
        ("model.num_layers.x", 1, "model.num_layers has no fields"),
        ("model.num_layers", "many", "model.num_layers cannot be 'many'"),
        ("model.num_heads", 5, "not divisible"),
    ],
)
def test_what_does_not_fit_is_named(field: str, value: object, message: str) -> None:
    with pytest.raises((SpeedrunError, UnknownNameError), match=message):
        apply_overrides(RECIPE, {field: value})


@pytest.mark.parametrize("words", [["stray"], ["--steps"], ["--steps", "--batch_size", "3"]])
def test_malformed_words_are_refused(words: list[str]) -> None:
    with pytest.raises(SpeedrunError):
        parse_arguments(words)


def test_a_yaml_file_nests_as_the_recipe_does(tmp_path: Path) -> None:
    path = tmp_path / "c.yaml"
    path.write_text("optimizer:\n  learning_rate: 1e-3\nbatch_size: 4\n")
    assert read_file(path) == {"optimizer.learning_rate": 1e-3, "batch_size": 4}
    path.write_text("just text")
    with pytest.raises(SpeedrunError, match="must hold fields"):
        read_file(path)
    path.write_text("a: [")
    with pytest.raises(SpeedrunError, match="not valid YAML"):
        read_file(path)
    with pytest.raises(SpeedrunError, match="cannot be read"):
        read_file(tmp_path / "none.yaml")
