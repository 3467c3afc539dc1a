"""An examination as a document: it comes back from its bytes exactly, and from no other bytes."""

from __future__ import annotations

import json
import math
from typing import Any

import pytest

from acceptd.errors import MalformedError
from acceptd.fleet.examined import Examined
from acceptd.judge.profiles import Target, judge_all
from acceptd.policy.policy import Policy
from acceptd.policy.profile import Profile
from acceptd.record.canonical import canonical
from tests import judge_world as world

pytestmark = pytest.mark.unit

CPU = Target(Profile(), "1" * 64)


def an_examined(**changes: Any) -> Examined:
    made = {"profiles": ["cpu"], "submission": world.submission(), "manifest": world.a_manifest(), **changes}
    return Examined(**made)


def test_it_comes_back_from_its_bytes() -> None:
    one = an_examined(timings_ms={"run": 1.0, "inspect": 0.125})
    again = Examined.from_bytes(one.to_bytes())
    assert again == one
    assert again.to_bytes() == one.to_bytes()


@pytest.mark.parametrize("odd", [math.inf, -math.inf, 1e300, 2.0**60, 1e-7, 3.0])
def test_odd_numbers_come_back(odd: float) -> None:
    rows = [world.stats(max_abs=odd) if math.isfinite(odd) else world.stats(max_rel=str(odd))]
    run = world.run().model_copy(update={"wall_s": odd})
    one = an_examined(submission=world.submission(jobs=[run], statistics=world.statistics(*rows)))
    again = Examined.from_bytes(one.to_bytes())
    assert again.submission.jobs[-1].wall_s == odd
    assert again.to_bytes() == one.to_bytes()


def test_text_that_is_no_unicode_comes_back_as_what_stands_for_it() -> None:
    run = world.run().model_copy(update={"message": "a\udcffb"})
    one = an_examined(submission=world.submission(jobs=[run]))
    again = Examined.from_bytes(one.to_bytes())
    assert again.submission.jobs[-1].message == "a\\xffb"
    assert again.to_bytes() == one.to_bytes()


def _changed(change: Any) -> bytes:
    value = json.loads(an_examined().to_bytes())
    change(value)
    return canonical(value)


@pytest.mark.parametrize(
    "data",
    [
        pytest.param(b"", id="nothing"),
        pytest.param(b"[" * 100_000, id="deep"),
        pytest.param(b'{"profiles":[],"profiles":["cpu"]}', id="two keys alike"),
        pytest.param(an_examined().to_bytes().replace(b'"wall_s":0', b'"wall_s":NaN', 1), id="NaN"),
        pytest.param(b" " + an_examined().to_bytes(), id="a space"),
        pytest.param(an_examined().to_bytes() + b"{}", id="more behind it"),
        pytest.param(_changed(lambda value: value.update(more=1)), id="an unknown key"),
        pytest.param(_changed(lambda value: value["submission"].update(verdict="accepted")), id="unknown below"),
        pytest.param(_changed(lambda value: value.pop("profiles")), id="a key left out"),
        pytest.param(_changed(lambda value: value.update(contract_digest="x")), id="no digest"),
        pytest.param(_changed(lambda value: value["timings_ms"].update(run="1")), id="a number as text"),
        pytest.param(_changed(lambda value: value["timings_ms"].update(run=True)), id="a number as a boolean"),
        pytest.param(b"\xff\xfe", id="no text"),
    ],
)
def test_no_other_bytes_are_taken(data: bytes) -> None:
    with pytest.raises(MalformedError) as refused:
        Examined.from_bytes(data)
    assert "\n" not in str(refused.value)


def test_what_an_older_version_did_not_know_of_has_its_default() -> None:
    """In a fleet the promoter is upgraded before the workers."""
    older = _changed(lambda value: [value["submission"].pop("kept"), value.pop("timings_ms")])
    assert Examined.from_bytes(older) == an_examined()
    assert Examined.from_bytes(older).to_bytes() == an_examined().to_bytes()


def test_more_bytes_than_allowed_are_not_parsed() -> None:
    data = an_examined().to_bytes()
    with pytest.raises(MalformedError, match=f"{len(data)} bytes, at most {len(data) - 1}"):
        Examined.from_bytes(data, most=len(data) - 1)


def test_what_comes_back_is_judged_to_the_same_bytes() -> None:
    one = an_examined()
    again = Examined.from_bytes(one.to_bytes())
    found = [judge_all(each.manifest, None, Policy(), each.submission, world.NOW, [CPU]) for each in (one, again)]
    assert found[0].verdict == "accepted"
    assert found[0].model_dump_json() == found[1].model_dump_json()
