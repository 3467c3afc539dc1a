"""Properties of names, inventories and readiness over arbitrary input."""

from __future__ import annotations

import os
import tempfile
import unicodedata
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from acceptd.errors import SealError
from acceptd.evidence import BundleFile
from acceptd.intake import seal as module
from acceptd.intake.paths import Inventory, check_component, folded, shown
from acceptd.intake.readiness import Candidate
from acceptd.intake.seal import bundle_digest, seal_directory
from acceptd.intake.stream import StreamSealer
from acceptd.policy.policy import LimitsTable
from acceptd.report.escape import line, markup

pytestmark = pytest.mark.property
FEW = settings(max_examples=40, deadline=None, suppress_health_check=[HealthCheck.too_slow])
names = st.text(st.sampled_from("abAB.\\/ \u0301e\u202e\x1bßé"), min_size=1, max_size=4)


@given(st.one_of(st.text(), st.binary()))
def test_shown_text_is_printable_short_and_encodable(text: str | bytes) -> None:
    result = shown(text, 50)
    assert result.isprintable()
    assert len(result) <= 51
    result.encode()


@given(st.text())
def test_a_line_is_stable_when_it_is_escaped_again(text: str) -> None:
    once = line(text)
    assert line(once, 2000) == once


@given(st.text())
def test_markup_holds_no_markup(text: str) -> None:
    assert not set("<>\"'") & set(markup(text))


@given(st.binary(max_size=40))
def test_an_admitted_name_is_one_plain_component(raw: bytes) -> None:
    try:
        name = check_component(raw, "x")
    except SealError:
        return
    assert name.encode() == raw
    assert unicodedata.normalize("NFC", name) == name
    assert name not in {".", ".."}
    assert not set("/\\\0\n\x1b\u202e") & set(name)


@given(st.binary(max_size=60))
def test_a_path_of_an_archive_is_admitted_whole_or_refused(raw: bytes) -> None:
    try:
        path = Inventory(LimitsTable()).path(raw)
    except SealError:
        return
    assert os.path.normpath(path) == path
    assert not os.path.isabs(path)


@given(st.lists(st.lists(names, min_size=1, max_size=3).map("/".join), max_size=8))
def test_no_two_admitted_paths_collide_where_case_does_not_count(paths: list[str]) -> None:
    inventory = Inventory(LimitsTable())
    admitted: list[str] = []
    for path in paths:
        try:
            inventory.file(path, 0)
        except SealError:
            break
        admitted.append(path)
    keys = [folded(path) for path in admitted]
    assert len(set(keys)) == len(keys)
    for one in keys:
        assert not any(other.startswith(f"{one}/") for other in keys)


# Up to m: con, prn, aux and nul are names that no bundle may have.
files = st.dictionaries(
    st.from_regex(r"[a-m]{1,3}(/[a-m]{1,3}){0,2}", fullmatch=True), st.binary(max_size=64), min_size=1, max_size=6
)


@FEW
@given(files)
def test_a_directory_and_the_stream_of_its_files_seal_alike(content: dict[str, bytes]) -> None:
    parents = {path[:end] for path in content for end, char in enumerate(path) if char == "/"}
    if parents & set(content):
        return  # no directory can hold that
    with tempfile.TemporaryDirectory() as temporary:
        root = Path(temporary)
        for path, data in content.items():
            (root / "drop" / path).parent.mkdir(parents=True, exist_ok=True)
            (root / "drop" / path).write_bytes(data)
        walked = seal_directory(root / "drop", root / "one", LimitsTable())
        with StreamSealer(root / "two", LimitsTable()) as sealer:
            for path, data in content.items():
                sealer.entry(path, len(data))
                for byte in data:
                    sealer.data(bytes([byte]))
            streamed = sealer.finish("tar")
        assert (walked.digest, walked.files) == (streamed.digest, streamed.files)
        assert {file.path: (root / "two" / file.path).read_bytes() for file in streamed.files} == content


@given(st.permutations([BundleFile(path=p, sha256="0" * 64, size=1) for p in ("a", "a/b", "b", "é", "z")]))
def test_the_digest_knows_no_order(bundle: list[BundleFile]) -> None:
    assert module.bundle_digest(bundle) == bundle_digest(sorted(bundle, key=lambda file: file.path))


@given(st.lists(st.tuples(st.integers(0, 3), st.sampled_from([b"a", b"b"])), min_size=1))
def test_ready_means_unchanged_for_the_settle_time(looks: list[tuple[int, bytes]]) -> None:
    now, seen = 0.0, Candidate(since=0.0)
    history: list[tuple[float, bytes]] = []
    for step, fingerprint in looks:
        now += step
        seen = seen.looked_at(fingerprint, now)
        history.append((now, fingerprint))
        same_since = now
        for at, was in reversed(history):
            if was != fingerprint:
                break
            same_since = at
        assert (seen.wait(now, 2.0) == 0.0) == (now - same_since >= 2.0)
