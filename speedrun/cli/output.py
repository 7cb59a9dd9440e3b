"""Keeping the terminal for people: what libraries print goes to a log file."""

import contextlib
import os
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import IO

from rich.console import Console

from speedrun.errors import SpeedrunError


@contextlib.contextmanager
def diverted_output(log_file: Path) -> Iterator[Console]:
    """Send everything that this process prints to ``log_file``, and give a console on the real stderr.

    File descriptors are moved, not only Python's streams, since XLA and tensorstore print from C++.

    Raises:
        SpeedrunError: when the log cannot be written.
    """
    try:
        log_file.parent.mkdir(parents=True, exist_ok=True)
        log = log_file.open("ab")
    except OSError as error:
        raise SpeedrunError(f"{log_file} cannot be written: {error.strerror}") from None
    sys.stdout.flush()
    sys.stderr.flush()
    saved = [os.dup(descriptor) for descriptor in (1, 2)]
    terminal: IO[str] = os.fdopen(os.dup(2), "w", encoding="utf-8")
    try:
        os.dup2(log.fileno(), 1)
        os.dup2(log.fileno(), 2)
        yield Console(file=terminal)
    finally:
        sys.stdout.flush()
        sys.stderr.flush()
        for descriptor, original in enumerate(saved, start=1):
            os.dup2(original, descriptor)
            os.close(original)
        terminal.close()
        log.close()
