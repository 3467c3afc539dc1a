#!/bin/sh
# Makes .venvs/mutation: mutmut, pinned with hashes, and acceptd's own environment beside it. Quick when nothing changed.
set -eu
cd "$(dirname "$0")/.."
place=.venvs/mutation
before=$(cat "$place/acceptd-stamp" 2>/dev/null || true)
sh tools/peer_env.sh mutation tools/mutation.lock
[ "$before" = "$(cat "$place/acceptd-stamp")" ] && [ -e "$place/acceptd-own" ] && exit 0
site=$("$place/bin/python" -c 'import sysconfig; print(sysconfig.get_path("purelib"))')
# Not the checkout: what is mutated is a copy of it, and the directory where mutmut runs.
.venv/bin/python -c 'import sysconfig; print(sysconfig.get_path("purelib"))' > "$site/acceptd-own.pth"
touch "$place/acceptd-own"
