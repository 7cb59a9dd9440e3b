"""JSON from strangers: read as data, and refused where it says two things or none.

Python's reader accepts what JSON does not have (NaN, infinities) and what nobody means (a key twice, an
integer of a thousand digits). Each is an error here, so that what was checked is what everybody else reads.
"""

import json
import math
from typing import Any, NoReturn

MAX_DEPTH = 40
"""Levels of nesting; a recipe's configuration has about six."""
MAX_INTEGER = 2**63 - 1


def loads(text: str | bytes) -> Any:
    """The value that ``text`` holds.

    Raises:
        ValueError: saying what is wrong with it.
    """
    try:
        text = text.decode("utf-8") if isinstance(text, bytes) else text
        value = json.loads(
            text,
            parse_constant=_refuse_constant,
            parse_float=_finite,
            parse_int=_bounded,
            object_pairs_hook=_without_repeats,
        )
    except UnicodeDecodeError:
        raise ValueError("it is not UTF-8 text") from None
    except RecursionError:
        raise ValueError(f"it is nested more than {MAX_DEPTH} levels deep") from None
    except json.JSONDecodeError as error:
        raise ValueError(f"it is not JSON: {error.msg}, line {error.lineno}") from None
    # With fewer brackets than levels there is nothing to look for.
    if text.count("{") + text.count("[") > MAX_DEPTH and _deeper_than(value, MAX_DEPTH):
        raise ValueError(f"it is nested more than {MAX_DEPTH} levels deep")
    return value


def _refuse_constant(name: str) -> NoReturn:
    raise ValueError(f"{name} is not a JSON number")


def _finite(text: str) -> float:
    value = float(text)
    if not math.isfinite(value):
        raise ValueError(f"the number {text[:20]} is too large")
    return value


def _bounded(text: str) -> int:
    if len(text) > 20 or abs(int(text)) > MAX_INTEGER:
        raise ValueError(f"the number {text[:20]}... is too large" if len(text) > 20 else f"{text} is too large")
    return int(text)


def _without_repeats(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    content = dict(pairs)
    if len(content) < len(pairs):
        keys = [key for key, _ in pairs]
        repeated = next(key for key in keys if keys.count(key) > 1)
        raise ValueError(f"the key {ascii(repeated)[:60]} stands in one object twice")
    return content


def _deeper_than(value: Any, levels: int) -> bool:
    if isinstance(value, dict):
        inner = value.values()
    elif isinstance(value, list):
        inner = value
    else:
        return False
    return levels == 0 or any(_deeper_than(item, levels - 1) for item in inner)
