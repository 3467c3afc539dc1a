#!/bin/sh
# Makes .venvs/coverage: everything that any layer of tests needs, pinned as elsewhere, and what measures each process
# that its Python runs while .cache/coverage/raw is there. Quick when nothing has changed.
set -eu
cd "$(dirname "$0")/.."

say() { printf 'coverage_env: %s\n' "$*" >&2; }

locks='requirements.lock requirements-fleet.lock requirements-web.lock tests/web/requirements.lock tools/coverage.lock'
place=.venvs/coverage
wanted=$(cat $locks tools/coverage_env.sh | sha256sum | cut -d' ' -f1)
if [ "$(cat "$place/acceptd-stamp" 2>/dev/null)" != "$wanted" ] || ! "$place/bin/python" -c '' 2>/dev/null; then
  say "making $place (a few minutes)"
  rm -rf "$place"
  mkdir -p .venvs
  .venv/bin/python -m venv "$place"
  for lock in $locks; do
    "$place/bin/python" -m pip install -qq --disable-pip-version-check --only-binary :all: --require-hashes -r "$lock"
  done
  site=$("$place/bin/python" -c 'import sysconfig; print(sysconfig.get_path("purelib"))')
  pwd > "$site/acceptd-checkout.pth"
  # After the checkout, in the order of names. In a cell there is no such directory, and nothing happens.
  printf "import os; os.access('%s/.cache/coverage/raw', os.W_OK) and __import__('tools.covered')\n" "$PWD" \
    > "$site/acceptd-covered.pth"
  printf '#!%s\nfrom acceptd.__main__ import run\n\nrun()\n' "$PWD/$place/bin/python" > "$place/bin/acceptd"
  chmod 755 "$place/bin/acceptd"
  printf '%s\n' "$wanted" > "$place/acceptd-stamp"
fi
