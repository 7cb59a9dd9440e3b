"""Whose processor time it was, worked out by hand and as the operating system tells it."""

import os
import subprocess
import sys
import time

import pytest

from speedrun.processors import ProcessorUse


def test_what_is_neither_idle_nor_own_is_of_others() -> None:
    before = ProcessorUse(total=100, busy=50, own=10)
    # Of 40 seconds on all processors 30 were worked in, 22 of them by this process: others had 8, a fifth.
    assert ProcessorUse(total=140, busy=80, own=32).others_share_since(before) == pytest.approx(0.2)
    # Clocks of different grain may give this process more than there was.
    assert ProcessorUse(total=140, busy=80, own=41).others_share_since(before) == 0
    assert before.others_share_since(before) is None


def test_another_process_at_work_is_seen() -> None:
    cores = os.cpu_count() or 1
    before = ProcessorUse.now()
    busy = subprocess.Popen([sys.executable, "-c", "while True: pass"])
    try:
        time.sleep(2)
        share = ProcessorUse.now().others_share_since(before)
    finally:
        busy.kill()
        busy.wait()
    # It had one processor of them all to itself, or a fair part of one on a busy machine.
    assert share is not None and share > 0.2 / cores
