"""What a bundle's commands refuse, at whose fault, and that nothing of a refused attempt stays behind."""

from __future__ import annotations

import os
import re
import tomllib
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from acceptd.bundling import fits, golden_dirs, inputs, oracles, pack, start, vectors, write
from acceptd.bundling import listing as listings
from acceptd.bundling import lock as locks
from acceptd.bundling import look as looks
from acceptd.bundling.listing import Listing
from acceptd.bundling.render import MAX_BYTES
from acceptd.cell.blobs import closing_blob
from acceptd.errors import AcceptdError, InternalError, UsageError
from acceptd.evidence import Case, JobRecord, Named, Refused, TensorRef, Vectors, VectorSet
from acceptd.policy.manifest import Manifest
from tests import judge_world
from tests.unit.test_bundle_lock import LIMITS, PLAIN
from tests.unit.test_bundle_lock import bundle as bundle
from tests.unit.test_bundle_propose import facts, value

pytestmark = pytest.mark.unit


def bench(area: Path, *records: JobRecord, **tools: Any) -> Any:
    """A bench whose cell answers with these records, one after another."""
    answers = iter(records)
    cell = SimpleNamespace(run=lambda *_, **__: next(answers))
    policy = SimpleNamespace(limits=LIMITS, required_walls=(), probes=SimpleNamespace(max_elements=9))
    held = SimpleNamespace(cell=cell, temporary=str(area), sealed=area, **tools)
    return SimpleNamespace(tools=held, rules=SimpleNamespace(policy=policy))


def record(kind: str, **changes: Any) -> JobRecord:
    return judge_world.record(kind, **changes)


def refused(act: Callable[[], object], why: str, remedy: str = "") -> AcceptdError:
    """Return the refusal of ``act``, which is one line with its remedy."""
    with pytest.raises(AcceptdError, match=re.escape(why)) as raised:
        act()
    assert remedy in (raised.value.remedy or "")
    assert "\n" not in str(raised.value)
    return raised.value


# -- locks


def test_a_lock_is_asked_for_where_there_is_a_bundle_alone(bundle: Path, tmp_path: Path) -> None:
    refused(lambda: locks.contents(tmp_path / "none", LIMITS), "is no directory", "holds bundle.toml")
    refused(lambda: locks.contents(bundle / "bundle.toml", LIMITS), "is no directory")
    (bundle / "bundle.toml").unlink()
    refused(lambda: locks.contents(bundle, LIMITS), "there is no bundle.toml in", "acceptd bundle init")


def test_a_manifest_larger_than_a_job_reads_is_neither_read_nor_made(
    bundle: Path, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    before = (bundle / "bundle.toml").read_bytes()
    large = "#" * (MAX_BYTES + 1)
    refused(
        lambda: locks.written_back(bench(tmp_path), bundle, before, large, judge_world.a_manifest()),
        f"bundle.toml would have {MAX_BYTES + 1} bytes; {MAX_BYTES} are possible",
        "have fewer files",
    )
    monkeypatch.setattr(locks, "read_manifest", lambda *_: judge_world.a_manifest(other_version))
    refused(
        lambda: locks.written_back(bench(tmp_path), bundle, before, PLAIN, judge_world.a_manifest()),
        "what is meant does not come out",
        "[files] last",
    )
    assert (bundle / "bundle.toml").read_bytes() == before
    (bundle / "bundle.toml").write_text(large)
    refused(lambda: locks.read_text(bundle), f"bundle.toml is larger than {MAX_BYTES} bytes", "make it shorter")
    assert (bundle / "bundle.toml").read_text() == large


def other_version(document: dict[str, Any]) -> None:
    document["bundle"]["version"] = "9.9.9"


def test_a_bundle_without_a_lock_is_told_so_and_one_that_is_locked_stays_untouched(
    bundle: Path, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    place = bench(tmp_path)
    monkeypatch.setattr(locks, "read_manifest", lambda *_: judge_world.a_manifest())
    found = refused(lambda: locks.differences(place, bundle), locks.NO_LOCK, "acceptd bundle lock DIR")
    assert found.exit_code == 1
    text = locks.locked(PLAIN, locks.hashed(locks.contents(bundle, LIMITS), without=locks.ABOUT))
    (bundle / "bundle.toml").write_text(text)
    before = (bundle / "bundle.toml").stat()
    assert locks.lock(place, bundle)[1] is False
    after = (bundle / "bundle.toml").stat()
    assert (after.st_ino, after.st_mtime_ns) == (before.st_ino, before.st_mtime_ns)
    assert not locks.signed(locks.contents(bundle, LIMITS))
    (bundle / locks.SIGNATURE_FILE).write_bytes(b"{}")
    assert locks.signed(locks.contents(bundle, LIMITS))


def test_a_file_that_changes_while_it_is_packed_makes_no_archive(
    bundle: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    listing = locks.contents(bundle, LIMITS)
    wrong = {path: size + 1 for path, size in listing.files.items()}
    refused(
        lambda: pack.pack(Listing(bundle, wrong), tmp_path / "b.tar", LIMITS, force=False),
        "changed while it was packed",
        "pack again",
    )
    assert not (tmp_path / "b.tar").exists()
    assert not list(tmp_path.glob(".b*"))


def test_folders_without_end_are_refused_before_any_file_is_looked_at(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "a" / "b" / "c").mkdir(parents=True)
    (tmp_path / "a" / "b" / "c" / "x").write_bytes(b"")
    monkeypatch.setattr(listings, "MAX_DEPTH", 2)
    refused(lambda: listings.listed(tmp_path, 9), "nested more than 2 deep", "flatten the bundle")


def test_a_directory_that_cannot_take_a_second_name_says_so_as_it_is(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Only a file system without hard links is another way's reason; what else fails is told."""

    def full(*_: object) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(os, "link", full)
    with pytest.raises(OSError, match="No space left"):
        write.replace_text(tmp_path / "bundle.toml", "x", force=False)
    assert os.listdir(tmp_path) == []


def test_two_commands_that_write_one_new_file_are_told_apart(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The other one came between the look and the name: its file stays."""
    place, link = tmp_path / "bundle.toml", os.link

    def beaten(source: Any, target: Any) -> None:
        place.write_text("theirs")
        link(source, target)

    monkeypatch.setattr(os, "link", beaten)
    refused(lambda: write.replace_text(place, "mine", force=False), "exists", "--force")
    assert (place.read_text(), os.listdir(tmp_path)) == ("theirs", ["bundle.toml"])


# -- init


def test_more_models_than_a_bundle_holds_are_refused_before_a_cell_is_asked(tmp_path: Path) -> None:
    many = [f"{number}.onnx" for number in range(33)]
    nothing = Listing(tmp_path, dict.fromkeys(many, 1))
    refused(
        lambda: looks.look(bench(tmp_path), nothing, many), "33 models; a bundle holds at most 32", "name those"
    )


@pytest.mark.parametrize(
    ("ended", "why", "remedy"),
    [
        (
            record(
                "inspect", facts=None, refused=Refused(code="structure/malformed", where="graph", message="no")
            ),
            "structure/malformed at graph: no",
            "acceptd policy explain structure/malformed",
        ),
        (
            record("inspect", facts=None, ending="lost", message="\x1b]0;x\n"),
            "the job ended by lost",
            "is it an",
        ),
    ],
    ids=["refused", "killed"],
)
def test_a_model_that_cannot_be_inspected_is_told_with_what_the_job_said(
    bundle: Path, tmp_path: Path, ended: JobRecord, why: str, remedy: str
) -> None:
    listing = locks.contents(bundle, LIMITS)
    found = refused(lambda: looks.look(bench(tmp_path, ended), listing, ["model.onnx"]), why, remedy)
    assert "model.onnx cannot be inspected" in str(found)
    assert "\x1b" not in str(found)
    assert not list(tmp_path.glob("stage-*"))


@contextmanager
def begun(bundle: Path, area: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[tuple[Any, start.Plan]]:
    """A bench whose cell has seen one honest model, and the plan to make a bundle of it in ``new``."""
    (bundle / "bundle.toml").unlink()
    seen = record("inspect", facts=facts([value("x", ["batch", 4])], [value("y", ["batch", 3])]))
    todo = start.plan([bundle / "model.onnx"], area / "new", most=99, force=False)
    monkeypatch.setattr(start, "read_manifest", lambda _, text: start_reads(text))
    yield bench(area, seen), todo


def start_reads(text: bytes) -> Manifest:
    return Manifest.model_validate(tomllib.loads(text.decode()))


def test_a_copy_that_fails_leaves_no_bundle_and_what_a_killed_one_left_is_cleared(
    bundle: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    half = write.hidden_beside(tmp_path / "new", "part")
    half.mkdir()
    (half / "of a killed attempt").write_bytes(b"x")
    with begun(bundle, tmp_path, monkeypatch) as (place, todo):
        copied = start.copy_file

        def broken(*_: object, **__: object) -> None:
            raise OSError(5, "Input/output error")

        monkeypatch.setattr(start, "copy_file", broken)
        with pytest.raises(OSError, match="Input/output"):
            start.start(place, todo, start.Wishes(), force=False)
        assert not half.exists()
        assert not (tmp_path / "new").exists()
        place = bench(tmp_path, record("inspect", facts=facts([value("x", [4])], [value("y", [3])])))
        monkeypatch.setattr(start, "copy_file", copied)
        made = start.start(place, todo, start.Wishes(), force=False)
    assert sorted(os.listdir(tmp_path / "new")) == ["bundle.toml", "model.onnx"]
    assert (made.files, made.target) == (1, tmp_path / "new")
    assert made.proposal.manifest.bundle.id == "my-team/new"  # a file that is called "model" names nothing


def test_a_proposal_that_reads_back_as_another_one_is_never_written(
    bundle: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with begun(bundle, tmp_path, monkeypatch) as (place, todo):
        monkeypatch.setattr(start, "read_manifest", lambda *_: judge_world.a_manifest())
        with pytest.raises(InternalError, match="does not read back as it was meant"):
            start.start(place, todo, start.Wishes(), force=False)
    assert not (tmp_path / "new").exists()


def test_a_link_without_a_bundle_of_its_own_and_a_path_that_is_none_are_refused(tmp_path: Path) -> None:
    (tmp_path / "m.onnx").write_bytes(b"m")
    (tmp_path / "d").mkdir()
    for paths in ([tmp_path / "none.onnx"], [tmp_path / "m.onnx", tmp_path / "d"]):
        refused(lambda given=paths: start.plan(given, None, most=9, force=False), "is no file", "name .onnx files")
    todo = start.plan([tmp_path / "m.onnx"], None, most=9, force=False)
    assert (todo.copied, todo.unnamed) == (False, ())
    (tmp_path / "other.onnx").write_bytes(b"o")
    todo = start.plan([tmp_path / "m.onnx"], None, most=9, force=False)
    assert todo.unnamed == ("other.onnx",)  # it would be part of the bundle, undeclared
    copied = start.plan([tmp_path / "m.onnx"], tmp_path / "new", most=9, force=False)
    assert (copied.copied, copied.unnamed) == (True, ())


# -- golden sets


def sets(*names: str, ref: TensorRef | None = None) -> JobRecord:
    held = Named(name="", value=ref or TensorRef(dtype="uint8", shape=[4], offset=0, nbytes=4))
    found = [VectorSet(name=name, model="main", inputs=[held], expected=[]) for name in names]
    return record("vectors", vectors=Vectors(sets=found))


@pytest.mark.parametrize(
    ("answer", "why"),
    [
        (record("vectors", vectors=None, ending="lost"), "cannot be made: the job ended by lost"),
        (sets("goldens_1", "goldens_0"), "cannot be made"),
        (sets("goldens_0"), "cannot be made"),
        (
            sets("goldens_0", "goldens_1", ref=TensorRef(dtype="uint8", shape=[4], offset=1, nbytes=4)),
            "a golden file that is not there",
        ),
    ],
    ids=["killed", "in another order", "too few", "beyond the blob"],
)
def test_golden_sets_are_made_all_of_them_or_none(
    bundle: Path, tmp_path: Path, answer: JobRecord, why: str
) -> None:
    before = sorted(os.listdir(bundle))
    with closing_blob(str(tmp_path)) as fed, closing_blob(str(tmp_path)) as expected:
        wanted = sets("a", "b").vectors
        assert wanted is not None
        with (
            pytest.raises(InternalError, match=why),
            golden_dirs.sets_written(
                bench(tmp_path, answer), bundle, "main", ["goldens_0", "goldens_1"], wanted.sets, fed, expected
            ),
        ):
            raise AssertionError("nothing was made that could be named")
    assert sorted(os.listdir(bundle)) == before


def changed_meanwhile(seen: list[str], bundle: Path) -> None:
    seen += os.listdir(bundle)
    raise UsageError("changed meanwhile", remedy="again")


def test_golden_sets_go_away_again_where_the_manifest_does_not_take_them(bundle: Path, tmp_path: Path) -> None:
    before = sorted(os.listdir(bundle))
    empty = TensorRef(dtype="uint8", shape=[0], offset=0, nbytes=0)
    answer = sets("goldens_0", "goldens_1", ref=empty)
    seen: list[str] = []
    with closing_blob(str(tmp_path)) as fed, closing_blob(str(tmp_path)) as expected:
        wanted = sets("a", "b").vectors
        assert wanted is not None
        with (
            pytest.raises(UsageError, match="changed meanwhile"),
            golden_dirs.sets_written(
                bench(tmp_path, answer), bundle, "main", ["goldens_0", "goldens_1"], wanted.sets, fed, expected
            ),
        ):
            changed_meanwhile(seen, bundle)
    assert set(seen) - set(before) == {"goldens_0", "goldens_1", listings.STAGING}
    assert sorted(os.listdir(bundle)) == before


def test_a_job_that_draws_nothing_and_an_oracle_that_ends_early_are_told_with_the_way_on(tmp_path: Path) -> None:
    manifest = judge_world.a_manifest()
    with closing_blob(str(tmp_path)) as fed:
        task: Any = SimpleNamespace(model=manifest.models[0], manifest=manifest, inputs=fed)
        ended = record("vectors", vectors=None, ending="lost", cause="memory")
        refused(
            lambda: inputs.drawn(bench(tmp_path, ended), task, 2, "s"),
            "no random inputs can be made: the job ended by lost memory",
            "--from FILE.npz",
        )
    wanted = sets("set_0").vectors
    assert wanted is not None
    for told, why in (
        (record("reference"), "its seconds were over before this set; try fewer sets"),
        (record("reference", ending="lost", cause="memory"), "the job ended by lost memory"),
        (record("reference", cases=[Case(set="set_0", repeat=0, error="no\x1bGelu\n")]), "no\\x1bGelu"),
    ):
        found = refused(
            lambda answer=told: oracles._values(answer, wanted.sets, oracles.REFERENCE),
            why,
            "--oracle onnxruntime",
        )
        assert "\x1b" not in str(found)


def test_vectors_are_made_for_a_model_that_is_there_and_can_be_drawn_for(
    bundle: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def no_range(document: dict[str, Any]) -> None:
        document["models"][0]["inputs"][0]["range"] = None
        document["models"][0]["inputs"][0]["dtype"] = "int64"

    (bundle / "model.onnx").rename(bundle / "other.onnx")
    before = sorted(os.listdir(bundle))
    for change, wanted, why, remedy in (
        (None, vectors.Wanted(random=1), "model.onnx is not there", "put it there"),
        (None, vectors.Wanted(random=1, model="nobody"), "there is no model nobody", "one of: main"),
        (no_range, vectors.Wanted(random=1), "without a declared range", "--from FILE.npz"),
    ):
        manifest = judge_world.a_manifest(change)
        monkeypatch.setattr(vectors, "read_manifest", lambda *_, told=manifest: told)
        if change is not None:
            (bundle / "other.onnx").rename(bundle / "model.onnx")
            before = sorted(os.listdir(bundle))
        refused(lambda given=wanted: vectors.make(bench(tmp_path), bundle, given), why, remedy)
        assert sorted(os.listdir(bundle)) == before


def test_an_optional_input_may_be_left_out_and_be_of_another_form(tmp_path: Path) -> None:
    def optional(document: dict[str, Any]) -> None:
        document["models"][0]["inputs"][0] |= {"optional": True}

    manifest = judge_world.a_manifest(optional)
    specs = manifest.models[0].inputs
    assert fits.fault([], specs, manifest, "input", {}) == ""
    assert "there is no input 'x'" in fits.fault(
        [Named(name="x", value=judge_world.ref())], specs, manifest, "input", {}
    )
