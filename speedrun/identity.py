"""Who is who: the digest of a source, the fingerprint of a recipe, the key of a run.

Three identities are kept apart, because they answer three questions:

- ``source_digest``: is this the text that was submitted? Checked from the file alone, running nothing.
- ``recipe_fingerprint``: do two runs compute the same thing? Seeds are grouped by it. Neither the seed
  nor the hardware is in it.
- ``run_key``: is this the same run? It stands in the address of the run's artifacts, so that nothing
  is ever resumed from, or served to, another run.

Marin's own step fingerprint will not do for this: it drops class names and the bodies of functions, so
that a subclass that overrides one method looks like its parent.
"""

import ast
import dataclasses
import enum
import functools
import hashlib
import importlib.metadata
import inspect
import json
import math
import sys
import sysconfig
from collections.abc import Iterable, Mapping, Sequence, Set
from datetime import timedelta
from pathlib import Path
from types import BuiltinFunctionType, FunctionType, MethodType
from typing import Any

from speedrun.errors import SpeedrunError

COMPUTING_PACKAGES = ("jax", "jaxlib", "marin-core", "marin-levanter", "marin-haliax", "optax")
"""Distributions whose version changes what a recipe computes."""


def sha256_hex(data: bytes) -> str:
    """SHA-256 of ``data`` as 64 hex digits."""
    return hashlib.sha256(data).hexdigest()


def texts_digest(texts: Iterable[str]) -> str:
    """SHA-256 over texts in order, each by its own SHA-256, so that no two lists can be confused."""
    return sha256_hex(b"".join(hashlib.sha256(text.encode()).digest() for text in texts))


def sha256_of_json(value: Any) -> str:
    """SHA-256 of ``value`` written as JSON with sorted keys, no spaces and no NaN."""
    return sha256_hex(json.dumps(value, sort_keys=True, separators=(",", ":"), allow_nan=False).encode())


def text_digest(path: Path) -> str:
    """SHA-256 of a text file with its line ends normalised, so that a checkout on Windows agrees."""
    return sha256_hex(path.read_bytes().replace(b"\r\n", b"\n"))


def source_digest(candidate_file: Path, parts: Sequence[Path] = ()) -> str:
    """Digest of a candidate's source: its own file and the modules of ``speedrun.methods`` that it uses.

    Args:
        candidate_file: the file in ``executor_steps/``.
        parts: files of the reusable parts it uses, in any order.
    """
    own = text_digest(candidate_file)
    return sha256_of_json([own, sorted(text_digest(path) for path in parts)]) if parts else own


def methods_used(file: Path, package: Path | None = None) -> list[Path]:
    """Files of the ``speedrun.methods`` modules that ``file`` reaches through its imports, sorted.

    Read from the text, so that whoever checks a stranger's candidate runs nothing of it. An import counts
    wherever it stands, also inside a function.

    Args:
        file: the candidate's file, or any other module.
        package: the folder of the package ``speedrun``; the running one's by default.

    Raises:
        SpeedrunError: for a file that is not Python.
    """
    package = package or Path(__file__).parent
    found: set[Path] = set()

    def visit(current: Path) -> None:
        for used in _methods_imported(current, package) - found:
            found.add(used)
            visit(used)

    visit(file)
    return sorted(found - {file})


def _methods_imported(file: Path, package: Path) -> set[Path]:
    """Files below ``package``/methods that the import statements of ``file`` name."""
    try:
        tree = ast.parse(file.read_bytes(), filename=str(file))
    except (OSError, SyntaxError, ValueError, RecursionError, MemoryError) as error:
        raise SpeedrunError(f"{file} cannot be read as Python: {error}") from None
    own = file.relative_to(package.parent).with_suffix("").parts if file.is_relative_to(package) else ()
    names: set[str] = set()
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            names |= {alias.name for alias in node.names}
        elif isinstance(node, ast.ImportFrom):
            start = ".".join(own[: -node.level]) if node.level else ""
            base = ".".join(part for part in (start, node.module) if part)
            # What is imported may itself be a module; only the folder tells.
            names |= {f"{base}.{alias.name}" for alias in node.names}
    inside = (name.split(".") for name in names if f"{name}.".startswith("speedrun.methods."))
    return {path for parts in inside for path in _module_files(parts, package)}


def _module_files(parts: list[str], package: Path) -> list[Path]:
    """Files of the module that ``parts`` name and of the packages on the way to it, below speedrun.methods.

    What is no module is a name in ``speedrun.methods`` itself, which then is what is used.
    """
    stems = [package.joinpath(*parts[1:length]) for length in range(3, len(parts) + 1)]
    files = [path for stem in stems for path in (stem.with_suffix(".py"), stem / "__init__.py") if path.is_file()]
    own = package / "methods" / "__init__.py"
    return files or ([own] if own.is_file() else [])


def computing_versions() -> dict[str, str]:
    """Installed versions of the packages that decide what a recipe computes."""
    return {name: importlib.metadata.version(name) for name in COMPUTING_PACKAGES}


def recipe_fingerprint(recipe: Any) -> str:
    """Hash of what ``recipe`` computes: types, field values, code of its own, library versions."""
    return sha256_of_json({"recipe": canonical(recipe), "versions": computing_versions()})


def run_key(fingerprint: str, *, rung: str, seed: int, hardware: str) -> str:
    """Sixteen hex digits that tell one run from every other; part of its artifacts' addresses."""
    return sha256_of_json([fingerprint, rung, seed, hardware])[:16]


def canonical(value: Any) -> Any:
    """``value`` as JSON data that differs whenever the computation may differ.

    Dataclasses become their qualified type name and every field; types and functions that do not come
    from an installed package also carry the digest of their source, since their name alone does not
    say what they do.

    Raises:
        TypeError: for a value that has no stable description (an open file, an object without fields).
    """
    match value:
        case None | bool() | int() | str():
            return value
        case float():
            # repr is exact and, unlike JSON, has words for the infinities.
            return value if math.isfinite(value) else {"float": repr(value)}
        case enum.Enum():
            return {"enum": _qualified(type(value)), "name": value.name}
        case timedelta():
            return {"timedelta_seconds": value.total_seconds()}
        case Path():
            return {"path": str(value)}
        case Mapping():
            return {"map": [[canonical(key), canonical(item)] for key, item in sorted(value.items(), key=repr)]}
        case Set():
            return {"set": sorted((canonical(item) for item in value), key=repr)}
        case list() | tuple():
            return [canonical(item) for item in value]
        case type():
            return _describe_code(value)
        case functools.partial():
            return {
                "partial": canonical(value.func),
                "args": canonical(value.args),
                "kwargs": canonical(value.keywords),
            }
        case BuiltinFunctionType():
            return {"function": _qualified(value)}
        case MethodType():
            return {"method": canonical(value.__func__), "of": canonical(value.__self__)}
        case FunctionType():
            closure = [canonical(cell.cell_contents) for cell in value.__closure__ or ()]
            return {**_describe_code(value), "closure": closure, "defaults": canonical(value.__defaults__)}
    if _qualified(type(value)) == "marin.execution.lazy.ArtifactStep":
        # Marin's own description, as a digest for it may hold paths; it leaves out the code, which is added here.
        code = _describe_code(value.run) if isinstance(value.run, FunctionType) else {}
        config = sha256_hex(value.fingerprint_payload().encode())
        on = [canonical(dep) for dep in value.deps]
        return {"step": value.name, "version": value.version, "config": config, "on": on, **code}
    if dataclasses.is_dataclass(value):
        fields = {field.name: canonical(getattr(value, field.name)) for field in dataclasses.fields(value)}
        return {**_describe_code(type(value)), "fields": fields}
    if hasattr(value, "dtype") and hasattr(value, "tolist"):
        return {"dtype": str(value.dtype), "values": value.tolist()}
    if _qualified(type(value)) == "jmp._src.policy.Policy":
        return {"policy": str(value)}
    raise TypeError(
        f"a recipe cannot hold {_qualified(type(value))}: use numbers, strings, functions or dataclasses, "
        "so that two recipes can be told apart"
    )


def _qualified(item: Any) -> str:
    return f"{item.__module__}.{item.__qualname__}"


def _describe_code(item: type | FunctionType) -> dict[str, str]:
    described = {"type" if isinstance(item, type) else "function": _qualified(item)}
    own = [base for base in (item.__mro__ if isinstance(item, type) else (item,)) if not _is_installed(base)]
    if own:
        described["code"] = sha256_of_json([_module_digest(base) for base in own])
    return described


def _module_digest(item: type | FunctionType) -> str:
    """Digest of the whole module in which ``item`` stands: what it calls there belongs to it."""
    module = sys.modules.get(item.__module__)
    if module is not None and getattr(module, "__file__", None):
        return source_digest(Path(module.__file__), methods_used(Path(module.__file__)))
    return sha256_hex(inspect.getsource(item).encode())


@functools.cache
def _is_installed(item: type | FunctionType) -> bool:
    """Whether ``item`` comes with Python or an installed package, whose version stands for its code."""
    module = sys.modules.get(item.__module__)
    file = getattr(module, "__file__", None)
    if item.__module__.startswith("speedrun.") and not item.__module__.startswith("speedrun.methods."):
        # The harness's own types only carry values; their fields say all that they compute.
        return True
    if module is None or file is None:
        return item.__module__ == "builtins" or item.__module__ in sys.builtin_module_names
    paths = sysconfig.get_paths()
    roots = [Path(paths[key]).resolve() for key in ("stdlib", "platstdlib", "purelib", "platlib")]
    return any(Path(file).resolve().is_relative_to(root) for root in roots)
