"""The candidates of a project: listed from their text, loaded when one is really needed.

Listing parses the files and imports nothing, so that it is instant and safe on a stranger's file.
Loading runs the file, as Python imports any module.
"""

import ast
import importlib.util
import sys
import traceback
from dataclasses import dataclass
from pathlib import Path

from speedrun.candidate import SAFE_NAME, Candidate, Recipe
from speedrun.errors import SpeedrunError, UnknownNameError
from speedrun.identity import methods_used, source_digest
from speedrun.ladder import LADDER, Rung
from speedrun.project import Project


@dataclass(frozen=True)
class Listed:
    """What a candidate's text says of it."""

    name: str
    path: Path
    summary: str
    """First line of the file's docstring."""
    problem: str = ""
    """Why the file cannot be loaded, as far as its text shows; empty when it looks right."""


@dataclass(frozen=True)
class Loaded:
    """A candidate whose file has been run."""

    candidate: Candidate
    path: Path
    methods: tuple[Path, ...]
    """Files of the ``speedrun.methods`` modules that it uses."""

    @property
    def source_digest(self) -> str:
        """See ``speedrun.identity``."""
        return source_digest(self.path, self.methods)

    def recipe(self, rung: Rung) -> Recipe:
        """The candidate's recipe at ``rung``.

        Raises:
            SpeedrunError: with file and line, when the candidate does not declare the rung, its function
                raises, or returns something else.
        """
        if rung.name not in self.candidate.rungs:
            raise SpeedrunError(
                f"{self.path}: {self.candidate.name} declares no recipe for {rung.name}; "
                f"it declares {', '.join(self.candidate.rungs)}"
            )
        try:
            recipe = self.candidate.recipe(rung)
        except Exception as error:
            raise SpeedrunError(
                f"{_where(error, self.path)}: the recipe of {self.candidate.name} at {rung.name} raised {_what(error)}"
            ) from error
        if not isinstance(recipe, Recipe):
            raise SpeedrunError(
                f"{self.path}: the recipe of {self.candidate.name} at {rung.name} returned "
                f"{type(recipe).__name__}, not a speedrun.Recipe"
            )
        return recipe


def list_candidates(project: Project) -> list[Listed]:
    """Every candidate file of the project, by name, read as text."""
    files = sorted(path for path in project.candidates.glob("*.py") if path.name != "__init__.py")
    return [read_text(path, path.read_bytes()) for path in files]


def find_candidate(project: Project, name: str) -> Listed:
    """The file of candidate ``name``, read as text.

    Raises:
        SpeedrunError: for an unknown name, or a file that cannot be loaded as far as its text shows.
    """
    listed = {item.name: item for item in list_candidates(project)}
    if name not in listed:
        raise UnknownNameError("candidate", name, listed, advice="`speedrun list` shows them.")
    if listed[name].problem:
        raise SpeedrunError(f"{listed[name].path}: {listed[name].problem}")
    return listed[name]


def load_candidate(project: Project, name: str) -> Loaded:
    """Import the file of candidate ``name`` and return what it declares.

    Raises:
        SpeedrunError: for an unknown name or a file that is wrong, with file and line.
    """
    item = find_candidate(project, name)
    module_name = f"{project.candidates.name}.{item.path.stem}"
    spec = importlib.util.spec_from_file_location(module_name, item.path)
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules[module_name] = module
    try:
        spec.loader.exec_module(module)
    except Exception as error:
        del sys.modules[module_name]
        raise SpeedrunError(f"{_where(error, item.path)}: cannot be loaded: {_what(error)}") from error
    candidate = module.CANDIDATE
    if not isinstance(candidate, Candidate):
        raise SpeedrunError(f"{item.path}: CANDIDATE is a {type(candidate).__name__}, not a speedrun.Candidate")
    if candidate.name != item.name:
        raise SpeedrunError(
            f"{item.path}: the candidate calls itself {candidate.name!r}; its name must be that of its file, "
            f"{item.name!r}"
        )
    return Loaded(candidate, item.path, tuple(methods_used(item.path)))


def load_rung(name: str) -> Rung:
    """The rung with this name.

    Raises:
        UnknownNameError: naming the nearest.
    """
    if name not in LADDER:
        raise UnknownNameError("rung", name, LADDER)
    return LADDER[name]


def read_text(path: Path, content: bytes) -> Listed:
    """What ``content``, the file at ``path``, says of its candidate. Nothing of it is run."""
    name = path.stem
    try:
        tree = ast.parse(content, filename=str(path))
    except SyntaxError as error:
        return Listed(name, path, "", f"line {error.lineno}: {error.msg}" if error.lineno else str(error.msg))
    except (ValueError, RecursionError, MemoryError) as error:
        return Listed(name, path, "", f"it cannot be read as Python: {error}")
    docstring = ast.get_docstring(tree) or ""
    summary = docstring.splitlines()[0] if docstring else ""
    found = [
        statement.lineno
        for statement in tree.body
        if isinstance(statement, ast.Assign | ast.AnnAssign)
        for target in (statement.targets if isinstance(statement, ast.Assign) else [statement.target])
        if isinstance(target, ast.Name) and target.id == "CANDIDATE"
    ]
    problem = ""
    if not SAFE_NAME.fullmatch(name):
        problem = (
            f"{name!r} is no candidate name: rename the file with lower-case letters, digits, '_' and '-' (at most 64)"
        )
    elif not found:
        problem = "no CANDIDATE: the file must end with CANDIDATE = Candidate(...); `speedrun new` makes one to edit"
    elif len(found) > 1:
        problem = f"two CANDIDATEs, on lines {' and '.join(map(str, found))}: one file holds one candidate"
    return Listed(name, path, summary, problem)


_NOT_THE_METHOD = ("name", "authors", "hypothesis", "baseline")
"""What a candidate says of itself, beside what it does."""


def own_lines(content: bytes) -> int:
    """Lines of code in a candidate's file that say what it does.

    Left out is what every candidate has or needs none of: blank lines, comments, docstrings, imports of the
    package ``speedrun`` itself, names and hypothesis, and what makes the file a script.

    Raises:
        SyntaxError: for a file that is not Python.
    """
    lines: set[int] = set()
    for statement in ast.parse(content).body:
        match statement:
            case ast.Expr(value=ast.Constant(value=str())) | ast.ImportFrom(module="speedrun") | ast.If():
                continue
            case ast.Assign(targets=[ast.Name(id="CANDIDATE")], value=ast.Call(keywords=keywords)):
                code: list[ast.AST] = [word.value for word in keywords if word.arg not in _NOT_THE_METHOD]
            case _:
                code = [statement]
        for node in code:
            lines |= _lines_of(node)
    text = content.decode("utf-8").splitlines()
    return sum(bool(text[at - 1].split("#")[0].strip()) for at in lines)


def _lines_of(node: ast.AST) -> set[int]:
    """Numbers of the lines that ``node`` spans, without the docstrings in it."""

    def span(part: ast.AST) -> set[int]:
        return set(range(part.lineno, (part.end_lineno or part.lineno) + 1))  # type: ignore[attr-defined]

    documented = (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef)
    docstrings = [part.body[0] for part in ast.walk(node) if isinstance(part, documented) and ast.get_docstring(part)]
    return span(node).difference(*map(span, docstrings))


def _what(error: BaseException) -> str:
    return f"{type(error).__name__}: {error}" if str(error) else type(error).__name__


def _where(error: BaseException, path: Path) -> str:
    """``file:line`` of the innermost frame in the candidate's own file, which is where its author looks."""
    lines = [frame.lineno for frame in traceback.extract_tb(error.__traceback__) if frame.filename == str(path)]
    if lines:
        return f"{path}:{lines[-1]}"
    return f"{path}:{error.lineno}" if isinstance(error, SyntaxError) and error.lineno else str(path)
