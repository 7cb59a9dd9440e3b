"""How long the commands take that need no model, as whole processes.

    python scripts/bench_startup.py

Prints the median of several runs of each. `speedrun --help` is to take under 0.3 s and `speedrun list` under 0.6 s
on an idle machine.
"""

import statistics
import subprocess
import sys
import time

RUNS = 7
COMMANDS = {("--help",): 0.3, ("list",): 0.6, ("status",): 0.6}


def main() -> None:
    for words, wanted in COMMANDS.items():
        seconds = []
        for _ in range(RUNS + 1):
            started = time.perf_counter()
            subprocess.run([sys.executable, "-m", "speedrun", *words], check=True, capture_output=True)
            seconds.append(time.perf_counter() - started)
        # The first run fills the disk cache.
        print(f"speedrun {' '.join(words):8} {statistics.median(seconds[1:]):.2f} s (wanted under {wanted} s)")


if __name__ == "__main__":
    main()
