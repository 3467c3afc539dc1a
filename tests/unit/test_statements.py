"""What a verdict's statement says: every field under its shipped schema, whatever a job tells."""

from __future__ import annotations

import json
import math
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from acceptd import outcomes
from acceptd.acceptance import Outcome
from acceptd.errors import InternalError
from acceptd.evidence import JobRecord, PlacedNode, Placement, Schema, SealFailure, Submission, ValueInfo
from acceptd.known_rules import KnownRules
from acceptd.policy.manifest import Manifest
from acceptd.policy.policy import Policy
from acceptd.policy.profile import Profile
from acceptd.record import attest, audit
from acceptd.record.canonical import digest
from acceptd.record.keys import Signer, create_keys, load_keyring, load_signer
from acceptd.record.log import Ledger
from acceptd.record.queue import Queue
from acceptd.rules import Rules
from acceptd.statement.parts import dimension, milliseconds, whole, word
from acceptd.statement.schemas import KINDS, MODELS, schema_text
from acceptd.steps.recording import Recording
from acceptd.verdicts import Prepared, entry_body
from sandbox import session
from tests import judge_world as world
from tests.statement_world import DOCS, payload_of, troubles

pytestmark = pytest.mark.unit
LOG = "acceptd/" + "ab" * 16


@pytest.fixture(scope="module")
def state(tmp_path_factory: pytest.TempPathFactory) -> Path:
    made = tmp_path_factory.mktemp("state")
    create_keys(made)
    return made


@pytest.fixture(scope="module")
def signer(state: Path) -> Signer:
    return load_signer(state, "ledger")


def prepared(signer: Signer, given: Submission, manifest: Manifest | None = None, **stages: float) -> Prepared:
    outcome = Outcome(given, manifest, None, "", world.verdict(), {"seal": 1.0, "inspect": 2.5, **stages})
    rules = Rules(Policy(), "a" * 64, Profile(), "b" * 64, DOCS)
    return entry_body("mosaic", "drop", rules, outcome, signer, "unanchored", 1000)


def predicate(found: Prepared, number: int = 7) -> dict[str, Any]:
    statement = payload_of(found.body(LOG, number)["statement"])
    assert troubles(statement) == []
    said = statement["predicate"]
    assert isinstance(said, dict)
    return said


LATER = {"verdict-statement": {"observed", "nodes"}}
"""What statements from before it was there have not, and still count."""


# -- the schemas ------------------------------------------------------------------------------------------


@pytest.mark.parametrize("kind", KINDS)
def test_each_predicate_s_schema_is_shipped_and_closed(kind: str) -> None:
    text = (DOCS / f"{kind}.schema.json").read_text(encoding="utf-8")
    assert text == schema_text(kind)
    whole_schema = json.loads(text)
    assert whole_schema["$id"] == KINDS[kind]
    assert set(whole_schema["properties"]) - set(whole_schema["required"]) == LATER.get(kind, set())
    for name, one in {"": whole_schema, **whole_schema["$defs"]}.items():
        assert one["additionalProperties"] is False, name
    assert set(MODELS) == set(KINDS.values())


def test_a_verdict_names_whose_evidence_it_rests_on_and_one_machine_names_nobody(signer: Signer) -> None:
    alone = prepared(signer, world.submission(), world.a_manifest())
    assert "nodes" not in predicate(alone)
    assert "nodes" not in alone.body(LOG, 7)
    source = {"profile": "cpu", "node": "gpu-1", "host": "h", "key_id": "a" * 64, "statement": "b" * 64}
    outcome = Outcome(world.submission(), world.a_manifest(), None, "", world.verdict(), {}, (source,))
    rules = Rules(Policy(), "a" * 64, Profile(), "b" * 64, DOCS)
    found = entry_body("mosaic", "drop", rules, outcome, signer, "unanchored", 1000)
    assert predicate(found)["nodes"] == [source]
    body = found.body(LOG, 7)
    assert body["nodes"] == [source]
    value = payload_of(body["statement"])
    assert list(attest.statement_differences(value, "s-1", body, LOG, 7)) == []
    other = body | {"nodes": [source | {"node": "gpu-2"}]}
    assert any("nodes" in one for one in attest.statement_differences(value, "s-1", other, LOG, 7))


# -- every field ------------------------------------------------------------------------------------------


def test_a_statement_says_how_the_bundle_was_judged(signer: Signer) -> None:
    said = predicate(prepared(signer, world.submission(), world.a_manifest()))
    assert said["entry"] == {"log": LOG, "number": 7}
    (model,) = said["models"]
    assert (model["name"], model["file"]) == ("main", "model.onnx")
    assert model["declared"]["opsets"] == {"ai.onnx": 13}
    assert model["told_by_cell"]["by"] == "runtime"
    assert model["told_by_cell"]["ir_version"] == 8
    (output,) = model["declared"]["outputs"]["values"]
    labels = ["accept", "review", "reject"]
    assert output["labels"] == {"count": 3, "sha256": digest(labels)}
    rows = [{"name": "features", "type": "tensor", "dtype": "float32", "shape": ["batch", 4]}]
    assert model["declared"]["inputs"]["sha256"] == digest(rows)
    assert said["preprocessing"] == {"version": "3", "sha256": "a" * 64}
    assert said["labels"] == {"schema_version": "2"}
    (options,) = said["session_options"]
    assert options["requested"]["providers"] == ["CPUExecutionProvider"]
    assert options["session"] | {"entries": {}} == {
        "optimisation": "all", "intra_op_threads": 1, "inter_op_threads": 1, "arena": False,
        "memory_pattern": False, "spinning": False, "entries": {},
    }  # fmt: skip
    (run,) = said["runs"]
    assert run["told_by_cell"]["selected_provider"] == "CPUExecutionProvider"
    assert run["told_by_cell"]["warm_up"]["ok"] is True
    assert said["limits"]["jobs"]["run"]["cpu_seconds"] == Policy().limits.run_cpu_seconds
    assert said["limits"]["jobs"].keys() == {"manifest", "inspect", "vectors", "run"}
    assert said["stages"] == [{"stage": "seal", "ms": 1.0}, {"stage": "inspect", "ms": 2.5}]


def test_the_options_are_those_that_the_cell_sets() -> None:
    options = session.new_options()
    session.plan_memory(options)
    assert (options.enable_cpu_mem_arena, options.enable_mem_pattern) == (False, False)


def test_what_was_never_examined_has_a_statement_too(signer: Signer) -> None:
    given = Submission(id="s-1", team="mosaic", sealed=None)
    said = predicate(prepared(signer, given))
    assert (said["models"], said["runs"], said["bundle_digest"]) == ([], [], None)


def test_a_bundle_whose_manifest_could_not_be_read_is_told_as_its_inspection_found_it(signer: Signer) -> None:
    """The jobs' word for what it is called names no file: nobody has said which one it is."""
    lying = [world.inspect(model=name, facts=None) for name in ("main", "data/w.bin", "\x1b[2Jevil")]
    said = predicate(prepared(signer, world.submission([*lying, world.run(schema_=None, cases=[])]), None))
    assert [one["name"] for one in said["models"]] == ["main", "data/w.bin", "\\x1b[2Jevil"]
    assert all(one["declared"] is None for one in said["models"])
    assert {one["told_by_cell"] is None for one in said["models"]} == {True}
    assert [one["told_by_cell"] for one in said["runs"]] == [None]


def test_an_inferred_manifest_is_nobodys_word(signer: Signer) -> None:
    manifest = world.a_manifest(lambda document: document["bundle"].update(version="0+inferred"))
    said = predicate(prepared(signer, world.submission(), manifest))
    assert [one["declared"] for one in said["models"]] == [None]
    assert (said["preprocessing"], said["labels"], said["declared"]) == (None, None, None)


# -- what hostile evidence does to it ---------------------------------------------------------------------


def hostile_run(text: str, number: float) -> JobRecord:
    values = [ValueInfo(name=text, kind="tensor", dtype=text, shape=[1 << 70, -5, text]) for _ in range(100)]
    told = Schema(inputs=values, outputs=values, providers=[text] * 64, load_ms=number, runtime={})
    placed = [
        PlacedNode(provider=f"{index}{text}"[:4096], domain="", op_type=text, count=1 << 60) for index in range(80)
    ]
    cases = [case.model_copy(update={"error": text, "wall_ms": number}) for case in world.golden_cases()]
    placement = Placement(nodes=placed, selected_provider=text)
    return world.run(schema_=told, placement=placement, cases=cases)


TEXTS = ["\x1b]0;x\x07" * 500, "\u202e" * 4096, "\ufeff\u2066" * 50, "", "a" * 4096, "<script>", "\n" * 9]
NUMBERS = [math.nan, math.inf, -math.inf, -1.0, 1e300, 1e17, 1e13]


@pytest.mark.parametrize(("text", "number"), list(zip(TEXTS, NUMBERS, strict=True)), ids=range(len(TEXTS)))
def test_nothing_that_a_job_says_can_break_or_bend_the_statement(text: str, number: float, signer: Signer) -> None:
    facts = world.facts(ir_version=1 << 200, opsets={text: 1 << 80, **{str(index): 1 for index in range(900)}})
    jobs = [world.inspect(facts=facts), world.vectors(), hostile_run(text, number)]
    found = prepared(signer, world.submission(jobs), world.a_manifest())
    said = predicate(found)
    (model,) = said["models"]
    assert model["told_by_cell"]["inputs"]["count"] == 100
    assert len(model["told_by_cell"]["inputs"]["values"]) == 64
    assert said["runs"][0]["told_by_cell"]["load_ms"] is None
    payload = json.dumps(said, ensure_ascii=False)
    assert not any(ord(char) < 32 or 0x202A <= ord(char) <= 0x202E for char in payload)
    assert len(payload) < 1 << 20


@given(st.text(max_size=400), st.floats(), st.integers())
@settings(max_examples=30, deadline=None)
def test_every_value_fits_its_field(text: str, number: float, count: int) -> None:
    assert word(text).isprintable()
    assert len(word(text)) <= 201
    told = milliseconds(number)
    assert told is None or 0 <= told <= 1e12
    assert (0 <= bounded < 2**53) if isinstance(bounded := whole(count), int) else bounded.isdecimal()
    assert isinstance(size := dimension(count), str) or 0 <= size < 2**53


def test_a_statement_that_does_not_fit_its_schema_is_never_signed(signer: Signer) -> None:
    found = prepared(signer, world.submission(), world.a_manifest())
    found._said["walls"]["seccomp"] = "perhaps"
    with pytest.raises(InternalError, match=r"walls\.seccomp"):
        found.body(LOG, 7)


# -- the audience -----------------------------------------------------------------------------------------


@pytest.mark.parametrize("variant", ["heldout", "prior", "timed-prior", "profiled", "unoptimised"])
def test_no_other_run_than_that_of_the_goldens_is_in_it(variant: Any, signer: Signer) -> None:
    marked = world.run(variant=variant, wall_s=0.077777, cpu_s=0.077777, peak_rss_bytes=77_777_777)
    given = world.submission([world.inspect(), world.vectors(), marked, world.run()])
    text = json.dumps(predicate(prepared(signer, given, world.a_manifest())))
    assert "77777" not in text
    shown = world.run(wall_s=0.077777)
    given = world.submission([world.inspect(), world.vectors(), shown])
    assert "77.777" in json.dumps(predicate(prepared(signer, given, world.a_manifest())))  # the same look finds it


# -- the entry --------------------------------------------------------------------------------------------


def test_a_statement_counts_for_its_own_entry_of_its_own_log_alone(signer: Signer, state: Path) -> None:
    body = prepared(signer, world.submission(), world.a_manifest()).body(LOG, 7)
    value = attest.verify_statement(body["statement"], load_keyring(state))

    def told(log: str, number: int) -> list[str]:
        return list(attest.statement_differences(value, world.submission().id, body, log, number))

    assert told(LOG, 7) == []
    assert [one.partition(" ")[0] for one in told(LOG, 8)] == ["entry"]
    assert [one.partition(" ")[0] for one in told("acceptd/" + "cd" * 16, 7)] == ["entry"]
    del value["predicate"]["entry"]
    assert told(LOG, 7)


def test_an_entry_that_comes_between_does_not_make_the_number_a_lie(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The number is signed before the log is locked for writing; somebody else may append until then."""
    create_keys(tmp_path)
    with Ledger.open(tmp_path) as ledger:
        queue = Queue(ledger)
        recording = Recording(ledger, queue, load_signer(tmp_path, "ledger"), KnownRules(ledger))
        rules = Rules(Policy(), "a" * 64, Profile(), "b" * 64, DOCS)
        tree = Ledger.tree

        def overtaken(self: Ledger) -> Any:
            head = tree(self)
            if "overtake" in names:
                names.clear()
                ledger.append("revoked", {"digest": "ab" * 32, "reason": "meanwhile"})
            return head

        monkeypatch.setattr(Ledger, "tree", overtaken)
        for name in ("quiet", "overtake"):
            names = {name}
            row: Any = queue.add(name, team="mosaic", name="d", path="/p", kind="directory")
            row = queue.get(name)
            refused = outcomes.refused(
                rules, name, "mosaic", SealFailure(code="seal/link", where="x", message="y")
            )
            recording.record(row, rules, refused)
            names = set()
        monkeypatch.undo()
        verdicts = {entry.submission: entry for entry in ledger.entries(kind="verdict")}
        for entry in verdicts.values():
            said = payload_of(entry.body["statement"])["predicate"]["entry"]
            assert said == {"log": ledger.origin, "number": entry.seq}
        assert verdicts["overtake"].seq - verdicts["quiet"].seq == 2
    assert audit.verify(tmp_path) == []


def test_an_old_statement_names_none_and_still_counts(signer: Signer, state: Path) -> None:
    old = attest.verdict_statement(
        submission="s-1", verdict="accepted", bundle_id="mosaic/m", bundle_digest="ab" * 32, files=[], findings=[],
        predicate={"policy": "strict"},
    )  # fmt: skip
    value = attest.verify_statement(attest.sign_statement(old, signer), load_keyring(state))
    body = {"verdict": "accepted", "findings": [], "bundle_digest": "ab" * 32, "policy": "strict"}
    assert list(attest.statement_differences(value, "s-1", body, LOG, 7)) == []


def properties(schema: dict[str, Any]) -> Iterator[str]:
    for one in (schema, *schema["$defs"].values()):
        yield from one.get("properties", {})


@pytest.mark.parametrize("kind", KINDS)
def test_the_page_explains_every_field(kind: str) -> None:
    page = (DOCS / "statements.md").read_text(encoding="utf-8")
    schema = json.loads(schema_text(kind))
    missing = sorted({name for name in properties(schema) if f"`{name}`" not in page})
    assert missing == []
    assert KINDS[kind] in page
