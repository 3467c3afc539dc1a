#!/bin/sh
# Into .venv: the fleet's extra (PostgreSQL's driver, the task queue, object stores). Quick when nothing has changed.
# With "tests" as its word also .venvs/fleet, with the S3-compatible server that the tests start, and PostgreSQL.
set -eu
cd "$(dirname "$0")/.."

say() { printf 'fleet_env: %s\n' "$*" >&2; }

install() { "$1" -m pip install -qq --disable-pip-version-check --only-binary :all: --require-hashes -r "$2"; }

# digest of files, to leave alone what is there already
fresh() { [ "$(cat "$1" 2>/dev/null)" = "$2" ] && "$3" -c "$4" 2>/dev/null; }

wanted=$(cat requirements-fleet.lock | sha256sum | cut -d' ' -f1)
if ! fresh .venv/acceptd-fleet "$wanted" .venv/bin/python 'import procrastinate, psycopg_pool, s3fs'; then
  say "installing the fleet's extra into .venv"
  install .venv/bin/python requirements-fleet.lock
  printf '%s\n' "$wanted" > .venv/acceptd-fleet
fi
[ "${1:-}" = tests ] || exit 0

ls /usr/lib/postgresql/*/bin/initdb >/dev/null 2>&1 || {
  [ "$(id -u)" = 0 ] && command -v apt-get >/dev/null 2>&1 ||
    { say "PostgreSQL is missing: ask an administrator for 'apt-get install postgresql'"; exit 2; }
  say "installing postgresql (Debian)"
  # The tests start servers of their own: Debian's default cluster is not made.
  mkdir -p /etc/postgresql-common/createcluster.d
  printf 'create_main_cluster = false\n' > /etc/postgresql-common/createcluster.d/acceptd.conf
  { apt-get install -y -qq --no-install-recommends postgresql ||
    { apt-get update -qq && apt-get install -y -qq --no-install-recommends postgresql; }; } >/dev/null 2>&1 ||
    { say "PostgreSQL could not be installed: run 'apt-get install postgresql' and see"; exit 2; }
}

place=.venvs/fleet
wanted=$(cat tests/fleet/requirements.lock | sha256sum | cut -d' ' -f1)
if ! fresh "$place/acceptd-stamp" "$wanted" "$place/bin/python" 'import moto.server'; then
  say "making $place"
  rm -rf "$place"
  mkdir -p .venvs
  .venv/bin/python -m venv "$place"
  install "$place/bin/python" tests/fleet/requirements.lock
  printf '%s\n' "$wanted" > "$place/acceptd-stamp"
fi
