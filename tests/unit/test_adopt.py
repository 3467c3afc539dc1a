"""Adoption: what is found, what a person edited and keeps, what is said to need a person, how it ends."""

from __future__ import annotations

import io
import json
import os
from pathlib import Path
from typing import Any

import pytest
from rich.console import Console

from acceptd.adopt import goldens
from acceptd.adopt.find import Found, find, names
from acceptd.adopt.place import RECORD, Kept, Place, Record, alone, put_text
from acceptd.adopt.rows import Row, needs, summary
from acceptd.adopt.work import Adoption
from acceptd.bundling import start
from acceptd.bundling.look import Goldens, Looked, Seen
from acceptd.bundling.oracles import OUT_OF_TIME
from acceptd.bundling.propose import Wishes, propose
from acceptd.bundling.render import manifest_text
from acceptd.cli.adopt import exit_code, print_rows
from acceptd.errors import UsageError
from acceptd.local import Bench
from acceptd.policy.manifest import Manifest
from acceptd.policy.policy import Policy
from acceptd.policy.profile import Profile
from acceptd.report.adopt_page import page
from acceptd.rules import Rules
from tests import judge_world
from tests.report_world import HOSTILE

pytestmark = pytest.mark.unit


def lay(root: Path, *paths: str) -> None:
    for path in paths:
        (root / path).parent.mkdir(parents=True, exist_ok=True)
        (root / path).write_bytes(path.encode())


# -- what is found ------------------------------------------------------------------------------------------


def test_models_and_bundles_are_found_links_and_hidden_directories_are_not_followed(tmp_path: Path) -> None:
    lay(
        tmp_path, "a/model.onnx", "b.ONNX", "c/bundle.toml", "c/inner.onnx", ".git/x.onnx", "notes.txt",
        "a/test_data_set_0/input_0.pb", "out/bundles/old/model.onnx",
    )  # fmt: skip
    (tmp_path / "link.onnx").symlink_to("b.ONNX")
    (tmp_path / "linked").symlink_to(tmp_path / "a")
    os.mkfifo(tmp_path / "pipe.onnx")
    found = find(tmp_path, [tmp_path / "out"])
    assert [(one.path, one.kind) for one in found] == [
        ("a/model.onnx", "model"), ("b.ONNX", "model"), ("c", "bundle"), ("link.onnx", "skipped"),
        ("pipe.onnx", "skipped"),
    ]  # fmt: skip
    assert "no link is followed" in found[3].why
    assert "no regular file" in found[4].why


def test_a_name_that_is_no_text_is_skipped_with_the_reason(tmp_path: Path) -> None:
    place = os.fsencode(tmp_path) + b"/\xff.onnx"
    with open(place, "wb"):
        pass
    [one] = find(tmp_path)
    assert (one.kind, "UTF-8" in one.why) == ("skipped", True)
    one.why.encode()
    one.path.encode()


def test_too_deep_a_tree_is_told_and_ends_nothing(tmp_path: Path) -> None:
    lay(tmp_path, "/".join(["d"] * 40) + "/model.onnx", "ok.onnx")
    assert [one.kind for one in find(tmp_path)] == ["skipped", "model"]


def test_names_are_distinct_of_the_grammar_and_stay_the_same_in_the_next_run() -> None:
    found = [
        Found(path, "model")
        for path in (
            "big/model.onnx",
            "small/model.onnx",
            "a/Net 1.onnx",
            "b/net-1.onnx",
            "../\x1b[31m<b>.onnx",
            "model.onnx",
        )
    ]
    first = names(found, {})
    assert first == {
        "big/model.onnx": "big", "small/model.onnx": "small", "a/Net 1.onnx": "net-1", "b/net-1.onnx": "net-1-2",
        "../\x1b[31m<b>.onnx": "31m-b", "model.onnx": "model",
    }  # fmt: skip
    assert names([Found("new/net-1.onnx", "model"), *found], first) == first | {"new/net-1.onnx": "net-1-3"}


# -- what a person edited -----------------------------------------------------------------------------------


def merged(place: Place, ours: dict[str, str], **files: str) -> Any:
    with place.staging("m") as fresh:
        fresh.mkdir()
        for name, text in files.items():
            (fresh / name).parent.mkdir(parents=True, exist_ok=True)
            (fresh / name).write_text(text)
        return place.merge(fresh, "m", ours)


def test_a_second_run_replaces_and_removes_what_is_its_own_and_leaves_what_a_person_changed_or_added(
    tmp_path: Path,
) -> None:
    place = Place(tmp_path)
    first = merged(place, {}, toml="proposed", model="one", golden="old")
    assert not first.edited
    assert place.edited("m", first.files) == ()
    home = place.bundle("m")
    (home / "toml").write_text("by hand")
    (home / "extra").write_text("theirs")
    assert place.edited("m", first.files) == ("toml",)
    second = merged(place, first.files, toml="proposed anew", model="two", extra="ours")
    assert second.edited == ("extra", "toml")
    assert {one.name: one.read_text() for one in home.iterdir()} == {
        "toml": "by hand", "extra": "theirs", "model": "two",
    }  # fmt: skip
    third = merged(place, second.files, toml="proposed", model="two")
    assert third.edited == ("toml",)
    assert (home / "extra").read_text() == "theirs"
    (home / "model").unlink()
    assert place.edited("m", third.files) is None  # something is gone: it is made again
    assert not list(place.bundles.glob(".*"))


@pytest.mark.parametrize(("before", "after"), [("w", "w/in/data"), ("w/in/data", "w"), ("w/in/data", "w/in")])
def test_a_file_that_became_a_directory_is_brought_to_its_place_and_so_is_the_reverse(
    before: str, after: str, tmp_path: Path
) -> None:
    place = Place(tmp_path)
    first = merged(place, {}, **{before: "old", "model": "m"})
    second = merged(place, first.files, **{after: "new", "model": "m"})
    assert (second.edited, (place.bundle("m") / after).read_text()) == ((), "new")
    (place.bundle("m") / "model").unlink()
    third = merged(place, second.files)
    assert third.files == {}
    assert list(place.bundle("m").iterdir()) == []


def test_a_contract_that_a_person_edited_stays(tmp_path: Path) -> None:
    path = tmp_path / "contracts" / "a" / "m.toml"
    made, theirs = put_text(path, "one", None)
    assert not theirs
    assert put_text(path, "two", made) == (put_text(path, "two", None)[0], False)
    path.write_text("by hand")
    assert put_text(path, "three", made) == (made, True)
    assert path.read_text() == "by hand"


def test_the_record_reads_back_and_another_directory_is_refused(tmp_path: Path) -> None:
    place = Place(tmp_path / "out")
    with alone(place):
        kept = Kept(
            path="\x1b\n\u202e.onnx", name="m", files={"bundle.toml": "a" * 64}, row={"decisive": [["a", "b"]]}
        )
        place.write(Record(root="r", models=[kept]))
        with pytest.raises(UsageError, match="another adoption is at work"), alone(place):
            pass
    assert place.read().models == [kept]
    with pytest.raises(UsageError, match="adopted from r"), alone(place, "another"):
        pass
    with alone(place, "r"):
        pass
    lay(tmp_path, "theirs/notes.txt")
    with pytest.raises(UsageError, match="no adoption has written it"), alone(Place(tmp_path / "theirs")):
        pass
    for text in ("{", '{"schema": 2}', '{"models": [{"path": "p", "name": "../.."}]}'):
        (place.home / RECORD).write_text(text)
        with pytest.raises(UsageError, match="no record of an adoption"), alone(place):
            pass
    assert json.loads(text)["models"][0]["name"] == "../.."


# -- what is said ---------------------------------------------------------------------------------------------


def row(**more: Any) -> Row:
    return Row(**({"path": "m.onnx", "kind": "model", "state": "made", "name": "m", "model": "a/m"} | more))


def test_what_needs_a_person_is_what_the_manifest_leaves_open() -> None:
    def loosen(document: dict[str, Any]) -> None:
        [model] = document["models"]
        del model["inputs"][0]["range"]
        model["inputs"][0]["shape"] = ["?", 4]
        del model["outputs"][0]["labels"]
        document["bundle"].pop("license", None)

    manifest: Manifest = judge_world.a_manifest(loosen)
    found = needs(manifest, row(edited=["bundle.toml"]), ["dims: a guess"])
    heads = [one.partition(":")[0] for one in found]
    assert heads == [
        "dims", "no licence", "no range, so nothing but golden sets is tried", "unbounded dimensions",
        "classes without labels", "no golden set", "edited by hand and left alone",
    ]  # fmt: skip
    assert any("features" in one for one in found)
    assert "no golden set shows parity" in needs(None, row(goldens={"regression": 4}), [])[0]
    assert "without an origin" in needs(None, row(goldens={"undeclared": 1, "parity": 1}), [])[0]
    assert needs(None, row(goldens={"parity": 1}), []) == []


def test_while_only_observing_nothing_blocks_and_what_could_not_be_judged_is_still_seen() -> None:
    accepted, rejected, lost = (row(verdict=word) for word in ("accepted", "rejected", "inconclusive"))
    failed, skipped = row(state="failed"), row(state="skipped", kind="skipped")
    assert exit_code([accepted, skipped], observe=False) == 0
    assert exit_code([accepted, rejected], observe=False) == 1
    assert exit_code([accepted, failed], observe=False) == 1
    assert exit_code([accepted, rejected, failed], observe=True) == 0
    assert exit_code([rejected, lost], observe=True) == 4


@pytest.mark.parametrize("kind", HOSTILE)
def test_hostile_names_stay_text_on_the_screen_and_on_the_page(kind: str) -> None:
    text = HOSTILE[kind]
    told = {"model": text, "version": text, "reason": text, "said": text, "needs": [text], "edited": [text]}
    decisive = [("parity/mismatch", "reject", text), (text, "hold", text)]
    rows = [
        row(path=text, name="m", verdict="rejected", decisive=decisive, goldens={"parity": 1}, **told),
        row(path=text, state="failed", reason=text),
    ]
    out = io.StringIO()
    print_rows(Console(file=out, width=80, markup=False, highlight=False, emoji=False), rows, "p", observe=True)
    assert all(char.isprintable() for char in out.getvalue().replace("\n", ""))
    html = page(rows, text, "a" * 64, "now", observe=True)
    assert "<script" not in html
    assert "<img" not in html
    assert all(char.isprintable() for char in html.replace("\n", ""))
    assert "2 found: 1 bundles, 1 failed; 1 rejected" in summary(rows)


def test_the_table_fits_80_columns_whatever_the_names() -> None:
    many = [row(name="n" * 64, verdict="inconclusive", goldens={"parity": 4, "regression": 2},
                decisive=[("quantization/undeclared-type", "hold", "m")], needs=["x"] * 12)]  # fmt: skip
    out = io.StringIO()
    print_rows(Console(file=out, width=80, markup=False, highlight=False), many, "p", observe=True)
    assert max(map(len, out.getvalue().splitlines())) <= 80
    assert "n" * 20 in out.getvalue()
    again = io.StringIO()
    known = [one.model_copy(update={"state": "unchanged"}) for one in many]
    print_rows(Console(file=again, width=80, markup=False, highlight=False), known, "p", observe=True)
    assert [text for text in again.getvalue().splitlines() if text.startswith("(unchanged)")]


# -- goldens, and one that breaks --------------------------------------------------------------------------------


class Oracles:
    """Stands for `bundle vectors`: what is asked of it, and what it cannot."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.asked: list[tuple[str, int]] = []
        self.broken: dict[str, str] = {}
        monkeypatch.setattr(goldens, "make", self.make)

    def make(self, _bench: Any, bundle: Path, wanted: Any) -> None:
        self.asked.append((wanted.oracle, wanted.random))
        why = self.broken.get(wanted.oracle, "")
        if why and not (OUT_OF_TIME in why and wanted.random == 1):
            raise UsageError(why, remedy="none")
        (bundle / f"goldens_{wanted.oracle}_{len(self.asked)}").mkdir()


def begun(tmp_path: Path, shape: list[int | str], dtype: str = "float32") -> tuple[Any, Wishes]:
    value = judge_world.value("x", 4, shape=shape, dtype=dtype)
    facts = judge_world.facts(inputs=[value], outputs=[judge_world.value("y", 3, shape=["n", 3])])
    looked = Looked((Seen("m.onnx", facts),), Goldens())
    wishes = Wishes("a/m", whole=(0, 1))
    proposal = propose(looked, wishes)
    (tmp_path / "bundle.toml").write_text(manifest_text(proposal))
    return start.Made(proposal, looked, tmp_path, 1), wishes


BENCH: Any = Bench(Rules(Policy(), "", Profile(), "", Path()), *[None] * 3)  # type: ignore[arg-type]


def said(tmp_path: Path, made: Any, wishes: Wishes) -> list[str]:
    return [one.said for one in goldens.trials(BENCH, tmp_path, made, wishes)]


def test_the_evaluator_is_asked_first_then_the_runtime_and_the_reason_is_told(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    oracles = Oracles(monkeypatch)
    made, wishes = begun(tmp_path, [2, 4])
    assert said(tmp_path, made, wishes) == ["4 of random inputs, computed by onnx's own evaluator"]
    oracles.broken["reference"] = f"random-1: {OUT_OF_TIME}"
    [told] = said(tmp_path, made, wishes)
    assert told.startswith("4 of random inputs, computed by onnxruntime itself, and 1 by onnx's own evaluator")
    oracles.broken["reference"] = "ZipMap"
    [told] = said(tmp_path, made, wishes)
    assert told.startswith("4 of random inputs, computed by onnxruntime itself: ZipMap")
    assert [one.name for one in tmp_path.glob("goldens_*")] == ["goldens_onnxruntime_6"]  # those before are gone
    oracles.broken["onnxruntime"] = "boom"
    assert said(tmp_path, made, wishes) == ["none: boom"]
    assert oracles.asked[:4] == [("reference", 4), ("reference", 4), ("onnxruntime", 4), ("reference", 1)]
    there = start.Made(made.proposal, Looked((), Goldens(names=("s", "t"), smoke=("t",))), tmp_path, 1)
    assert said(tmp_path, there, wishes) == ["2 lay beside the model, 1 without outputs"]


def test_further_trials_have_fixed_sizes_of_what_has_no_number_and_the_last_is_the_first_again(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    Oracles(monkeypatch)
    made, wishes = begun(tmp_path, ["n", "?", "len"])
    assert made.proposal.manifest.models[0].inputs[0].shape == ["n", "?", "len"]
    tried = []
    for trial in goldens.trials(BENCH, tmp_path, made, wishes):
        tried.append(trial)
        assert (tmp_path / "bundle.toml").read_text() == manifest_text(trial.proposal)
    assert tried[0].proposal is tried[-1].proposal is made.proposal
    assert [one.last for one in tried] == [False] * (len(tried) - 1) + [True]
    sizes = [
        {name: (one.min, one.max) for name, one in each.proposal.manifest.dims.items()} for each in tried[1:-1]
    ]
    assert sizes == [
        {"n": (1, 1), "axis_1": (size, size), "len": (size, size)} for size in (1, 16, 64, 256)
    ]  # 16,000 squared would be more elements than a probe may have
    assert tried[1].proposal.manifest.models[0].inputs[0].shape == ["n", "axis_1", "len"]
    assert "a size at which it runs" in manifest_text(tried[1].proposal)


def test_where_evaluator_and_runtime_differ_the_sets_are_the_runtimes_and_the_line_says_so(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    oracles = Oracles(monkeypatch)
    made, wishes = begun(tmp_path, [2, 4])
    [trial] = goldens.trials(BENCH, tmp_path, made, wishes)
    assert trial.evaluated
    other = goldens.regression(BENCH, tmp_path, made, trial, "expected nan, got 0.1")
    assert (other.evaluated, other.made, "gives other values: expected nan" in other.said) == (False, True, True)
    assert [one.name for one in tmp_path.glob("goldens_*")] == ["goldens_onnxruntime_2"]
    oracles.broken["onnxruntime"] = "boom"
    assert goldens.regression(BENCH, tmp_path, made, trial, "nan").said == "none: boom"
    oracles.broken = {"reference": "ZipMap"}
    [trial] = goldens.trials(BENCH, tmp_path, made, wishes)
    assert not trial.evaluated


def test_names_of_dimensions_that_the_runtime_does_not_know_are_left_open_in_the_next_trial(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    Oracles(monkeypatch)
    outputs = [judge_world.value(name, 3, shape=["n", "hidden"]) for name in ("h", "c")]
    facts = judge_world.facts(inputs=[judge_world.value("x", 4, shape=["n", 4])], outputs=outputs)
    looked = Looked((Seen("m.onnx", facts),), Goldens())
    first = propose(looked, Wishes("a/m"))
    assert [one.shape for one in first.manifest.models[0].outputs] == [["n", "hidden"]] * 2
    trial = goldens.loosened(BENCH, tmp_path, start.Made(first, looked, tmp_path, 1), Wishes("a/m"))
    assert [one.shape for one in trial.proposal.manifest.models[0].outputs] == [["n", "?"]] * 2
    assert list(trial.proposal.manifest.dims) == ["n"]
    assert (tmp_path / "bundle.toml").read_text() == manifest_text(trial.proposal)


def test_the_page_has_every_model_however_many() -> None:
    many = [row(name=f"m-{number}", path=f"{number}.onnx", verdict="accepted") for number in range(450)]
    text = page(many, "p", "a" * 64, "now", observe=False)
    assert all(f">m-{number}<" in text for number in range(450))


def test_whole_numbers_get_a_range_that_says_it_is_a_guess(tmp_path: Path) -> None:
    made, _ = begun(tmp_path, [2, 4], "int64")
    assert made.proposal.manifest.models[0].inputs[0].range == [0, 1]
    assert "A guess that every index allows" in manifest_text(made.proposal)
    assert propose(made.looked, Wishes("a/m")).manifest.models[0].inputs[0].range is None


def test_one_model_that_breaks_everything_ends_no_other_and_the_record_has_the_rest(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    def made(_self: Any, one: Found, row: Row, known: Kept, **_: Any) -> tuple[Kept, Row]:
        if one.path == "bad.onnx":
            raise RuntimeError("\x1b[31mboom")
        if one.path == "gone.onnx":
            raise FileNotFoundError(2, "No such file", "gone.onnx")
        return known, row.model_copy(update={"state": "made", "verdict": "accepted"})

    monkeypatch.setattr(Adoption, "_made", made)
    bench: Any = None
    adoption = Adoption(bench, tmp_path, Place(tmp_path / "out"), "t", 2)
    (tmp_path / "out").mkdir()
    found = [Found("bad.onnx", "model"), Found("gone.onnx", "model"), Found("link.onnx", "skipped", "a link"),
             Found("ok.onnx", "model")]  # fmt: skip
    rows = adoption.run(found)
    assert [one.state for one in rows] == ["failed", "failed", "skipped", "made"]
    assert "internal error: RuntimeError" in rows[0].reason
    assert [one.name for one in adoption.place.read().models] == ["bad", "gone", "ok"]
