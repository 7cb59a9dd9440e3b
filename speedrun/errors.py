"""Errors that are the caller's to mend: shown as one message, exit code 2, no traceback."""

import difflib
from collections.abc import Iterable


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
