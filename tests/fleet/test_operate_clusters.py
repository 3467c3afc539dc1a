"""docs/clusters.md is what was measured: each row is tried here, on a kernel with user namespaces."""

from __future__ import annotations

import os
import re
import shutil
import sys
import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from tests.fleet.confined import BASE, ROOT, USER, capabilities, doctor, here, mapped, masked

ALL_WALLS = {"namespaces", "root", "network", "landlock", "seccomp", "capabilities", "rlimits", "separate_uid"}
NO_UID = ALL_WALLS - {"separate_uid"}
SYS, NET = "sys_admin", "net_admin"
FORBIDDEN = ["sh", "-c", 'echo 0 > /proc/sys/user/max_user_namespaces; exec "$@"', "sh"]


def user(*, proc: bool = False) -> list[str]:
    return [*(masked() if proc else []), *capabilities(user=True)]


ROWS: dict[str, tuple[Callable[[], list[str]], set[str], str]] = {
    "a host, as root": (list, ALL_WALLS, ""),
    "a host, as an ordinary user": (user, NO_UID, ""),
    "a host whose `user.max_user_namespaces` is 0": (
        lambda: [*here("mapped", "0"), *FORBIDDEN, *user()], set(), "max_user_namespaces",
    ),
    "container, root, default capabilities and seccomp profile": (
        lambda: [*here("fence", "namespaces", "pivot_root"), *capabilities()], set(), "CAP_SYS_ADMIN",
    ),
    "container, root, default capabilities, seccomp `Unconfined`": (capabilities, set(), "CAP_SYS_ADMIN"),
    "container, ordinary user, nothing but what `restricted` allows": (
        lambda: [*here("fence", "namespaces", "pivot_root"), *user()], set(), "seccomp profile",
    ),
    "container, ordinary user, seccomp `Unconfined`": (lambda: user(proc=True), set(), "procMount: Unmasked"),
    "container, ordinary user, seccomp `Unconfined`, `procMount: Unmasked`": (user, NO_UID, ""),
    "container, root with `SYS_ADMIN`, seccomp `Unconfined`": (
        lambda: [*masked(), *capabilities(SYS)], set(), "CAP_NET_ADMIN",
    ),
    "container, root with `SYS_ADMIN` and `NET_ADMIN`, default seccomp profile": (
        lambda: [*here("fence", "pivot_root"), *masked(), *capabilities(SYS, NET)], set(), "pivot_root",
    ),
    "container, root with `SYS_ADMIN` and `NET_ADMIN`, seccomp `Unconfined`": (
        lambda: [*masked(), *capabilities(SYS, NET)], ALL_WALLS, "",
    ),
    "pod with `hostUsers: false`, ordinary user, `procMount: Unmasked`, seccomp `Unconfined`": (
        lambda: [*mapped(), *capabilities(user=True)], NO_UID, "",
    ),
    "pod with `hostUsers: false`, root with `SYS_ADMIN` and `NET_ADMIN`, seccomp `Unconfined`": (
        lambda: [*mapped(), *masked(), *capabilities(SYS, NET)],
        ALL_WALLS, "",
    ),
}  # fmt: skip


def readable(path: Path) -> bool:
    return all(os.stat(one).st_mode & 0o005 == 0o005 for one in [path, *path.parents] if one.is_dir())


pytestmark = [
    pytest.mark.skipif(os.getuid() != 0, reason="only root can take from itself what a container lacks"),
    pytest.mark.skipif(shutil.which("setpriv") is None, reason="no setpriv here"),
]


@pytest.fixture(scope="module")
def policies() -> Iterator[dict[str, Path]]:
    """Copies of the policies that are root's of a user namespace, and an ordinary user's there."""
    made = {}
    with tempfile.TemporaryDirectory() as folder:  # not pytest's own place: that is root's alone
        os.chmod(folder, 0o755)
        for name, uid in (("root", BASE), ("user", BASE + USER)):
            place = Path(folder) / name
            shutil.copytree(ROOT / "policies", place)
            for one in (place, *place.rglob("*")):
                os.chown(one, uid, uid)
            made[name] = place
        yield made


@pytest.fixture
def interpreter(monkeypatch: pytest.MonkeyPatch) -> str:
    """One that every uid may run: the environment's own may lie below a home that nobody else may enter."""
    real = Path(sys.executable).resolve()
    if readable(real) and readable(Path(sys.executable).parent):
        return sys.executable
    other = shutil.which("python3", path="/usr/bin")
    version = f"python{sys.version_info[0]}.{sys.version_info[1]}"
    if other is None or os.path.realpath(other) != f"/usr/bin/{version}":
        pytest.skip("no interpreter that an ordinary user may run")
    monkeypatch.setattr(sys, "executable", other)
    return other


@pytest.mark.parametrize("row", ROWS)
def test_what_holds_where(
    row: str, policies: dict[str, Path], interpreter: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    from tests.fleet import confined

    monkeypatch.setenv("PYTHONPATH", confined.search_path())
    prefix, walls, remedy = ROWS[row]
    words = prefix()
    inside = "hostUsers" in row
    code, checks = doctor(words, policies=policies["user" if "ordinary" in row else "root"] if inside else None)
    held = {name for name, one in checks.items() if one["state"] == "enforced"} & ALL_WALLS
    if not walls and "unavailable" in checks.get("namespaces", {}).get("seen", ""):
        pytest.skip("this host is confined itself")
    assert held == walls, checks
    assert code == (0 if walls else 5)
    assert remedy in checks["namespaces"]["remedy"]
    if not walls:
        assert [one["remedy"] for name, one in checks.items() if name != "namespaces" and one["remedy"]] == []


def test_the_page_has_each_row_and_says_what_holds() -> None:
    page = (ROOT / "docs/clusters.md").read_text("utf-8")
    told = dict(re.findall(r"^\| (.+?) \| (all|all but `separate_uid`|none) \|", page, re.MULTILINE))
    says = {"all": ALL_WALLS, "all but `separate_uid`": NO_UID, "none": set()}
    assert {row: says[word] for row, word in told.items()} == {row: walls for row, (_, walls, _) in ROWS.items()}
