#!/bin/sh
# Runs pytest on the given paths as an ordinary user. Does nothing when started by one: then the main run was that.
set -eu
cd "$(dirname "$0")/.."

[ "$(id -u)" = 0 ] || { echo "as_user: already an ordinary user"; exit 0; }

uid=58231 # no account of this number is needed
place=$(mktemp -d /var/tmp/acceptd-user.XXXXXX)
trap 'rm -rf "$place"' EXIT INT TERM
chmod 755 "$place"
as_user() { setpriv --reuid "$uid" --regid "$uid" --clear-groups env -i PATH=/usr/bin:/bin HOME="$place/home" \
  TMPDIR="$place/tmp" PYTHONDONTWRITEBYTECODE=1 "$@"; }
mkdir "$place/tree" "$place/home" "$place/tmp"

# The tree as it stands, so that the user needs no right on the checkout's own parents. With its bytecode, and with
# times kept: that is valid by its source's time, and without it each of some hundred interpreters compiles anew.
tar -cf - --exclude=.git --exclude=.venv --exclude=.venvs --exclude=.cache --exclude='./var/*' . | tar -xf - -C "$place/tree"
mkdir -p "$place/tree/var"
chown -R "$uid:$uid" "$place/tree" "$place/home" "$place/tmp"

python=$PWD/.venv/bin/python
search=$place/tree
if ! as_user "$python" -c '' 2>/dev/null; then
  # The interpreter lies where the user may not look (below a 0700 home): Debian's own, with our libraries.
  minor=$(.venv/bin/python -c 'import sys; print("%d.%d" % sys.version_info[:2])')
  python=/usr/bin/python$minor
  if [ ! -x "$python" ]; then
    apt-get install -y -qq "python$minor" >/dev/null 2>&1 || { echo "as_user: no python$minor for an ordinary user"; exit 2; }
  fi
  site=$(.venv/bin/python -c 'import sysconfig; print(sysconfig.get_path("purelib"))')
  cp -a "$site" "$place/site"
  chmod -R a+rX "$place/site"
  search=$place/tree:$place/site
fi
cd "$place/tree"
as_user PYTHONPATH="$search" "$python" -m pytest -q -p no:cacheprovider "$@"
