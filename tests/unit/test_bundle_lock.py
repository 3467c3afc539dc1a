"""A lock names every file and changes no other line of bundle.toml; packs of the same files are the same bytes."""

from __future__ import annotations

import hashlib
import os
import tarfile
import tomllib
import zipfile
from collections.abc import Callable
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from acceptd.bundling import listing as listings
from acceptd.bundling import lock as locks
from acceptd.bundling import start, write
from acceptd.bundling.lock_text import MARK, locked
from acceptd.bundling.pack import pack
from acceptd.errors import SealError, UsageError
from acceptd.intake.seal import seal_directory
from acceptd.policy.limits import LimitsTable
from acceptd.sealed_facts import BundleFile
from tests.unit.test_contract_propose import HOSTILE

pytestmark = pytest.mark.unit
LIMITS = LimitsTable()
PLAIN = 'schema = 1  # one\n\n[bundle]\n# who\nid = "a/b"\n'


def file(path: str, size: int = 3) -> BundleFile:
    return BundleFile(path=path, size=size, sha256=hashlib.sha256(path.encode("utf-8", "replace")).hexdigest())


def test_a_lock_comes_to_the_end_and_every_other_line_stays() -> None:
    text = locked(PLAIN, [file("model.onnx")])
    assert text.startswith(PLAIN)
    assert tomllib.loads(text)["files"] == {"model.onnx": {"size": 3, "sha256": file("model.onnx").sha256}}
    assert locked(text, [file("model.onnx")]) == text


def test_a_lock_in_the_middle_is_replaced_where_it_stands_and_comments_stay() -> None:
    middle = PLAIN + '\n[files]\n# ours\nold = { size = 1 }\n\n# about the model\n[[models]] # m\nname = "main"\n'
    text = locked(middle, [file("new.bin")])
    assert text.startswith(PLAIN + "\n[files]\n")
    assert text.endswith('\n\n# about the model\n[[models]] # m\nname = "main"\n')
    assert "# ours\n" in text
    assert text.count(MARK) == 1
    assert list(tomllib.loads(text)["files"]) == ["new.bin"]
    assert locked(text, [file("new.bin")]) == text


@pytest.mark.parametrize("header", ['[files."a b"]', " [ files.x ]", "['files']", '["files".y]', "[files] # lock"])
def test_every_spelling_of_the_table_is_found(header: str) -> None:
    text = locked(f"{PLAIN}{header}\nsize = 1\n[export]\nlayers = 3\n", [file("m")])
    read = tomllib.loads(text)
    assert (list(read["files"]), read["export"]) == (["m"], {"layers": 3})


def test_tables_whose_names_only_begin_alike_stay() -> None:
    text = locked(PLAIN + "[filesystem]\na = 1\n[dims.files]\nmin = 1\n", [file("m")])
    assert tomllib.loads(text)["filesystem"] == {"a": 1}
    assert tomllib.loads(text)["dims"] == {"files": {"min": 1}}


def test_lines_that_end_as_windows_ends_them_stay_so() -> None:
    given_text = PLAIN.replace("\n", "\r\n") + "[files]\r\nx = { size = 1 }\r\n[export]\r\n"
    text = locked(given_text, [file("m")])
    assert text.count("\n") == text.count("\r\n")
    assert list(tomllib.loads(text)["files"]) == ["m"]


@pytest.mark.parametrize("name", HOSTILE)
def test_a_hostile_name_of_a_file_stays_one_key(name: str) -> None:
    assert list(tomllib.loads(locked(PLAIN, [file(name)]))["files"]) == [name]


names = st.text(st.characters(codec="utf-8"), min_size=1, max_size=10)


@settings(max_examples=40, deadline=None)
@given(
    st.lists(names, unique=True, max_size=5), st.sampled_from(["", "[files]\na = { size = 1 }\n", "[files.a]\n"])
)
def test_any_lock_reads_back_and_leaves_all_else_alone(paths: list[str], before: str) -> None:
    rest = '[export]\nframework = "x"\n'
    once = locked(PLAIN + before + rest, [file(path) for path in paths])
    read = tomllib.loads(once)
    assert list(read.pop("files")) == paths
    assert read == tomllib.loads(PLAIN + rest)
    assert locked(once, [file(path) for path in paths]) == once


@pytest.fixture
def bundle(tmp_path: Path) -> Path:
    root = tmp_path / "b"
    (root / "data").mkdir(parents=True)
    (root / "bundle.toml").write_text(PLAIN)
    (root / "model.onnx").write_bytes(b"m" * 1000)
    (root / "data" / ("w" * 150 + ".bin")).write_bytes(os.urandom(70_000))
    (root / "ä.txt").write_bytes(b"")
    (root / ".ready").write_bytes(b"")
    return root


def test_what_is_digested_is_what_sealing_digests(bundle: Path, tmp_path: Path) -> None:
    sealed = seal_directory(bundle, tmp_path / "sealed", LIMITS)
    listing = locks.contents(bundle, LIMITS)
    assert locks.digest_of(listing) == sealed.digest
    assert [one.path for one in locks.hashed(listing)] == [one.path for one in sealed.files]


@pytest.mark.parametrize("suffix", [".tar.gz", ".tar", ".zip"])
def test_a_pack_is_the_same_bytes_whenever_and_by_whomever_it_is_made(
    bundle: Path, tmp_path: Path, suffix: str
) -> None:
    first, second = tmp_path / f"one{suffix}", tmp_path / f"two{suffix}"
    listing = locks.contents(bundle, LIMITS)
    made = pack(listing, first, LIMITS)
    os.utime(bundle / "model.onnx", (1, 1))
    (bundle / "model.onnx").chmod(0o600)
    assert pack(locks.contents(bundle, LIMITS), second, LIMITS) == made
    assert first.read_bytes() == second.read_bytes()
    assert made.digest == locks.digest_of(listing)
    if suffix == ".zip":
        with zipfile.ZipFile(first) as archive:
            assert archive.testzip() is None
            inside = archive.namelist()
    else:
        with tarfile.open(first) as archive:
            inside = archive.getnames()
            assert {(one.mtime, one.mode, one.uid, one.uname) for one in archive} == {(0, 0o644, 0, "")}
    assert inside == [one.path for one in locks.hashed(listing)]


def test_links_devices_and_names_that_no_bundle_may_have_are_refused_before_anything_is_written(
    bundle: Path, tmp_path: Path
) -> None:
    makers: list[Callable[[Path], object]] = [
        lambda place: place.symlink_to("model.onnx"), lambda place: place.symlink_to(tmp_path), os.mkfifo
    ]  # fmt: skip
    for maker in makers:
        maker(bundle / "x")
        with pytest.raises(UsageError, match="x is a link or no regular file"):
            locks.contents(bundle, LIMITS)
        (bundle / "x").unlink()
    for name in (b"a\nb", b"\xff", b"con", "a\u202eb".encode()):
        place = os.path.join(os.fsencode(bundle), name)
        os.close(os.open(place, os.O_CREAT))
        with pytest.raises(SealError):
            locks.contents(bundle, LIMITS)
        os.unlink(place)


def test_an_archive_that_would_be_refused_as_a_bomb_is_not_made(bundle: Path, tmp_path: Path) -> None:
    with (bundle / "zeros.bin").open("wb") as zeros:
        zeros.truncate(40 << 20)
    listing = locks.contents(bundle, LIMITS)
    with pytest.raises(UsageError, match="looks like a bomb"):
        pack(listing, tmp_path / "b.zip", LIMITS)
    assert not list(tmp_path.glob("*b.zip*"))


def test_no_archive_lies_inside_its_bundle_and_none_is_replaced_unasked(bundle: Path, tmp_path: Path) -> None:
    listing = locks.contents(bundle, LIMITS)
    with pytest.raises(UsageError, match="inside the bundle"):
        pack(listing, bundle / "data" / "b.zip", LIMITS)
    with pytest.raises(UsageError, match="ends in none of"):
        pack(listing, tmp_path / "b.rar", LIMITS)
    (tmp_path / "b.zip").write_bytes(b"mine")
    with pytest.raises(UsageError, match="exists"):
        pack(listing, tmp_path / "b.zip", LIMITS)
    assert (tmp_path / "b.zip").read_bytes() == b"mine"
    pack(listing, tmp_path / "b.zip", LIMITS, force=True)
    assert zipfile.is_zipfile(tmp_path / "b.zip")


def test_a_write_that_fails_leaves_what_was_there(tmp_path: Path) -> None:
    place = tmp_path / "bundle.toml"
    place.write_text("old")
    place.chmod(0o640)

    def broken() -> None:
        with write.written(place, force=True) as target:
            target.write(b"half")
            raise RuntimeError

    with pytest.raises(RuntimeError):
        broken()
    assert (place.read_text(), os.listdir(tmp_path)) == ("old", ["bundle.toml"])
    write.replace_text(place, "new", force=True)
    assert (place.read_text(), place.stat().st_mode & 0o777) == ("new", 0o640)
    place.unlink()
    place.symlink_to("elsewhere")
    with pytest.raises(UsageError, match="exists"):
        write.replace_text(place, "new", force=True)


def test_init_refuses_paths_before_it_starts_anything(tmp_path: Path) -> None:
    (tmp_path / "a").mkdir()
    (tmp_path / "a" / "one.onnx").write_bytes(b"1")
    (tmp_path / "two.onnx").write_bytes(b"2")
    one, two = tmp_path / "a" / "one.onnx", tmp_path / "two.onnx"

    def planned(*paths: Path, into: Path | None = None, force: bool = False) -> start.Plan:
        return start.plan(paths, into, most=9, force=force)

    assert planned(one).models == ("one.onnx",)
    assert planned(tmp_path / "a").models == ("one.onnx",)
    assert planned(two, into=tmp_path / "new").copied
    with pytest.raises(UsageError, match="different directories"):
        planned(one, two)
    with pytest.raises(UsageError, match="not empty"):
        planned(two, into=tmp_path / "a")
    (tmp_path / "a" / "bundle.toml").write_text("mine")
    with pytest.raises(UsageError, match="exists"):
        planned(one)
    assert planned(one, force=True).target == tmp_path / "a"
    (tmp_path / "empty").mkdir()
    with pytest.raises(UsageError, match=r"no \.onnx file"):
        planned(tmp_path / "empty")
    for number in range(10):
        (tmp_path / "a" / f"{number}.bin").write_bytes(b"")
    with pytest.raises(UsageError, match="more than 9 files"):
        planned(one, force=True)


def test_a_link_that_was_named_is_copied_and_one_that_was_found_is_not(tmp_path: Path) -> None:
    (tmp_path / "blobs").mkdir()
    (tmp_path / "blobs" / "abc").write_bytes(b"model")
    (tmp_path / "snapshot").mkdir()
    link = tmp_path / "snapshot" / "model.onnx"
    link.symlink_to("../blobs/abc")
    for given_path, why in ((link, "is a link"), (tmp_path / "snapshot", r"no \.onnx file")):
        with pytest.raises(UsageError, match=why):
            start.plan([given_path], None, most=9, force=False)
    todo = start.plan([link], tmp_path / "new", most=9, force=False)
    assert todo.listing.at("model.onnx").read_bytes() == b"model"
    assert todo.listing.files == {"model.onnx": 5}


def test_what_a_model_names_as_external_data_is_looked_for_inside_its_directory_alone(tmp_path: Path) -> None:
    root = tmp_path / "m"
    (root / "w").mkdir(parents=True)
    (root / "w" / "in.bin").write_bytes(b"1")
    (tmp_path / "out.bin").write_bytes(b"1")
    (root / "link").symlink_to(tmp_path)
    (root / "link.bin").symlink_to(tmp_path / "out.bin")
    near = listings.listed(root, 99, near=True)
    assert near.has("w/in.bin")
    for path in ("../out.bin", "/etc/passwd", "link/out.bin", "link.bin", "w", "a\0b", "x" * 9999, "x" * 300,
                 f"{'x' * 300}/y", "w/in.bin/x", "\ud800"):  # fmt: skip
        assert not near.has(path)
