"""Which files a process has mapped, and their digests."""

from __future__ import annotations

import hashlib
import os
from pathlib import Path

import pytest

from acceptd.runtime import libraries
from acceptd.runtime.libraries import digests, mapped

MAPS = """\
55d0c0000000-55d0c0001000 r--p 00000000 08:01 12 /usr/bin/python3.11
55d0c0001000-55d0c0002000 r-xp 00001000 08:01 12 /usr/bin/python3.11
7f0000000000-7f0000001000 rw-p 00000000 00:00 0
7f0000001000-7f0000002000 r-xp 00000000 00:00 0                          [vdso]
7f0000002000-7f0000003000 r-xp 00000000 08:01 13                         /opt/a b/lib one.so.6
7f0000003000-7f0000004000 r--p 00000000 08:01 14                         /usr/lib/locale/locale-archive
7f0000004000-7f0000005000 r-xp 00000000 08:01 15                         /usr/lib/gone.so (deleted)
7f0000005000-7f0000006000 r-xp 00000000 08:01 13                         /opt/a b/lib one.so.6
7f0000006000-7f0000007000 rwxp 00000000 00:01 99                         /memfd:jit (deleted)
"""


def test_executable_files_each_once_and_a_removed_one_keeps_its_mark() -> None:
    assert mapped(MAPS) == [
        "/memfd:jit (deleted)",
        "/opt/a b/lib one.so.6",
        "/usr/bin/python3.11",
        "/usr/lib/gone.so (deleted)",
    ]


def test_of_this_process_the_interpreter_or_its_library_is_among_them() -> None:
    names = [os.path.basename(path) for path in mapped(Path("/proc/self/maps").read_text())]
    assert any(name.startswith(("python3", "libpython3")) for name in names)
    assert any(name.startswith("libc.") for name in names)


def test_a_digest_follows_the_content_even_where_size_and_name_stay(tmp_path: Path) -> None:
    file = tmp_path / "lib.so"
    file.write_bytes(b"a" * 3_000_000)
    (first,) = digests([str(file)])
    assert (first.sha256, first.size) == (hashlib.sha256(b"a" * 3_000_000).hexdigest(), 3_000_000)
    status = os.stat(file)
    file.write_bytes(b"b" * 3_000_000)
    os.utime(file, ns=(status.st_atime_ns, status.st_mtime_ns))  # the writer sets the time back
    (second,) = digests([str(file)])
    assert second.sha256 == hashlib.sha256(b"b" * 3_000_000).hexdigest()


def test_what_is_no_regular_file_is_refused_and_a_fifo_does_not_hang(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "pipe")
    for place in (tmp_path / "pipe", tmp_path, tmp_path / "missing", Path("/dev/null")):
        with pytest.raises(OSError, match=str(place)):
            digests([str(place)])


def test_a_long_look_does_not_make_a_fresh_file_an_old_one(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What counts is when reading began: the part that was read first may have changed within the same tick."""
    file = tmp_path / "lib.so"
    file.write_bytes(b"a")
    born = file.stat().st_ctime_ns
    clock = [born]
    monkeypatch.setattr(libraries, "_cache", {})
    monkeypatch.setattr(libraries.time, "time_ns", lambda: clock[0])

    def slowly(_descriptor: int) -> str:
        clock[0] += 10 * libraries._SETTLED_NS
        return "0" * 64

    monkeypatch.setattr(libraries, "_read", slowly)
    libraries.digests([str(file)])
    assert libraries.known() == {}
    libraries.digests([str(file)])
    assert len(libraries.known()) == 1
