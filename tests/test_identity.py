"""Two recipes that compute different things never share a fingerprint, and equal ones always do."""

import dataclasses
import functools
import importlib.util
import sys
from pathlib import Path

import pytest
from levanter.models.llama import LlamaConfig

from speedrun import LADDER, identity, reference
from speedrun.identity import canonical, recipe_fingerprint, run_key, source_digest

RECIPE = reference.recipe(LADDER["micro_1"])

SUBCLASS = """
from levanter.models.llama import LlamaConfig

class Changed(LlamaConfig):
    def flops_per_token(self, vocab_size, context_length):
        return {value}
"""


def load(path: Path, name: str):
    spec = importlib.util.spec_from_file_location(name, path)
    module = importlib.util.module_from_spec(spec)
    sys.modules[name] = module
    spec.loader.exec_module(module)
    return module


def fields_of(config: LlamaConfig) -> dict:
    return {field.name: getattr(config, field.name) for field in dataclasses.fields(config)}


def test_the_same_recipe_built_twice_has_one_fingerprint() -> None:
    assert recipe_fingerprint(reference.recipe(LADDER["micro_1"])) == recipe_fingerprint(RECIPE)


@pytest.mark.parametrize(
    "changes",
    [
        {"batch_size": 9},
        {"steps": 5},
        {"z_loss_weight": 1e-4},
        {"precision": "p=f32,c=bfloat16"},
        {"training_data": "fineweb_edu_10m"},
        {"optimizer": dataclasses.replace(RECIPE.optimizer, beta2=0.951)},
        {"model": dataclasses.replace(RECIPE.model, rope=None)},
    ],
    ids=lambda changes: next(iter(changes)),
)
def test_any_field_that_differs_changes_the_fingerprint(changes: dict) -> None:
    assert recipe_fingerprint(RECIPE.replace(**changes)) != recipe_fingerprint(RECIPE)


def test_a_subclass_with_the_same_fields_is_another_recipe(tmp_path: Path) -> None:
    path = tmp_path / "part.py"
    path.write_text(SUBCLASS.format(value=1.0))
    one = RECIPE.replace(model=load(path, "part_one").Changed(**fields_of(RECIPE.model)))
    assert recipe_fingerprint(one) != recipe_fingerprint(RECIPE)
    first = recipe_fingerprint(one)
    # The same class with another body: only the source tells the two apart.
    path.write_text(SUBCLASS.format(value=2.0))
    again = RECIPE.replace(model=load(path, "part_one").Changed(**fields_of(RECIPE.model)))
    assert recipe_fingerprint(again) != first


def test_functions_are_told_apart_by_source_closure_and_binding(tmp_path: Path) -> None:
    path = tmp_path / "filters.py"
    path.write_text("def longer_than(n):\n    def keep(text):\n        return len(text) > n\n    return keep\n")
    filters = load(path, "filters_one")
    assert canonical(filters.longer_than(3)) == canonical(filters.longer_than(3))
    assert canonical(filters.longer_than(3)) != canonical(filters.longer_than(4))
    assert canonical(functools.partial(max, 1)) != canonical(functools.partial(max, 2))
    assert canonical(functools.partial(max, 1)) != canonical(functools.partial(min, 1))


def test_another_library_version_is_another_recipe(monkeypatch) -> None:
    before = recipe_fingerprint(RECIPE)
    versions = identity.computing_versions() | {"jax": "0.0.0"}
    monkeypatch.setattr(identity, "computing_versions", lambda: versions)
    assert recipe_fingerprint(RECIPE) != before


def test_what_has_no_stable_description_is_refused() -> None:
    with pytest.raises(TypeError, match="a recipe cannot hold builtins.object"):
        canonical({"x": object()})


def test_no_memory_address_enters() -> None:
    assert "0x" not in str(canonical(RECIPE))


def test_run_key_depends_on_each_of_its_parts() -> None:
    base = dict(rung="micro_1", seed=42, hardware="cpu")
    keys = {
        run_key("f", **base),
        run_key("g", **base),
        run_key("f", **base | {"seed": 43}),
        run_key("f", **base | {"rung": "micro_2"}),
        run_key("f", **base | {"hardware": "h100x8"}),
    }
    assert len(keys) == 5
    assert all(len(key) == 16 for key in keys)


def test_the_source_digest_covers_the_parts_that_are_used(tmp_path: Path) -> None:
    own, part = tmp_path / "own.py", tmp_path / "part.py"
    own.write_text("a")
    part.write_text("b")
    before = source_digest(own, [part])
    part.write_text("c")
    assert source_digest(own, [part]) != before
