"""Exports in an S3-compatible bucket: written, followed, verified, by the daemon's thread and by the commands."""

from __future__ import annotations

import json
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest

from acceptd.config import Paths
from acceptd.export import service
from acceptd.export.service import Following
from acceptd.export.settings import ExportTable
from acceptd.export.tally import read
from acceptd.objectstore.objects import open_objects
from acceptd.objectstore.settings import ObjectsTable
from tests import commands
from tests.export_world import SERVABLE
from tests.fleet.s3 import S3, Asked, Proxy, Reply
from tests.release_world import MODEL, World
from tests.unit.test_export_bucket import Bucketed
from tests.unit.test_export_command import shown

HOME = f"{MODEL}/production"


@pytest.fixture
def world(tmp_path: Path) -> Iterator[World]:
    """A state with real keys and a real ledger."""
    made = World(tmp_path)
    yield made
    made.close()


def _state(world: World, text: str = "") -> list[str]:
    return [] if "verify" in text else ["--state", str(world.state)]


def bucketed(world: World, endpoint: str, bucket: str) -> Bucketed:
    """Return an export of that world to a prefix of a bucket."""
    table = ObjectsTable(url=f"s3://{bucket}/exports", endpoint=endpoint, tries=3)
    return Bucketed(world, open_objects(table, world.state).remote)


def test_promotion_rollback_and_revocation_are_followed(world: World, s3: S3) -> None:
    """And every byte is read back and verified by the keyring alone."""
    exported = bucketed(world, s3.endpoint, s3.bucket())
    for version in ("1", "2", "3"):
        world.released(version)
        exported.served()
    world.rollback()
    assert exported.served() == [f"{HOME}/000004"]
    row = world.released("5")
    assert exported.served() == [f"{HOME}/000005"]
    world.revoke(row.bundle_digest, rollback=True)
    assert exported.served() == [f"{HOME}/000006"]


def test_a_reader_of_the_pointer_finds_every_file_of_its_number_at_any_moment(world: World, s3: S3) -> None:
    """Before each write of an export the bucket is looked at as a consumer does."""
    bucket = s3.bucket()
    seen: list[str] = []

    def look(asked: Asked) -> Reply | None:
        if asked.method in {"PUT", "DELETE"} and "/probe/" not in asked.path:
            keys = s3.keys(bucket)
            pointer = f"exports/{HOME}/current"
            if pointer in keys:
                number = s3.get(bucket, pointer).decode().strip()
                below = {key.removeprefix(f"exports/{HOME}/{number}/") for key in keys}
                assert {"model.onnx", "data/labels.txt", ".acceptd/export.json", ".acceptd/release.json"} <= below
                model = s3.get(bucket, f"exports/{HOME}/{number}/model.onnx")
                seen.append(f"{number} {model!r}")
        return None

    proxy = Proxy(s3, before=look)
    exported = bucketed(world, proxy.endpoint, bucket)
    for version in ("1", "2", "3"):
        world.released(version)
        assert exported.follow().problems == []
    proxy.close()
    assert len({one.partition(" ")[0] for one in seen}) == 3
    assert len(seen) > 12


def test_an_answer_to_the_switch_that_was_lost_is_no_trouble(world: World, s3_proxy: Proxy) -> None:
    """The server took it; the next try finds its own content there."""
    exported = bucketed(world, s3_proxy.endpoint, s3_proxy.server.bucket())
    lost: list[str] = []

    def losing(asked: Asked, reply: Reply) -> None:
        named = asked.path.rpartition("/")[2]
        if asked.method == "PUT" and named in {"current", "model.onnx", "release.json"} and named not in lost:
            lost.append(named)
            reply.status, reply.body, reply.length = 500, b"", 0

    world.released("1")
    s3_proxy.fault = losing
    assert exported.served() == [f"{HOME}/000001"]
    assert sorted(lost) == ["current", "model.onnx", "release.json"]


def test_a_store_that_changes_what_it_was_given_is_never_led_to(world: World, s3_proxy: Proxy) -> None:
    """Read back before the switch."""
    bucket = s3_proxy.server.bucket()
    exported = bucketed(world, s3_proxy.endpoint, bucket)

    def flipping(asked: Asked, reply: Reply) -> None:
        if asked.method == "GET" and asked.path.endswith("model.onnx"):
            reply.body = reply.body[:-1] + bytes([reply.body[-1] ^ 1])

    world.released("1")
    s3_proxy.fault = flipping
    done = exported.follow()
    assert any("not the file that was exported" in line for line in done.problems)
    assert f"exports/{HOME}/current" not in s3_proxy.server.keys(bucket)


def test_the_commands_export_to_a_bucket_and_verify_it(world: World, s3: S3) -> None:
    """Triton's form too; a changed byte is exit code 5, a wrong word 2."""
    bucket = s3.bucket()
    place = [f"s3://{bucket}/triton", "--endpoint", s3.endpoint]
    world.released("1", manifest=SERVABLE)
    for path, mode in Paths(world.state).directories():
        path.mkdir(mode=mode, parents=True, exist_ok=True)
    assert len(shown(bucket=True)) == 2
    for text in shown(bucket=True):  # those of the page
        text = text.replace("s3://models", f"s3://{bucket}").replace("https://objects.example:9000", s3.endpoint)
        done = commands.run(*text.replace("/etc/acceptd", str(world.state)).split()[1:], *_state(world, text))
        assert done.returncode == 0, done.stderr
    state, keys = _state(world), ["--keys", str(world.state / "keyring.json")]
    done = commands.run("release", "export", MODEL, "--to", *place, "--kind", "triton", *state)
    assert done.returncode == 0, done.stderr
    assert "exported" in done.stdout
    done = commands.run("release", "export", "verify", *place, *keys, "--json")
    assert done.returncode == 0, done.stderr
    found = json.loads(done.stdout)
    assert [one["served"] for one in found["verified"]] == [True]
    model = next(key for key in s3.keys(bucket) if key.startswith("triton/") and key.endswith("model.onnx"))
    s3.put(bucket, model, b"x" * len(s3.get(bucket, model)))
    done = commands.run("release", "export", "verify", *place, *keys)
    assert done.returncode == 5
    assert "not the file that was exported" in " ".join(done.stdout.split())
    done = commands.run("release", "export", "verify", "s3://Bad_Bucket/x", *keys)
    assert (done.returncode, "no name of a bucket" in done.stderr) == (2, True)
    done = commands.run("release", "export", "verify", f"s3://{bucket}/nothing", "--endpoint", s3.endpoint, *keys)
    assert (done.returncode, "holds no export" in done.stderr) == (5, True), done.stderr


def test_the_daemon_follows_to_a_bucket_that_was_away(
    world: World, s3_proxy: Proxy, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It is counted as failing while it is away, and follows when it is back."""
    monkeypatch.setattr(service, "RETRY_SECONDS", 0.1)
    monkeypatch.setattr(service, "LOOK_SECONDS", 0.05)
    bucket = s3_proxy.server.bucket()
    table = ExportTable(name="bucket", kind="plain", url=f"s3://{bucket}/exports", endpoint=s3_proxy.endpoint)
    world.released("1")
    s3_proxy.cut = True
    failed, worked = threading.Event(), threading.Event()
    note = service.tally.Tally.note

    def noted(tally: object, kind: str, name: str, what: str, at: str, problem: str) -> None:
        note(tally, kind, name, what, at, problem)  # type: ignore[arg-type]
        (failed if problem else worked).set()

    monkeypatch.setattr(service.tally.Tally, "note", noted)
    with Following(world.state, world.ledger, world.keys, [table], []):
        assert failed.wait(60)
        assert not worked.is_set()
        s3_proxy.cut = False
        assert worked.wait(60)
    assert read(world.state)["exports"]["bucket"]["what"] == f"plain s3://{bucket}/exports"
    assert bucketed(world, s3_proxy.endpoint, bucket).verify().problems == ()


def test_doctor_says_whether_the_store_is_there_and_keeps_conditions(world: World, s3_proxy: Proxy) -> None:
    """By trying it; nothing of it is needed where no store is named."""
    from acceptd.cli.doctor import _installation

    assert "objects" not in _installation(world.state)
    bucket = s3_proxy.server.bucket()
    text = f'[objects]\nurl = "s3://{bucket}/x"\nendpoint = "{s3_proxy.endpoint}"\ntries = 1\n'
    (world.state / "acceptd.toml").write_text(text)
    (world.state / "acceptd.toml").chmod(0o600)
    said = _installation(world.state)["objects"]
    assert "reachable, written once by If-None-Match" in said
    assert "in clear" in said
    s3_proxy.cut = True
    assert "not usable" in _installation(world.state)["objects"]
