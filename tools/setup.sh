#!/bin/sh
# Sets up everything that `make demo` and `make test` need; quick when nothing has changed.
set -eu
cd "$(dirname "$0")/.."

say() { printf 'setup: %s\n' "$*" >&2; }

python=${PYTHON:-python3}
command -v "$python" >/dev/null 2>&1 || { say "no $python here; install Python 3.11 or newer"; exit 2; }
"$python" -c 'import sys; sys.exit(sys.version_info < (3, 11))' ||
  { say "Python 3.11 or newer is needed, this is $("$python" --version); set PYTHON=/path/to/python3.11"; exit 2; }

apt_install() {
  # Only root may; elsewhere the caller says in one line what to do.
  [ "$(id -u)" = 0 ] && command -v apt-get >/dev/null 2>&1 || return 1
  say "installing $* (Debian)"
  { apt-get install -y -qq "$@" || { apt-get update -qq && apt-get install -y -qq "$@"; }; } >/dev/null 2>&1
}

wanted=$(cat requirements.lock tools/setup.sh | sha256sum | cut -d' ' -f1)
stamp=.venv/acceptd-stamp
if [ "$(cat "$stamp" 2>/dev/null)" != "$wanted" ] || ! .venv/bin/python -c '' 2>/dev/null; then
  "$python" -c 'import ensurepip, venv' 2>/dev/null || apt_install python3-venv ||
    { say "python3-venv is missing: ask an administrator for 'apt-get install python3-venv'"; exit 2; }
  say "making .venv (once; a minute or two)"
  rm -rf .venv
  "$python" -m venv .venv
  .venv/bin/python -m pip install -qq --disable-pip-version-check --require-hashes -r requirements.lock
  # The checkout itself, without a build: what is edited is what runs.
  site=$(.venv/bin/python -c 'import sysconfig; print(sysconfig.get_path("purelib"))')
  pwd > "$site/acceptd-checkout.pth"
  printf '#!%s\nfrom acceptd.__main__ import run\n\nrun()\n' "$PWD/.venv/bin/python" > .venv/bin/acceptd
  chmod 755 .venv/bin/acceptd
  # Tests let system calls fail by it; those that need it are left out without it.
  command -v strace >/dev/null 2>&1 || apt_install strace || say "no strace: a few tests of failing disks are left out"
  printf '%s\n' "$wanted" > "$stamp"
fi

if ! command -v bwrap >/dev/null 2>&1; then
  apt_install bubblewrap libseccomp2 ||
    { say "bubblewrap is missing: ask an administrator for 'apt-get install bubblewrap'"; exit 2; }
fi

# StringNormalizer of onnxruntime needs this locale; without it such models cannot be loaded anywhere.
if ! locale -a 2>/dev/null | grep -qi '^en_US\.utf-\?8$'; then
  if apt_install locales && localedef -i en_US -f UTF-8 en_US.UTF-8 2>/dev/null; then
    :
  else
    say "no en_US.UTF-8 locale: models with StringNormalizer are refused (apt-get install locales; localedef -i en_US -f UTF-8 en_US.UTF-8)"
  fi
fi

# Each command, each cell and each comparer starts an interpreter, the cell as a user who may write nothing here:
# without bytecode each of them compiles what it imports (0.1 s when nothing has changed).
.venv/bin/python -m compileall -q acceptd sandbox || true
