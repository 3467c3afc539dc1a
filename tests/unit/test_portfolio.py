"""The portfolio: every model once a place, what needs a person first, and nothing that is not on record."""

from __future__ import annotations

import io
import json
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from rich.console import Console
from sqlalchemy import event

from acceptd.cli.portfolio import print_portfolio
from acceptd.contracts.propose import text_of
from acceptd.policy.names import valid_model_id
from acceptd.portfolio.facts import Agreement, Facts, InForce, Judged, ProfileWord, Promise
from acceptd.portfolio.notes import RANKS, WORDS, span
from acceptd.portfolio.read import read_portfolio
from acceptd.portfolio.rows import Portfolio, Row, assemble, last_words
from acceptd.record.canonical import digest
from acceptd.record.entry import Entry
from acceptd.release.book import Book
from acceptd.review import decision as decisions
from tests.contract_world import ADA, BEN, EVE, Instance, Person, a_contract, an_instance
from tests.report_world import HOSTILE

pytestmark = pytest.mark.unit

NOW = "2026-11-30T09:00:00Z"
SOON, LATER, GONE = "2026-12-05T09:00:00Z", "2027-06-01T00:00:00Z", "2026-11-28T09:00:00Z"
MONTH = 30 * 86_400
M = "mosaic/evidence-disposition"
RULES = InForce("default", "cd" * 32, "production", frozenset({"production"}))


def judged(seq: int, verdict: str = "accepted", **changes: Any) -> Judged:
    made = Judged(
        seq, f"s-{seq}", verdict, "as it is", "2026-11-20T12:00:00Z", f"{seq:064x}", "1.0.0", "default", "cd" * 32,
        "", (ProfileWord("cpu", verdict),),
    )  # fmt: skip
    return replace(made, **changes)


def promise(seq: int, expires: str, entry: int = 50, **changes: Any) -> Promise:
    made = Promise("waive", M, "production", "ada", ("contract/missing",), expires, f"s-{seq}", seq, entry)
    return replace(made, **changes)


class Told:
    """A book that is told entries, as a ledger would."""

    def __init__(self) -> None:
        self.book, self.seq = Book(), 100

    def entry(self, type_: str, **body: Any) -> Told:
        self.seq += 1
        self.book.add(Entry(self.seq, type_, "2026-11-21T00:00:00Z", None, body, b"", b""))
        return self

    def release(self, number: int, verdict: Judged, channel: str = "production", **more: Any) -> Told:
        place = {"model": M, "channel": channel, "number": number}
        self.entry("intent", **place, digest=verdict.bundle_digest, verdict_seq=verdict.seq, **more)
        return self.entry("activated", **place, release_digest="ee" * 32)


def shown(facts: Facts, **more: Any) -> Portfolio:
    return assemble(facts, at=NOW, within_seconds=MONTH, **more)


def one_row(facts: Facts) -> Row:
    (row,) = shown(facts).rows
    return row


def codes(facts: Facts) -> list[str]:
    return [note.code for note in one_row(facts).notes]


def promoted(verdict: Judged, told: Told | None = None, **more: Any) -> Facts:
    told = told or Told().release(1, verdict)
    return Facts(
        told.book, resting={verdict.seq: verdict}, newest={M: verdict}, accepted={M: verdict}, rules=RULES, **more
    )


def test_a_release_in_order_shows_its_acceptance_and_nothing_to_do() -> None:
    row = one_row(promoted(judged(1)))
    assert (row.channel, row.number, row.digest, row.profile) == ("production", 1, f"{1:064x}", "cpu")
    assert row.judged == judged(1)
    assert (row.newest, row.notes, row.needs_attention) == (None, (), False)


def test_a_model_that_nobody_promoted_is_there_too() -> None:
    row = one_row(Facts(Book(), newest={M: judged(3, "rejected")}, rules=RULES))
    assert (row.channel, row.number, row.judged) == ("", None, None)
    assert [note.code for note in row.notes] == ["rejected"]
    assert "s-3 rejected 2026-11-20: as it is" in row.notes[0].text


@pytest.mark.parametrize("word", ["rejected", "held", "inconclusive"])
def test_a_newer_verdict_that_is_no_acceptance_stands_beside_the_release(word: str) -> None:
    facts = replace(promoted(judged(1)), newest={M: judged(2, word)})
    assert codes(facts) == [word]
    assert one_row(facts).judged == judged(1)


def test_a_held_bundle_that_people_approved_and_promoted_waits_for_nobody() -> None:
    assert codes(replace(promoted(judged(1, "held")), accepted={})) == []


def test_a_held_bundle_that_a_person_rejected_does_not_wait_for_one() -> None:
    said = promise(2, LATER, kind="reject", codes=())
    facts = replace(promoted(judged(1)), newest={M: judged(2, "held")}, promises=(said,))
    (note,) = one_row(facts).notes
    assert (note.code, note.text) == ("rejected", "s-2 held, and rejected by ada")


def test_an_acceptance_that_did_not_come_to_an_automatic_channel_is_told() -> None:
    later = replace(promoted(judged(1)), newest={M: judged(2)}, accepted={M: judged(2)})
    assert codes(later) == ["not-promoted"]
    by_hand = replace(later, rules=replace(RULES, automatic=frozenset()))
    assert codes(by_hand) == []


def test_what_is_only_observed_asks_nobody_for_a_decision_and_misses_no_promotion() -> None:
    refused = Facts(Book(), newest={M: judged(3, "held", observed=True)}, rules=RULES)
    (note,) = one_row(refused).notes
    assert (note.code, note.attention) == ("would-refuse", True)
    assert note.text == "s-3 would be held 2026-11-20: as it is"
    good = judged(4, observed=True)
    assert codes(Facts(Book(), newest={M: good}, accepted={M: good}, rules=RULES)) == []


def test_what_was_rolled_back_is_not_called_unpromoted() -> None:
    old, new = judged(1), judged(2)
    told = Told().release(1, old).release(2, new).release(3, old, kind="rollback", reason="slow")
    facts = replace(promoted(old, told), newest={M: new}, accepted={M: new})
    (note,) = one_row(facts).notes
    assert (note.code, note.attention) == ("rolled-back", False)
    assert note.text.endswith("slow")


def test_a_revoked_bundle_that_is_still_current_comes_first() -> None:
    told = Told().release(1, judged(1)).entry("revoked", digest=f"{1:064x}", reason="it bites")
    told.entry("frozen", model=M, channel="production", reason="a change week")
    row = one_row(promoted(judged(1), told))
    assert [note.code for note in row.notes] == ["revoked", "frozen"]
    assert (row.revoked, row.frozen) == ("it bites", ("a change week",))


def test_a_freeze_of_all_models_is_no_reason_to_look_at_each() -> None:
    told = Told().release(1, judged(1)).entry("frozen", channel="production", reason="the end of the year")
    assert not one_row(promoted(judged(1), told)).needs_attention


def test_a_pin_is_told_where_the_pinned_bundle_is_current_alone() -> None:
    told = Told().release(1, judged(1))
    told.entry("pinned", model=M, channel="production", digest=f"{1:064x}", reason="the trial runs")
    assert one_row(promoted(judged(1), told)).pinned == "the trial runs"
    told.release(2, judged(2))
    assert one_row(promoted(judged(2), told)).pinned == ""


@pytest.mark.parametrize(
    ("expires", "code"), [(SOON, ["waiver-expiring"]), (GONE, ["waiver-expired"]), (LATER, [])]
)
def test_a_waiver_is_told_as_long_before_and_after_its_end_as_asked(expires: str, code: list[str]) -> None:
    assert codes(promoted(judged(1), promises=(promise(1, expires),))) == code


def test_a_waiver_that_the_same_person_renewed_does_not_run_out() -> None:
    both = (promise(1, SOON, 50), promise(1, LATER, 60))
    assert codes(promoted(judged(1), promises=both)) == []
    other = (both[0], replace(both[1], reviewer="ben"))
    assert codes(promoted(judged(1), promises=other)) == ["waiver-expiring"]


def test_a_renewal_for_some_codes_leaves_the_others_running_out() -> None:
    old = promise(1, SOON, 50, codes=("contract/missing", "run/slow"))
    assert [one.codes for one in last_words([old, promise(1, LATER, 60)])] == [
        ("run/slow",),
        ("contract/missing",),
    ]


@pytest.mark.parametrize("kind", ["approve", "attest", "break-glass"])
def test_what_was_said_for_a_promotion_is_told_until_it_is_promoted(kind: Any) -> None:
    said = promise(2, SOON, kind=kind, codes=())
    waits = replace(promoted(judged(1)), newest={M: judged(2, "held")}, promises=(said,))
    assert codes(waits) == ["held", "approval-expiring"]
    done = replace(promoted(judged(2, "held")), accepted={}, promises=(said,))
    assert codes(done) == []


@pytest.mark.parametrize(
    ("contract", "code"),
    [
        (Agreement("signed", 3, "", SOON), ["contract-expiring"]),
        (Agreement("signed", 3, "", GONE), ["contract-expired"]),
        (Agreement("unverified", reason="entry 9 is signed by nobody"), ["contract-refused"]),
        (Agreement("refused", reason="line 3"), ["contract-refused"]),
        (Agreement("signed", 3, "ab" * 32, LATER), ["contract-superseded"]),
        (Agreement("signed", 3, "99" * 32, LATER), []),
    ],
)
def test_what_a_contract_needs_is_told(contract: Agreement, code: list[str]) -> None:
    assert codes(promoted(judged(1, contract_digest="99" * 32), contracts={M: contract})) == code


def test_another_policy_and_a_profile_that_did_not_accept_are_told() -> None:
    words = (ProfileWord("cpu", "accepted"), ProfileWord("ort-1.24", "rejected", required=False))
    facts = promoted(judged(1, profiles=words, policy_digest="00" * 32))
    first, second = shown(facts).rows
    assert [note.code for note in first.notes] == ["policy-changed"]
    assert [note.code for note in second.notes] == ["profile", "policy-changed"]
    assert "rejected under ort-1.24, which is optional" in second.notes[0].text


def test_what_is_most_urgent_comes_first_and_a_team_sees_its_own() -> None:
    told = Told().release(1, judged(1)).entry("revoked", digest=f"{1:064x}", reason="it bites")
    other = {"aaa/calm": judged(7), "zzz/held": judged(8, "held"), M: judged(1)}
    facts = replace(promoted(judged(1), told), newest=other, accepted={M: judged(1), "aaa/calm": judged(7)})
    facts = replace(facts, rules=None)
    assert [row.model_id for row in shown(facts).rows] == [M, "zzz/held", "aaa/calm"]
    assert [row.model_id for row in shown(facts, team="zzz").rows] == ["zzz/held"]
    assert list(shown(facts).counts()) == ["revoked", "held"]


def test_every_code_has_words_and_every_row_is_json() -> None:
    assert RANKS.keys() == WORDS.keys()
    told = json.loads(json.dumps(shown(promoted(judged(1), promises=(promise(1, SOON),))).as_json()))
    (row,) = told["rows"]
    assert (row["attention"], row["notes"][0]["code"], row["promises"][0]["expires_at"]) == (
        True, "waiver-expiring", SOON,
    )  # fmt: skip


@pytest.mark.parametrize(
    ("seconds", "words"),
    [
        (5 * 86_400 + 7, "in 5 days"), (86_400, "in 1 day"), (7200, "in 2 hours"), (60, "within the hour"),
        (0, "just now"), (-7200, "2 hours ago"), (-3 * 86_400, "3 days ago"),
    ],
)  # fmt: skip
def test_times_are_told_in_words(seconds: float, words: str) -> None:
    assert span(seconds) == words


# -- at a terminal ----------------------------------------------------------------------------------------


def printed(found: Portfolio, **options: bool) -> list[str]:
    out = io.StringIO()
    print_portfolio(Console(file=out, width=80, markup=False, highlight=False), found, **options)
    return out.getvalue().splitlines()


def fleet(count: int, refused: int) -> Facts:
    """Return ``count`` models of ten teams; the newest verdict of the first ``refused`` is a rejection."""
    names = [f"team-{number % 10}/{'long-model-name-' * 2}{number:03d}" for number in range(count)]
    newest = {name: judged(at, "rejected" if at < refused else "accepted") for at, name in enumerate(names)}
    accepted = {name: judged(at) for at, name in enumerate(names) if at >= refused}
    return Facts(Book(), newest=newest, accepted=accepted)


def test_two_hundred_models_fold_to_a_page() -> None:
    lines = printed(shown(fleet(200, 3)))
    assert lines[0].startswith("200 models, 3 to look at")
    assert max(map(len, lines)) <= 80
    assert len(lines) < 40
    assert "197 in order; --all lists them, --team one team's" in lines
    assert len(printed(shown(fleet(200, 3)), every=True)) > 200


def test_where_everything_is_wrong_the_first_are_shown_whole_and_the_others_in_a_line_each() -> None:
    lines = printed(shown(fleet(120, 120)))
    assert max(map(len, lines)) <= 80
    assert sum("! s-" in one for one in lines) == 40
    assert any(one.startswith("80 more; --all shows them whole") for one in lines)
    assert sum("newest rejected" in one for one in lines) == 1 + 80


def test_an_empty_ledger_says_so_and_what_is_refused_is_told() -> None:
    assert printed(shown(Facts(Book(), troubles=("the policy is refused",)))) == [
        "no model was judged yet", "! the policy is refused",
    ]  # fmt: skip


# -- out of a ledger ------------------------------------------------------------------------------------


@pytest.fixture
def instance(tmp_path: Path) -> Iterator[Instance]:
    made = an_instance(tmp_path)
    (made.home / "policies" / "default.toml").write_text('schema = 1\nname = "default"\n')
    yield made
    made.ledger.close()


def enter(instance: Instance, submission: str, verdict: str = "accepted", model: str = M, **more: Any) -> Entry:
    body = {
        "verdict": verdict, "judged_at": "2026-11-20T12:00:00Z", "reason": "as it is", "findings": [],
        "team": model.partition("/")[0], "model": model, "version": "1.0.0",
        "bundle_digest": digest([submission]), "policy": "default", "policy_digest": "cd" * 32,
        "contract_digest": None, "profile": "cpu", "profile_digest": "ef" * 32, "profiles_digest": None,
        "profiles": [{"profile": "cpu", "required": True, "verdict": verdict}], **more,
    }  # fmt: skip
    return instance.ledger.entry(instance.ledger.append("verdict", body, submission=submission).seq)


def decide(instance: Instance, about: Entry, who: Person, *, expires: str = SOON, **more: Any) -> None:
    terms: dict[str, Any] = {"channel": "production", "reason": "looked at", "expires_at": expires}
    said = decisions.about(about, instance.ledger.origin, more.pop("word", "waive"), **terms, **more)
    envelope = decisions.sign(decisions.to_sign(said), who[0])
    body = {
        "decision": said.decision, "verdict_seq": about.seq, "model": M, "reviewer": who[1].name,
        "reason": said.reason, "nonce": said.nonce, "envelope": envelope,
    }  # fmt: skip
    instance.ledger.append("decision", body, submission=about.submission)


def read(instance: Instance, **more: Any) -> Portfolio:
    return read_portfolio(instance.ledger, instance.home / "policies", "default", at=NOW, **more)


def test_verdicts_waivers_and_contracts_come_out_of_a_ledger(instance: Instance) -> None:
    first = enter(instance, "s-1", "held")
    enter(instance, "s-2")
    enter(instance, "s-3", "rejected")
    enter(instance, "other-1", model="mosaic/other")
    decide(instance, first, ADA, codes=("contract/missing",))
    instance.install(instance.signed(a_contract().model_copy(update={"valid_until": SOON}), ADA))
    rows = {row.model_id: row for row in read(instance).rows}
    row = rows[M]
    assert row.judged is not None
    assert row.newest is not None
    assert (row.judged.submission, row.newest.submission) == ("s-2", "s-3")
    told = {note.code for note in row.notes}
    assert told >= {"rejected", "waiver-expiring", "contract-expiring", "contract-superseded", "policy-changed"}
    assert [note.code for note in rows["mosaic/other"].notes] == ["not-promoted", "policy-changed"]


def test_a_word_that_does_not_count_is_not_shown(instance: Instance) -> None:
    """Signed by the submitting team, by nobody who is a reviewer, or moved to another verdict."""
    about, other = enter(instance, "s-1", "held"), enter(instance, "s-2", "held")
    decide(instance, about, EVE, codes=("run/crash",))
    decide(instance, about, ADA, codes=("run/slow",))
    moved = next(one for one in instance.ledger.entries(kind="decision") if one.body["reviewer"] == "ada")
    forged = {**moved.body, "nonce": "0" * 32, "verdict_seq": other.seq}
    instance.ledger.append("decision", forged, submission="s-2")
    waivers = [one.codes for one in read(instance).rows[0].promises]
    assert waivers == [("run/slow",)]
    (instance.home / "policies" / "reviewers.toml").write_text("schema = 1\n")
    assert all(not row.promises for row in read(instance).rows)


def test_what_is_refused_is_told_and_the_rest_is_shown(instance: Instance) -> None:
    decide(instance, enter(instance, "s-1"), BEN, codes=("run/slow",))
    place = instance.home / "policies" / "contracts" / f"{M}.toml"
    place.parent.mkdir(parents=True)
    place.write_text(text_of(a_contract(), []) + "\nnot = [toml", encoding="utf-8")
    (row,) = read(instance).rows
    assert "contract-refused" in {note.code for note in row.notes}
    for name in ("reviewers.toml", "default.toml"):
        (instance.home / "policies" / name).write_text("schema = [", encoding="utf-8")
    found = read(instance)
    first, second = found.troubles
    assert first.startswith("the policy is refused, ")
    assert second.startswith("the reviewers are refused, ")
    assert found.rows[0].judged is not None
    assert not found.rows[0].promises


def test_the_number_of_queries_does_not_follow_the_number_of_verdicts(instance: Instance) -> None:
    def queries() -> int:
        count = 0

        def one(*_: Any) -> None:
            nonlocal count
            count += 1

        with instance.ledger.reading() as connection:
            engine = connection.engine
        event.listen(engine, "before_cursor_execute", one)
        try:
            read(instance)
        finally:
            event.remove(engine, "before_cursor_execute", one)
        return count

    for number in range(3):
        enter(instance, f"s-{number}")
    read(instance)  # the book is folded once, and kept
    enter(instance, "s-3")
    few = queries()
    for number in range(4, 40):
        enter(instance, f"s-{number}")
    assert queries() == few


@pytest.mark.parametrize("kind", sorted(set(HOSTILE) - {"lone surrogates", "very long", "empty", "NUL"}))
def test_a_hostile_model_id_never_becomes_a_row_with_a_team_of_its_own(kind: str) -> None:
    """The grammar keeps such names out of a ledger; a database that was edited must not break the page."""
    with pytest.raises(ValueError, match="is no"):
        valid_model_id(HOSTILE[kind])
    facts = Facts(Book(), newest={HOSTILE[kind]: judged(1, "rejected")})
    assert json.loads(json.dumps(shown(facts).as_json()))["rows"][0]["model_id"] == HOSTILE[kind]
