"""Programs, archives, pickles and scripts in files that no model reads, and between tensors."""

from __future__ import annotations

import io
import py_compile
from pathlib import Path

import numpy as np
import pytest

from sandbox import assets
from sandbox.inspect import bytes as content
from sandbox.inspect import payloads
from tests import static_world as world
from tests.payloads import PAYLOADS, told
from tests.static_world import Recorder

pytestmark = pytest.mark.hostile


# -- files that no model reads


def looked_at(root: Path, gaps: dict[str, list[list[int]]] | None = None, **files: bytes) -> Recorder:
    """Write files (``__`` for a dot) and run the assets job over them."""
    names = {name.replace("__", "."): data for name, data in files.items()}
    for name, data in names.items():
        (root / name).write_bytes(data)
    spec = {"root": str(root), "files": [name for name in names if name not in (gaps or {})], "gaps": gaps or {}}
    return world.recorded(assets.body, spec)


def compiled(root: Path) -> bytes:
    """Return compiled Python."""
    source = root / "source"
    source.write_text("import os\n")
    target = py_compile.compile(str(source), cfile=str(root / "compiled"), doraise=True)
    assert target is not None
    return Path(target).read_bytes()


@pytest.mark.parametrize("name", [name for name in PAYLOADS if name not in {"command", "shell"}])
def test_a_payload_as_a_file_whatever_its_name(tmp_path: Path, name: str) -> None:
    payload, kind = PAYLOADS[name][0](), PAYLOADS[name][1]
    found = told(looked_at(tmp_path, labels__txt=payload))
    assert (kind, "labels.txt") in {(one, where) for one, where, _ in found}, found


def test_code_as_a_file(tmp_path: Path) -> None:
    found = told(
        looked_at(
            tmp_path,
            tokenizer__py=b"# comment\nimport torch\n\ndef run(x):\n    return x\n",
            merges__txt=b"import os\nfrom sys import argv\nos.system('id')\n",
            setup__bat=b"echo hello\r\n",
            cached__bin=compiled(tmp_path),
        )
    )
    assert {(kind, where) for kind, where, _ in found} == {
        ("script", "tokenizer.py"),
        ("script", "merges.txt"),
        ("script", "setup.bat"),
        ("executable", "cached.bin"),
    }


def test_ordinary_files_are_no_payload(tmp_path: Path) -> None:
    numbers = io.BytesIO()
    np.save(numbers, np.arange(1000.0))
    found = looked_at(
        tmp_path,
        README__md=b"# Model\n\n```sh\n#!/bin/sh\n/bin/sh -c id\n```\n\n```python\nimport os\nos.system('')\n```",
        tokenizer__json=b'{"version": "1.0", "vocab": {"import": 1, "class": 2, "#!/bin/sh": 3}}',
        labels__txt="cat\ndog\nimport\nclass A\nÄther\n".encode(),
        LICENSE=b"Apache License\nhttps://www.apache.org/licenses/\n",
        mean__npy=numbers.getvalue(),
        empty=b"",
    )
    assert told(found) == []
    assert found.frames["assets"]["files"] == 6


def test_bytes_between_tensors_that_are_not_zero(tmp_path: Path) -> None:
    data = bytes(100) + b"\0\0hidden" + bytes(92) + bytes(100)
    found = looked_at(tmp_path, gaps={"w.bin": [[0, 100], [100, 200], [200, 300]]}, w__bin=data)
    frame = found.frames["assets"]
    assert frame["gaps_read"] == 3
    (gap,) = frame["gaps"]
    assert (gap["start"], gap["at"], gap["head"][:8]) == (100, 102, b"hid".hex(" "))


@pytest.mark.parametrize(
    "raw",
    [
        b"ctimeit\ntimeit\n(S'id'\ntR.",
        b"(S'id'\nitimeit\ntimeit\n.",
        b"X\x02\0\0\0osX\x06\0\0\0system\x93(S'id'\ntR.",
        b"Vos\nVsystem\n\x93(Vid\ntR.",
    ],
    ids=["global", "inst", "stack-global", "stack-global-lines"],
)
def test_a_file_that_is_a_pickle_without_a_mark(raw: bytes) -> None:
    scanner = payloads.Scanner(content.BytesSource(raw))
    content.read(content.BytesSource(raw), [scanner])
    scanner.begins(0)
    assert [(hit.code, hit.at) for hit in scanner.hits] == [("payload/pickle", 0)]


@pytest.mark.parametrize(
    "raw", [b"cat\ndog\nbird\n.\n", b"cat\ndog\n.", b"I1\n.", b"import os\n", b"(a)\n."], ids=range(5)
)
def test_a_list_of_words_is_no_pickle(raw: bytes) -> None:
    scanner = payloads.Scanner(content.BytesSource(raw))
    content.read(content.BytesSource(raw), [scanner])
    scanner.begins(0)
    assert scanner.hits == []
