#!/bin/sh
# Makes an environment for a profile's own runtime: sh tools/profile_env.sh NAME LOCK makes .venvs/NAME from pinned,
# hashed requirements. Quick when nothing has changed. PYTHON names another interpreter than acceptd's own.
set -eu
cd "$(dirname "$0")/.."

say() { printf 'profile_env: %s\n' "$*" >&2; }

[ $# = 2 ] || { say "usage: sh tools/profile_env.sh NAME LOCK, for example ort-1.24 policies/profiles/environments/ort-1.24.lock"; exit 2; }
case $1 in '' | */* | .*) say "$1 is no plain name"; exit 2 ;; esac
[ -f "$2" ] || { say "$2 does not exist"; exit 2; }

python=${PYTHON:-.venv/bin/python}
place=.venvs/$1
wanted=$({ cat "$2" tools/profile_env.sh; "$python" -c 'import sys; print(sys.version, sys.base_prefix)'; } | sha256sum | cut -d' ' -f1)
stamp=$place/acceptd-stamp
if [ "$(cat "$stamp" 2>/dev/null)" != "$wanted" ] || ! "$place/bin/python" -c '' 2>/dev/null; then
  say "making $place"
  rm -rf "$place"
  umask 022 # a profile's interpreter that others can write is refused
  mkdir -p .venvs
  "$python" -m venv "$place"
  "$place/bin/python" -m pip install -qq --disable-pip-version-check --only-binary :all: --require-hashes -r "$2"
  printf '%s\n' "$wanted" > "$stamp"
fi
printf '%s\n' "$PWD/$place/bin/python"
