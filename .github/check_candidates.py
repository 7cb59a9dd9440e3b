"""Gate 1 for every candidate that a pull request adds or changes: `speedrun check NAME --json`, one after another.

The commit to compare with is in $BASE. Names come from the pull request, so none of them meets a shell.
"""

import os
import subprocess
import sys

from speedrun.project import CANDIDATES_FOLDER, find_project
from speedrun.submission.change import read_change


def main() -> int:
    """Check them; 1 when any does not pass."""
    project = find_project()
    change = read_change(project.root, os.environ["BASE"])
    names = sorted(name for name in change.names if f"{CANDIDATES_FOLDER}/{name}.py" in change.paths)
    names = [name for name in names if (project.candidates / f"{name}.py").is_file()]
    failed = []
    for name in names:
        print(f"gate 1 of {name}", flush=True)
        command = [sys.executable, "-m", "speedrun", "check", name, "--json"]
        if subprocess.run(command, cwd=project.root, stdin=subprocess.DEVNULL).returncode != 0:
            failed.append(name)
    print(f"checked: {', '.join(names) or 'no candidate was added or changed'}; failed: {', '.join(failed) or 'none'}")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
