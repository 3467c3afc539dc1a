"""The main job through a real daemon: drop, verdict, promote, load, roll back, restart."""

from __future__ import annotations

import base64
import json
from collections.abc import Iterator
from functools import partial
from pathlib import Path

import numpy as np
import pytest

from acceptd.errors import DigestMismatchError
from acceptd.loader import open_release
from acceptd.runtime.identity import RuntimeRecord, identity
from examples import evidence_classifier as classifier
from examples import hostile_bundles
from tests.world import MODEL_ID, TEAM, World, codes, world

pytestmark = pytest.mark.acceptance


@pytest.fixture(scope="module")
def running(tmp_path_factory: pytest.TempPathFactory) -> Iterator[World]:
    with world(tmp_path_factory.mktemp("main"), TEAM, "other") as made:
        (made.stage.parent / "out").mkdir()
        with (made.state / "acceptd.toml").open("a") as file:
            file.write(f'[[exports]]\nname = "out"\nkind = "triton"\ndirectory = "{made.stage.parent}/out"\n')
        made.start(cold=True)
        yield made


def test_a_good_bundle_is_accepted_promoted_and_loaded(running: World) -> None:
    name = running.drop(lambda path: classifier.write_bundle(path, version="1.0.0"), "v1")
    report = running.verdict(name)
    assert report["verdict"] == "accepted", report["findings"]
    first = report["release"]["number"]
    opened = open_release(running.state, MODEL_ID, keys=running.state / "keyring.json")
    assert opened.number == first
    point = classifier.PUBLISHED[0]
    got = opened.session().run({"features": classifier.features_from_evidence(*point.evidence)})
    np.testing.assert_allclose(np.asarray(got["probabilities"])[0], point.probabilities, rtol=0, atol=1e-6)
    # A second version, then back: the number only rises, the bytes are those of v1 again.
    second = running.drop(
        lambda path: classifier.write_bundle(path, version="2.0.0", bias=(-0.75, 0.5, 0.0)), "v2"
    )
    assert running.verdict(second)["release"]["number"] == first + 1
    done = running.acceptd("release", "rollback", MODEL_ID)
    assert done.returncode == 0, done.stderr
    back = open_release(running.state, MODEL_ID, keys=running.state / "keyring.json")
    assert back.number == first + 2
    assert back.bundle_digest == report["bundle_digest"]
    with pytest.raises(DigestMismatchError):
        open_release(running.state, MODEL_ID, keys=running.state / "keyring.json", digest="0" * 64)


def test_the_daemon_exports_what_is_current_also_what_a_command_made_so(running: World) -> None:
    out, model = running.stage.parent / "out", f"{TEAM}/exported"
    home = out / f"repository/{model.replace('/', '.')}.main"
    write = partial(classifier.write_bundle, model_id=model)
    for version, bias in (("1.0.0", None), ("2.0.0", (-0.75, 0.5, 0.0))):
        report = running.verdict(running.drop(partial(write, version=version, bias=bias), f"exported-{version}"))
        assert report["verdict"] == "accepted", report["findings"]
    done = running.acceptd("release", "rollback", model)
    assert done.returncode == 0, done.stderr
    running.until(lambda: (home / "3/model.onnx").exists(), "the rollback is exported")
    running.until(lambda: b"versions: 3 " in (home / "config.pbtxt").read_bytes(), "it is the one that is served")
    done = running.acceptd("status", "--json")
    assert json.loads(done.stdout)["follow"]["exports"]["out"]["failures"] == 0
    keys = str(running.state / "keyring.json")
    assert running.acceptd("release", "export", "verify", str(out), "--keys", keys).returncode == 0
    assert "export out in order" in " ".join(running.acceptd("status").stdout.split())


@pytest.mark.parametrize(
    "name", ["external-parent", "allocates-at-run", "goldens-wrong", "other-team", "zip-traversal"]
)
def test_a_hostile_drop_is_rejected_with_its_reason(name: str, running: World) -> None:
    entry = hostile_bundles.BY_NAME[name]
    report = running.verdict(running.drop(entry.write, f"hostile-{name}"))
    assert report["verdict"] in entry.verdicts
    assert codes(report, "reject", "hold") & set(entry.codes), report["findings"]
    assert "release" not in report


def test_a_hostile_drop_cannot_move_what_is_in_production(running: World) -> None:
    before = json.loads(running.acceptd("release", "list", "--json").stdout)
    for name in ("goldens-wrong", "other-team"):
        running.verdict(running.drop(hostile_bundles.BY_NAME[name].write, f"again-{name}"))
    after = json.loads(running.acceptd("release", "list", "--json").stdout)
    assert [row["number"] for row in after] == [row["number"] for row in before]


def test_a_bundle_with_two_models_is_judged_whole(running: World) -> None:
    name = running.drop(two_models, "two")
    report = running.verdict(name)
    assert report["verdict"] == "accepted", report["findings"]
    assert {job["model"] for job in report["resources"]["jobs"] if job["kind"] == "run"} == {"main", "second"}


def test_one_wrong_model_of_two_rejects_the_bundle(running: World) -> None:
    report = running.verdict(running.drop(lambda path: two_models(path, broken=True), "two-broken"))
    assert report["verdict"] == "rejected"
    assert "parity/mismatch" in codes(report, "reject")


def test_a_bundle_without_manifest_is_held_and_never_promoted(running: World) -> None:
    def bare(path: Path) -> Path:
        classifier.write_bundle(path)
        (path / "bundle.toml").unlink()
        return path

    report = running.verdict(running.drop(bare, "bare"))
    assert report["verdict"] == "held"
    assert "release" not in report
    assert report["inferred"]


@pytest.mark.parametrize("suffix", ["zip", "tar", "tar.gz"])
def test_an_archive_is_judged_like_the_directory_it_holds(suffix: str, running: World) -> None:
    import shutil

    def pack(path: Path) -> Path:
        folder = classifier.write_bundle(path.with_name(path.name + "-src"), version="3.0.0")
        kind = {"zip": "zip", "tar": "tar", "tar.gz": "gztar"}[suffix]
        return Path(shutil.make_archive(str(path), kind, folder))

    report = running.verdict(running.drop(pack, f"archive-{suffix.replace('.', '-')}"))
    assert report["verdict"] == "accepted", report["findings"]


def test_the_drop_is_gone_afterwards_and_nothing_is_left_sealed(running: World) -> None:
    running.until(lambda: not list((running.state / "inbox" / TEAM).iterdir()), "the inbox is empty")
    running.until(lambda: not list((running.state / "sealed").iterdir()), "nothing is left sealed")


def test_status_report_and_ledger_tell_the_same(running: World) -> None:
    running.verdict(running.drop(classifier.write_bundle, "told"))
    status = json.loads(running.acceptd("status", "--json", "-n", "200").stdout)
    assert status["daemon"].startswith("running")
    verdicts = running.entries("verdict")
    assert len(verdicts) == len([row for row in status["submissions"] if row["verdict"]])
    newest = status["submissions"][0]["submission"]
    assert json.loads(running.acceptd("report", newest, "--json").stdout)["submission"] == newest
    assert running.acceptd("ledger", "verify").returncode == 0


def test_a_recorded_submission_is_written_in_every_form(running: World, tmp_path: Path) -> None:
    files = {option: tmp_path / option.strip("-") for option in ("--sarif", "--junit", "--html")}
    words = [word for option, path in files.items() for word in (option, str(path))]
    done = running.acceptd("report", *words, "--json")
    assert done.returncode == 0, done.stderr
    report = json.loads(done.stdout)
    run = json.loads(files["--sarif"].read_text())["runs"][0]
    assert [one["ruleId"] for one in run["results"]] == [one["code"] for one in report["findings"]]
    assert report["bundle_digest"] in files["--junit"].read_text()
    assert report["bundle_digest"] in files["--html"].read_text()
    assert running.acceptd("report", "--sarif", "/nowhere/x").returncode == 2


def test_a_second_daemon_refuses_in_one_line(running: World) -> None:
    done = running.acceptd("daemon")
    assert done.returncode == 2
    assert "another daemon" in done.stderr
    assert "Traceback" not in done.stderr


def test_a_revoked_bundle_is_never_promoted_again(running: World) -> None:
    from acceptd.errors import LoaderError

    model = f"{TEAM}/revoked"
    write = partial(classifier.write_bundle, model_id=model)
    assert running.verdict(running.drop(write, "revoked"))["release"]["number"] == 1
    opened = open_release(running.state, model, keys=running.state / "keyring.json")
    done = running.acceptd("release", "revoke", opened.bundle_digest, "--reason", "test")
    assert done.returncode == 0, done.stderr
    with pytest.raises(LoaderError):
        open_release(running.state, model, keys=running.state / "keyring.json")
    report = running.verdict(running.drop(write, "revoked-again"))
    assert "release" not in report
    assert report["promotion_trouble"]


def test_what_ran_is_on_record_and_in_the_release(running: World) -> None:
    model = f"{TEAM}/recorded"
    report = running.verdict(running.drop(lambda path: classifier.write_bundle(path, model_id=model), "recorded"))
    assert report["verdict"] == "accepted", report["findings"]
    (entry,) = [one for one in running.entries("verdict") if one["body"]["drop"] == "recorded"]
    statement = json.loads(base64.b64decode(entry["body"]["statement"]["payload"]))
    (record,) = statement["predicate"]["runtimes"]
    assert record == report["runtime"]
    opened = open_release(running.state, model, keys=running.state / "keyring.json")
    mine = identity(RuntimeRecord.model_validate(record))
    assert mine == report["runtime_identity"] == entry["body"]["runtime_identity"]
    assert mine == statement["predicate"]["runtime_identity"] == opened.options["runtime_identity"]


def two_models(path: Path, *, broken: bool = False) -> Path:
    """Write a bundle with the classifier twice: `main` and, in a folder of its own, `second`."""
    import tomllib

    from examples.bundle_text import toml_text

    classifier.write_bundle(path, version="5.0.0", model_id=f"{TEAM}/pair")
    variant = classifier.Variant(bias=(0.0, 0.5, 0.0))
    folder = path / "second"
    folder.mkdir()
    (folder / "second.onnx").write_bytes(classifier.build_model(variant))
    classifier.write_goldens(folder, classifier.Variant() if broken else variant, count=2)
    document = tomllib.loads((path / "bundle.toml").read_text("utf-8"))
    main = document["models"][0]
    second = {**main, "name": "second", "file": "second/second.onnx"}
    second["vectors"] = [{"sets": ["second/test_data_set_*"], "origin": "float64 numpy oracle"}]
    document["models"] = [main, second]
    (path / "bundle.toml").write_text(toml_text(document), encoding="utf-8")
    return path
