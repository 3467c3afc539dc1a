"""Every lie about a drop that an intake, or who can write where its word lies, can tell."""

from __future__ import annotations

from typing import Any

import pytest

from acceptd.errors import FleetTrustError
from acceptd.evidence import Sealed
from acceptd.fleet.seal import open_seal, sign_seal
from acceptd.intake.target import bundle_digest
from tests import fleet_evidence as fleet
from tests import judge_world as world

pytestmark = pytest.mark.hostile

EVIDENCE = fleet.Case().signed()[0]
INTAKE = {"name": "door", "role": "intake", "key": fleet.public("door")}


def true(**changes: Any) -> Sealed:
    """An inventory whose digest is what its files make up."""
    found = world.sealed().model_copy(update=changes)
    return found.model_copy(
        update={"digest": bundle_digest(found.files), "total_bytes": sum(one.size for one in found.files)}
    )


def drop(**changes: Any) -> dict[str, Any]:
    made: dict[str, Any] = {
        "submission": "s-1",
        "team": "mosaic",
        "drop": "classifier",
        "uid": 1000,
        "sealed": true(),
        "jobs": [world.record("manifest", manifest=world.manifest_document())],
        "model": "mosaic/classifier",
    }
    return made | changes


def envelope(who: str = "door", name: str = "door", at: str = fleet.NOW, **changes: Any) -> str:
    return sign_seal(fleet.signer(who), fleet.node(name), at=at, **drop(**changes))


def test_positive_control_a_seal_of_a_trusted_intake_counts() -> None:
    found = open_seal(envelope(), fleet.trust(INTAKE), **drop())
    assert found.predicate.bundle_digest == true().digest
    assert found.predicate.node.name == "door"


@pytest.mark.parametrize(
    ("changes", "cause"),
    [
        pytest.param({"submission": "s-2"}, "submission", id="another submission"),
        pytest.param({"team": "other"}, "submission", id="dropped for another team"),
        pytest.param({"drop": "other"}, "submission", id="another drop"),
        pytest.param({"uid": 0}, "submission", id="dropped by another user"),
        pytest.param({"uid": None}, "submission", id="dropped by nobody"),
        pytest.param({"model": "mosaic/other"}, "bundle", id="another model"),
        pytest.param({"sealed": true(files=world.sealed("more.bin").files)}, "bundle", id="another bundle"),
        pytest.param(
            {"sealed": true(files=[one.model_copy(update={"native": "elf"}) for one in world.sealed().files])},
            "bundle",
            id="another word about first bytes",
        ),
        pytest.param({"sealed": true().model_copy(update={"origin": "zip"})}, "bundle", id="another kind of drop"),
        pytest.param({"jobs": []}, "bundle", id="no job"),
        pytest.param({"jobs": [world.record("manifest", ending="lost")]}, "bundle", id="another end of a job"),
    ],
)
def test_a_record_that_says_otherwise_than_the_seal_is_refused(changes: dict[str, Any], cause: str) -> None:
    with pytest.raises(FleetTrustError) as refused:
        open_seal(envelope(), fleet.trust(INTAKE), **drop(**changes))
    assert refused.value.cause == cause


@pytest.mark.parametrize(
    ("made", "trust", "cause"),
    [
        pytest.param(envelope(who="stranger"), fleet.trust(INTAKE), "unknown-key", id="a key of nobody"),
        pytest.param(envelope(name="gate"), fleet.trust(INTAKE), "node", id="another node's name"),
        pytest.param(
            envelope(), fleet.trust(fleet.entry("door", "cpu")), "role", id="a worker that takes drops in"
        ),
        pytest.param(envelope(), fleet.trust(INTAKE | {"revoked": "stolen"}), "revoked", id="a revoked key"),
        pytest.param(
            envelope(), fleet.trust(INTAKE | {"expires": "2026-01-01T00:00:00Z"}), "expired", id="an expired key"
        ),
        pytest.param(envelope(at="2026-06-01T00:00:00Z"), fleet.trust(INTAKE), "stale", id="of last month"),
        pytest.param(envelope(at="2026-07-02T00:00:00Z"), fleet.trust(INTAKE), "stale", id="of tomorrow"),
        pytest.param(
            fleet.Case().signed()[0], fleet.trust(INTAKE, fleet.entry("gpu-1", "cpu")), "malformed", id="evidence"
        ),
        pytest.param("", fleet.trust(INTAKE), "malformed", id="nothing"),
    ],
)
def test_only_a_seal_of_a_trusted_intake_counts(made: str, trust: Any, cause: str) -> None:
    with pytest.raises(FleetTrustError) as refused:
        open_seal(made, trust, **drop())
    assert refused.value.cause == cause


@pytest.mark.parametrize(
    "sealed",
    [
        pytest.param(true().model_copy(update={"digest": "0" * 64}), id="a digest of other files"),
        pytest.param(true().model_copy(update={"total_bytes": 1}), id="another size"),
    ],
)
def test_an_inventory_that_does_not_make_up_its_own_digest_is_refused_though_it_is_signed(sealed: Sealed) -> None:
    with pytest.raises(FleetTrustError) as refused:
        open_seal(envelope(sealed=sealed), fleet.trust(INTAKE), **drop(sealed=sealed))
    assert refused.value.cause == "bundle"


def test_a_node_that_takes_in_and_examines_has_one_key_and_two_tables() -> None:
    both = fleet.trust(INTAKE, fleet.entry("door", "other"))
    open_seal(envelope(), both, **drop())
    fleet.Case(trust=both, node=fleet.node("door"), signer=fleet.signer("door")).open()
