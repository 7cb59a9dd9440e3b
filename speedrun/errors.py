"""Errors that are the caller's to mend: shown as one message, exit code 2, no traceback."""

import difflib
import functools
import sysconfig
import traceback
from collections.abc import Iterable
from pathlib import Path


class SpeedrunError(Exception):
    """Something that the user can put right. The message says what is wrong, where, and what to do."""


class UnknownNameError(SpeedrunError):
    """A name that is none of the known ones; the message offers the nearest."""

    def __init__(self, kind: str, name: str, known: Iterable[str], *, advice: str = ""):
        known = list(known)
        near = difflib.get_close_matches(name, known, n=3, cutoff=0.5)
        if near:
            hint = f"Did you mean {' or '.join(repr(n) for n in near)}?"
        else:
            hint = f"Known: {', '.join(known) or '(none)'}."
        super().__init__(" ".join(part for part in (f"unknown {kind} {name!r}.", hint, advice) if part))


def in_one_line(error: BaseException) -> str:
    """An error of somebody's own code in one line: its type, its first words, and the line of their file.

    The place is the innermost one outside of installed packages and of this one, which is where its author
    looks; a jax error has 80 lines of others.
    """
    words = next((line.strip() for line in str(error).splitlines() if line.strip()), "")
    said = f"{type(error).__name__}: {words[:400]}" if words else type(error).__name__
    own = [frame for frame in traceback.extract_tb(error.__traceback__) if _is_own_code(frame.filename)]
    return f"{said} ({own[-1].filename}:{own[-1].lineno}, in {own[-1].name})" if own else said


@functools.cache
def _is_own_code(filename: str) -> bool:
    """Whether a frame's file is a candidate's, or a part that candidates share, and not a package's."""
    here = Path(__file__).parent
    file = Path(filename)
    if not file.exists():  # "<string>" and the like
        return False
    roots = [Path(path) for path in (*sysconfig.get_paths().values(), here)]
    return file.is_relative_to(here / "methods") or not any(file.is_relative_to(root) for root in roots)
