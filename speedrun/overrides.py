"""Setting fields of a recipe from outside: ``--optimizer.learning_rate 0.01`` or a YAML file.

Paths are draccus's dotted form. A value is read as YAML and decoded to the field's declared type by
draccus, so that what works in Levanter's own configurations works here. Only the fields that are named
change: nothing else of the recipe goes through a round trip.
"""

import dataclasses
import typing
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import yaml

from speedrun.candidate import Recipe
from speedrun.errors import SpeedrunError, UnknownNameError


def parse_arguments(arguments: Sequence[str]) -> dict[str, Any]:
    """Overrides from command-line words: ``--a.b value`` or ``--a.b=value``.

    Raises:
        SpeedrunError: for a word that is no override, or one without a value.
    """
    found: dict[str, Any] = {}
    words = iter(arguments)
    for word in words:
        if not word.startswith("--"):
            raise SpeedrunError(f"unexpected argument {word!r}: fields of the recipe are set as --optimizer.beta1 0.9")
        path, equals, value = word[2:].partition("=")
        if not equals:
            value = next(words, "--")
            if value.startswith("--"):
                raise SpeedrunError(f"--{path} needs a value, as in --{path} 0.9")
        found[path] = read_value(path, value)
    return found


def read_file(path: Path) -> dict[str, Any]:
    """Overrides from a YAML file, nested as the recipe is.

    Raises:
        SpeedrunError: when the file cannot be read or is no mapping.
    """
    try:
        content = yaml.safe_load(path.read_text(encoding="utf-8"))
    except (OSError, UnicodeDecodeError) as error:
        raise SpeedrunError(f"{path} cannot be read: {error}") from None
    except yaml.YAMLError as error:
        raise SpeedrunError(f"{path} is not valid YAML: {str(error).splitlines()[0]}") from None
    if not isinstance(content, dict):
        raise SpeedrunError(f"{path} must hold fields of the recipe, such as `optimizer: {{learning_rate: 0.01}}`")
    return dict(_flatten(content))


def apply_overrides(recipe: Recipe, overrides: Mapping[str, Any]) -> Recipe:
    """``recipe`` with each dotted field set.

    Raises:
        UnknownNameError: for a field that is not there, naming the nearest.
        SpeedrunError: for a value that does not fit the field.
    """
    for path, value in overrides.items():
        recipe = _set(recipe, path.split("."), value, path)
    return recipe


def _set(owner: Any, path: list[str], value: Any, whole: str) -> Any:
    known = {field.name for field in dataclasses.fields(owner)}
    name, rest = path[0], path[1:]
    if name not in known:
        before = whole.split(".")[: -len(path)]
        paths = [".".join([*before, other]) for other in sorted(known)]
        raise UnknownNameError("field", ".".join([*before, name]), paths)
    current = getattr(owner, name)
    if not rest:
        changed = _decode(owner, name, value, whole)
    elif dataclasses.is_dataclass(current):
        changed = _set(current, rest, value, whole)
    elif isinstance(current, Mapping):
        changed = {**current, ".".join(rest): value}
    else:
        raise SpeedrunError(f"{whole}: {'.'.join(whole.split('.')[: -len(rest)])} has no fields")
    try:
        return dataclasses.replace(owner, **{name: changed})
    except (ValueError, TypeError, AssertionError) as error:
        raise SpeedrunError(f"{whole} = {value!r}: {error}") from None


def _decode(owner: Any, name: str, value: Any, whole: str) -> Any:
    import draccus

    declared = typing.get_type_hints(type(owner), localns=_type_names()).get(name, Any)
    if isinstance(value, int) and not isinstance(value, bool) and declared is float:
        return float(value)
    if type(value) in typing.get_args(declared):
        # One of the types that the field allows as it stands; draccus would try them all, abstract ones too.
        return value
    try:
        return draccus.decode(declared, value)
    except Exception as error:
        reason = str(error).splitlines()[-1].strip() if str(error) else type(error).__name__
        raise SpeedrunError(f"{whole} cannot be {value!r}: {reason}") from None


def _type_names() -> dict[str, Any]:
    """Names that a Recipe's annotations use and that are imported only for type checkers."""
    from levanter.models.lm_model import LmConfig
    from levanter.optim.config import OptimizerConfig
    from levanter.schedule import ScheduleStep

    return {"LmConfig": LmConfig, "OptimizerConfig": OptimizerConfig, "ScheduleStep": ScheduleStep}


def read_value(path: str, text: str) -> Any:
    """The value that ``text`` means for the field at ``path``."""
    try:
        value = yaml.safe_load(text)
    except yaml.YAMLError:
        raise SpeedrunError(f"--{path}: {text!r} is not a value that can be read") from None
    if isinstance(value, str):
        # YAML 1.1 reads 1e-3, without a dot, as a string; people mean the number.
        try:
            return float(value)
        except ValueError:
            return value
    return value


def _flatten(content: Mapping[str, Any], before: str = "") -> Iterator[tuple[str, Any]]:
    for key, value in content.items():
        path = f"{before}{key}"
        if isinstance(value, Mapping):
            yield from _flatten(value, f"{path}.")
        else:
            yield path, read_value(path, value) if isinstance(value, str) else value
