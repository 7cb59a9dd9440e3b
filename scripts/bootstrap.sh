#!/usr/bin/env bash
# Makes .venv: finds a Python, installs the exact versions of requirements.lock, then this project, editable.
# Does nothing when .venv is up to date. Safe to run again at any time, also after being interrupted.
set -euo pipefail

cd "$(dirname "${BASH_SOURCE[0]}")/.."
readonly MINIMUM=3.12
readonly VENV=.venv
readonly STAMP=$VENV/bootstrap.stamp

say() { printf '[%3ds] %s\n' "$SECONDS" "$*"; }

trap 'say "Stopped: what is printed above failed. When it is mended, run this again." >&2' ERR

# What .venv was made from, and where.
wanted() { printf '%s\n%s\n' "$PWD" "$(cat pyproject.toml requirements.lock scripts/bootstrap.sh | cksum)"; }

# Runs the candidate, for a pyenv shim may be on PATH and still answer "command not found".
fits() {
    "$1" -c "import sys, venv, ensurepip; sys.exit(sys.version_info < (${MINIMUM/./, }))" </dev/null >/dev/null 2>&1
}

# One a line, best first. 3.12 leads because the versions in requirements.lock were tried with it.
candidates() {
    if [[ -n ${PYTHON:-} ]]; then
        echo "$PYTHON"
        return
    fi
    printf '%s\n' python3.12 python3.13 python3.14 python3 python
    # Pythons that pyenv or uv hold without having them on PATH.
    printf '%s\n' "${PYENV_ROOT:-$HOME/.pyenv}"/versions/3.*/bin/python | sort -V
    if command -v uv >/dev/null; then uv python find ">=$MINIMUM" 2>/dev/null || true; fi
}

find_python() {
    local candidate
    while read -r candidate; do
        if fits "$candidate"; then
            # Not .venv's own, where that is activated: it is about to be removed.
            "$candidate" -c "import os, sys; print(os.path.realpath(sys.executable))"
            return
        fi
    done < <(candidates)
}

# Whether .venv can be kept and brought up to date.
usable() {
    # Scripts in bin/ hold the folder's path; an install that was stopped may have left half a package.
    if [[ -f $STAMP && $(head -n 1 "$STAMP") != "$PWD" ]]; then return 1; fi
    [[ -x $VENV/bin/python ]] && fits "$VENV/bin/python" && "$VENV/bin/python" -m pip --version >/dev/null 2>&1
}

if [[ -f $STAMP && $(<"$STAMP") == "$(wanted)" ]]; then
    exit 0
fi

if usable; then
    echo unfinished >"$STAMP"
else
    python=$(find_python)
    if [[ -z $python ]]; then
        cat >&2 <<EOF
No Python $MINIMUM or newer (with its venv module) was found. Do one of these, then run this again:
  Debian, Ubuntu:  sudo apt install python3.12 python3.12-venv
  macOS:           brew install python@3.12
  with pyenv:      pyenv install 3.12
  with uv:         uv python install 3.12
  elsewhere:       PYTHON=/path/to/python3.12 $0
EOF
        exit 2
    fi
    say "Making $VENV with $("$python" --version) ($python)"
    rm -rf "$VENV"
    mkdir "$VENV"
    echo unfinished >"$STAMP"
    "$python" -m venv "$VENV"
fi

# uv resolves in seconds what takes pip more than ten minutes.
say "Installing $(grep -c '==' requirements.lock) packages from requirements.lock"
"$VENV/bin/python" -m pip install -qq --disable-pip-version-check "$(grep -o '^uv==[^ ]*' requirements.lock)"
# No bytecode: compiling it takes minutes and saves about a second.
"$VENV/bin/uv" pip install --quiet --python "$VENV/bin/python" --requirement requirements.lock
say "Installing this project, editable"
"$VENV/bin/uv" pip install --quiet --python "$VENV/bin/python" --no-deps --editable .
wanted >"$STAMP"
say "Ready: $VENV/bin/speedrun"
