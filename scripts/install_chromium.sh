#!/usr/bin/env bash
# Finds a Chromium for the tests of the leaderboard's page, or installs Debian's; prints its path.
# CHROMIUM=/path/to/chromium names one.
set -euo pipefail

find_chromium() {
    local name
    for name in "${CHROMIUM:-}" chromium chromium-browser google-chrome google-chrome-stable \
        "/Applications/Chromium.app/Contents/MacOS/Chromium" \
        "/Applications/Google Chrome.app/Contents/MacOS/Google Chrome"; do
        if [[ -n $name ]] && command -v "$name"; then return 0; fi
    done
    return 1
}

if find_chromium; then exit 0; fi
if [[ $(id -u) == 0 ]] && command -v apt-get >/dev/null; then
    {
        apt-get update --quiet=2
        DEBIAN_FRONTEND=noninteractive apt-get install --quiet=2 --yes --no-install-recommends chromium
    } >&2
    if find_chromium; then exit 0; fi
fi
cat >&2 <<'EOF'
No Chromium was found, and the tests of the leaderboard's page need one. Do one of these:
  Debian, Ubuntu:  sudo apt install chromium
  macOS:           brew install --cask chromium
  elsewhere:       CHROMIUM=/path/to/chromium make test-full
EOF
exit 1
