#!/bin/sh
# Makes environments of their own below .venvs from lock files with hashes: `peer_env.sh NAME LOCK [NAME LOCK …]`.
# Quick when nothing has changed. Wheels only: nothing of a peer is run while it is installed.
set -eu
cd "$(dirname "$0")/.."

say() { printf 'peer_env: %s\n' "$*" >&2; }

while [ $# -ge 2 ]; do
  place=.venvs/$1
  wanted=$(sha256sum < "$2" | cut -d' ' -f1)
  if [ "$(cat "$place/acceptd-stamp" 2>/dev/null)" != "$wanted" ] || ! "$place/bin/python" -c '' 2>/dev/null; then
    say "making $place"
    rm -rf "$place"
    mkdir -p .venvs
    .venv/bin/python -m venv "$place"
    "$place/bin/python" -m pip install -qq --disable-pip-version-check --only-binary :all: --require-hashes -r "$2"
    printf '%s\n' "$wanted" > "$place/acceptd-stamp"
  fi
  shift 2
done
