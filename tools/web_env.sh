#!/bin/sh
# Makes .venvs/web: acceptd's own environment, the console's extra, and what tests it in a browser (Debian's Chromium).
# Quick when nothing has changed. With "console" as its word: the extra into .venv itself, and nothing else.
set -eu
cd "$(dirname "$0")/.."

say() { printf 'web_env: %s\n' "$*" >&2; }

install() { "$1" -m pip install -qq --disable-pip-version-check --only-binary :all: --require-hashes -r "$2"; }

if [ "${1:-}" = console ]; then
  install .venv/bin/python requirements-web.lock
  exit 0
fi

command -v chromium >/dev/null 2>&1 || {
  [ "$(id -u)" = 0 ] && command -v apt-get >/dev/null 2>&1 ||
    { say "chromium is missing: ask an administrator for 'apt-get install chromium'"; exit 2; }
  say "installing chromium (Debian)"
  { apt-get install -y -qq --no-install-recommends chromium fonts-dejavu-core ||
    { apt-get update -qq && apt-get install -y -qq --no-install-recommends chromium fonts-dejavu-core; }; } >/dev/null 2>&1 ||
    { say "chromium could not be installed: run 'apt-get install chromium' and see"; exit 2; }
}

place=.venvs/web
wanted=$(cat requirements.lock requirements-web.lock tests/web/requirements.lock tools/web_env.sh | sha256sum | cut -d' ' -f1)
stamp=$place/acceptd-stamp
if [ "$(cat "$stamp" 2>/dev/null)" != "$wanted" ] || ! "$place/bin/python" -c '' 2>/dev/null; then
  say "making $place"
  rm -rf "$place"
  mkdir -p .venvs
  .venv/bin/python -m venv "$place"
  install "$place/bin/python" requirements-web.lock
  install "$place/bin/python" tests/web/requirements.lock
  # What acceptd itself needs comes from its own environment: the same files, pinned once.
  site=$("$place/bin/python" -c 'import sysconfig; print(sysconfig.get_path("purelib"))')
  .venv/bin/python -c 'import sysconfig; print(sysconfig.get_path("purelib"))' > "$site/acceptd-own.pth"
  pwd > "$site/acceptd-checkout.pth"
  printf '%s\n' "$wanted" > "$stamp"
fi
