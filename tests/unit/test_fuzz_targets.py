"""Each fuzz target over its saved corpus and every kept finding, without atheris; and that targets can say no."""

from __future__ import annotations

import base64
import json
import random
import re
from collections.abc import Iterator
from pathlib import Path

import pytest

from acceptd.cell.protocol import Reader
from acceptd.errors import MalformedError
from acceptd.fleet.examined import Examined
from acceptd.record.keys import Keyring
from acceptd.release import envelope, objects, rotated, trust
from acceptd.review import decision
from fuzz import frames, house, loader_tree, manifest, mutate, record, run, runtime, seeds, wire
from fuzz.targets import CORPUS, FINDINGS, TARGETS
from sandbox import wire as walker

pytestmark = pytest.mark.unit

PAGE = Path(__file__).resolve().parents[2] / "docs" / "fuzzing.md"


@pytest.mark.parametrize("target", TARGETS)
def test_the_saved_corpus_holds(target: str) -> None:
    check = TARGETS[target].load()
    files = sorted((CORPUS / target).iterdir())
    assert files
    for file in files:
        check(file.read_bytes())


@pytest.mark.parametrize("file", sorted(FINDINGS.glob("*/*")), ids=lambda file: f"{file.parent.name}/{file.name}")
def test_what_fuzzing_once_found_stays_mended(file: Path) -> None:
    TARGETS[file.parent.name].load()(file.read_bytes())


def test_the_seeds_are_those_that_the_generator_writes() -> None:
    made = seeds.every()
    assert made.keys() == TARGETS.keys()
    for target, found in made.items():
        for name, raw in found.items():
            saved = CORPUS / target / (name + seeds.SUFFIXES.get(target, ""))
            assert saved.read_bytes() == raw, saved


def test_a_walk_that_misses_a_node_is_found_out(monkeypatch: pytest.MonkeyPatch) -> None:
    real = walker.take

    def one_less(*arguments: object) -> tuple[int, int, int]:
        position, nodes, attributes = real(*arguments)  # type: ignore[arg-type]
        return position, max(nodes - 1, 0), attributes

    monkeypatch.setattr(walker, "take", one_less)
    with pytest.raises(AssertionError):
        wire.check(seeds.models()["many"])


def test_a_walk_that_passes_what_protobuf_refuses_is_found_out(monkeypatch: pytest.MonkeyPatch) -> None:
    real = walker.walk

    def blind(raw: bytes, size: int, depth: int) -> walker.Walk:
        found = real(raw, size, depth)
        found.fatal = None
        return found

    monkeypatch.setattr(walker, "walk", blind)
    with pytest.raises(AssertionError):
        wire.check(seeds.models()["cut"])


def test_a_manifest_parser_that_lets_another_error_out_is_found_out(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(manifest.manifest, "_plain", lambda *_: (_ for _ in ()).throw(KeyError("x")))
    with pytest.raises(KeyError):
        manifest.check(b"a = 1\n")


def test_a_runtime_that_reads_another_file_is_found_out() -> None:
    plain = seeds.models()["plain"]
    assert runtime.disagreement(plain, ["x"], ["y"]) == ""
    assert "parsed model" in runtime.disagreement(plain, ["x"], ["z"])
    assert "truncated" in runtime.disagreement(plain[:-1], ["x"], ["y"])


# -- a target that cannot say no is worth nothing


def test_the_page_says_of_each_target_what_must_hold() -> None:
    rows = re.findall(r"^\| `([a-z]+)` \| [^|]+ \| [^|]+ \| [^|]+ \|$", PAGE.read_text(), re.MULTILINE)
    assert rows == list(TARGETS)


def test_the_run_on_record_is_what_the_page_shows() -> None:
    told = json.loads(record.RECORD.read_bytes())
    assert record.page(PAGE.read_text(), told) == PAGE.read_text()
    assert told["executions"] == sum(row["executions"] for row in told["targets"])
    assert record.joined([told]) == told | {"runs": 1}


@pytest.fixture
def believing(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Every signature holds: of any key, over anything."""
    monkeypatch.setattr(Keyring, "verify", lambda *_: None)
    monkeypatch.setattr(
        decision.ReviewerKeys, "verify", lambda self, *_: setattr(self, "used", house.PEOPLE.reviewers[0])
    )
    for memory in ("_verified", "_read"):
        monkeypatch.setattr(envelope, memory, {})
    remembering = (rotated.over_time, rotated.ledger_keys, rotated._follow)
    for one in remembering:
        one.cache_clear()
    yield
    for one in remembering:
        one.cache_clear()


@pytest.mark.parametrize(
    ("target", "name", "before", "after"),
    [
        ("channel", "file-0", b'"production"', b'"production" '),
        ("release", "file-0", b'"reason":"r"', b'"reason":"x"'),
        ("revocations", "file-0", b"it bites", b"it barks"),
        ("export", "file-0", b'"kind":"plain"', b'"kind":"trito"'),
        ("envelope", "file", b'"accepted"', b'"rejected"'),
        ("verify", "verdict", b'"accepted"', b'"rejected"'),
        ("decision", "approve-signed", b"looked at it", b"looked at me"),
        ("version", "first-signed", b'"reason":"first"', b'"reason":"worst"'),
        ("advisories", "two-signed", b"a crash", b"a trash"),
        ("order", "file", b'"round":1', b'"round":2'),
        ("seal", "file", b"host-gpu-1", b"host-gpu-2"),
        ("statement", "file", b"host-gpu-1", b"host-gpu-2"),
    ],
)
def test_a_verifier_that_lets_a_forgery_through_is_found_out(
    target: str, name: str, before: bytes, after: bytes, believing: None
) -> None:
    value = json.loads((CORPUS / target / name).read_bytes())
    payload = base64.b64decode(value["payload"])
    assert before in payload
    value["payload"] = base64.b64encode(payload.replace(before, after)).decode()
    with pytest.raises(AssertionError, match="never signed"):
        TARGETS[target].load()(json.dumps(value, separators=(",", ":"), sort_keys=True).encode())


def test_a_note_by_nobody_that_counts_is_found_out(believing: None) -> None:
    forged = (CORPUS / "checkpoint" / "whole").read_bytes().replace(b"\n3\n", b"\n4\n")
    for target in ("checkpoint", "anchor"):
        with pytest.raises(AssertionError):
            TARGETS[target].load()(forged)


def test_a_loader_that_opens_other_bytes_is_found_out(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(objects, "verify_object", lambda *_: {})
    place = loader_tree.PLACES.index(f"{loader_tree._object(house.FILES)}/data/labels.txt")
    with pytest.raises(AssertionError):
        loader_tree.check(json.dumps([{"place": place, "how": "flip", "data": 3}]).encode())


def test_a_reader_that_minds_how_its_stream_is_cut_is_found_out(monkeypatch: pytest.MonkeyPatch) -> None:
    real = Reader.feed

    def forgetful(self: Reader, chunk: bytes) -> object:
        return real(self, chunk) if len(chunk) > 50 else []

    monkeypatch.setattr(Reader, "feed", forgetful)
    with pytest.raises(AssertionError):
        frames.check((CORPUS / "frames" / "run").read_bytes())


def test_evidence_that_is_written_otherwise_than_it_was_read_is_found_out(monkeypatch: pytest.MonkeyPatch) -> None:
    raw = (CORPUS / "evidence" / "one").read_bytes()
    monkeypatch.setattr(Examined, "to_bytes", lambda _: raw.replace(b'"cpu', b'"gpu', 1))
    with pytest.raises((AssertionError, MalformedError)):
        TARGETS["evidence"].load()(raw)


def test_another_error_than_the_typed_one_leaves_a_target(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(trust, "read_channel", lambda _: {}["x"])
    with pytest.raises(KeyError):
        TARGETS["channel"].load()((CORPUS / "channel" / "payload-0").read_bytes())
    with pytest.raises(AssertionError, match="without a word"):
        house.only(ValueError, lambda: (_ for _ in ()).throw(ValueError()))


def test_an_input_that_takes_too_long_is_a_finding(monkeypatch: pytest.MonkeyPatch) -> None:
    seen: list[bytes] = []
    run.bounded(seen.append)(b"x")
    assert seen == [b"x"]
    monkeypatch.setattr(run, "CPU_SECONDS", 0.0)
    with pytest.raises(AssertionError, match="1 bytes"):
        run.bounded(lambda raw: sorted(raw * 1000))(b"x")


# -- changes that keep the form


@pytest.mark.parametrize("target", [one.name for one in TARGETS.values() if one.form])
def test_changes_of_a_form_are_drawn_from_the_number_alone_and_bounded(target: str) -> None:
    change = mutate.mutator(TARGETS[target].form, lambda data, most: data[:most])
    made = set()
    for file in sorted((CORPUS / target).iterdir(), key=lambda one: -one.stat().st_size)[:3]:
        raw = file.read_bytes()
        found = [change(raw, TARGETS[target].most, seed) for seed in range(40)]
        assert found == [change(raw, TARGETS[target].most, seed) for seed in range(40)]
        assert all(len(one) <= TARGETS[target].most for one in found)
        made |= {*found} - {raw}
    assert len(made) > 20


def test_frames_that_were_changed_have_their_lengths_put_right() -> None:
    raw, good = (CORPUS / "frames" / "run").read_bytes(), 0
    for seed in range(60):
        stream = mutate.frames_change(raw, random.Random(seed))[2:]
        assert (
            b"".join(mutate.HEADER.pack(kind, len(body)) + body for kind, body in mutate._frames(stream)) == stream
        )
        good += not frames.fed("run", [stream])[1]
    assert good > 3


def test_a_value_put_inside_of_itself_stays_finite() -> None:
    for seed in range(300):
        assert len(mutate.json_change(b'{"a":{"b":[{"c":{}}]}}', random.Random(seed))) < 20_000
