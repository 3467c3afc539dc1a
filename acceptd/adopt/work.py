"""From what was found to bundles, verdicts and contracts: side by side, and none that fails stops another one."""

from __future__ import annotations

import contextlib
import json
import queue
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Final

from acceptd import __version__, local
from acceptd.adopt import goldens
from acceptd.adopt.find import Found, names
from acceptd.adopt.place import Kept, Place, Record, digest, digest_or_none, put_text, regular
from acceptd.adopt.rows import Row, judged, needs
from acceptd.bundling import start
from acceptd.bundling.listing import Listing, listed, speakable
from acceptd.bundling.propose import Proposal, Wishes
from acceptd.bundling.readback import MANIFEST_FILE
from acceptd.bundling.stage import Room, beneath, copy_file
from acceptd.contracts import propose as contracts
from acceptd.errors import AcceptdError, NoThreadError, UsageError
from acceptd.intake.paths import shown
from acceptd.local import Bench
from acceptd.outcomes import Outcome
from acceptd.threads import Thread
from acceptd.verdicts import report_of

WHOLE: Final = (0, 1)
"""The range that is guessed for inputs of whole numbers: every index allows it."""
SIZES: Final = frozenset({"behaviour/probe-error", "run/failed"})
"""What a refusal for guessed sizes looks like."""
SHAPES: Final = frozenset({"schema/output-shape", "schema/runtime-disagrees"})
"""And one for names of dimensions that are none."""


@dataclass(frozen=True, slots=True)
class _New:
    """What a proposal came to: digests of what was read, guesses, what to say of golden sets, its judgement."""

    sources: dict[str, str]
    guessed: list[str]
    said: str
    outcome: Outcome | None = None


@dataclass(frozen=True, slots=True)
class Adoption:
    """One run. ``root`` is what is adopted, and is only read; ``team`` is whose the models are to be."""

    bench: Bench
    root: Path
    place: Place
    team: str
    lanes: int

    def run(self, found: Sequence[Found], done: Callable[[Row], None] = lambda _row: None) -> list[Row]:
        """Adopt everything; ``done`` is called from this thread as each ends. Return the rows by path.

        The record is written after each, so that a run that was killed goes on where it stopped.
        """
        before = {one.path: one for one in self.place.read().models}
        named = names(found, {path: one.name for path, one in before.items()})
        crowded = _crowded(found)
        kept: dict[str, Kept] = dict(before)
        rows: list[Row] = []
        todo: queue.SimpleQueue[tuple[Found, str, Kept | None, bool]] = queue.SimpleQueue()
        ended: queue.SimpleQueue[Kept] = queue.SimpleQueue()
        for one in found:
            todo.put((one, named.get(one.path, ""), before.get(one.path), one.path in crowded))

        def work() -> None:
            with contextlib.suppress(queue.Empty):
                while True:
                    ended.put(self._one(*todo.get_nowait()))

        # After an interrupt nobody waits for them, and whoever closes the cell ends what runs there.
        for number in range(self.lanes):
            try:
                Thread(work, name=f"adopt-{number}").start()
            except NoThreadError:
                if not number:
                    raise
                break  # the others do it all
        for _ in found:
            made = ended.get()
            row = Row.model_validate(made.row)
            rows.append(row)
            if row.state != "skipped":
                kept[made.path] = made
                self._keep(kept)
            done(row)
        self._keep(kept)
        return sorted(rows, key=lambda row: row.path)

    def _keep(self, kept: Mapping[str, Kept]) -> None:
        models = [kept[path] for path in sorted(kept)]
        self.place.write(Record(acceptd=__version__, root=shown(str(self.root.resolve())), models=models))

    # -- one of them, in a thread ---------------------------------------------------------------------------

    def _one(self, one: Found, name: str, before: Kept | None, crowded: bool) -> Kept:
        began = time.monotonic()
        row = Row(path=one.path, kind=one.kind, state="failed", name=name, reason=one.why)
        if one.kind == "skipped":
            return Kept(
                path=one.path, name="skipped", row=row.model_copy(update={"state": "skipped"}).model_dump()
            )
        known = before or Kept(path=one.path, name=name)
        try:
            made, row = self._made(one, row, known, first=before is None, crowded=crowded)
        except (AcceptdError, OSError) as error:
            made, row = known, row.model_copy(update={"reason": _said(error)})
        except Exception as error:  # noqa: BLE001 - one model never ends the others
            made = known
            row = row.model_copy(update={"reason": f"internal error: {type(error).__name__}: {error}"[:400]})
        row = row.model_copy(update={"seconds": round(time.monotonic() - began, 3)})
        return _recorded(made.model_copy(update={"row": row.model_dump()}), known, row)

    def _made(self, one: Found, row: Row, known: Kept, *, first: bool, crowded: bool) -> tuple[Kept, Row]:
        edited = self.place.edited(known.name, known.files) if known.files else None
        outcome: Outcome | None = None
        if edited is not None and self._same(known.sources):
            said = str(known.row.get("said", ""))
            row = row.model_copy(update={"state": "unchanged", "edited": list(edited), "said": said})
        else:
            with self.place.staging(known.name) as fresh:
                new = (
                    self._copied(one, fresh)
                    if one.kind == "bundle"
                    else self._proposed(one, known, fresh, crowded)
                )
                merged = self.place.merge(fresh, known.name, known.files)
            known = known.model_copy(
                update={"sources": new.sources, "files": merged.files, "guessed": new.guessed}
            )
            state = "made" if first else "refreshed"
            row = row.model_copy(update={"state": state, "edited": list(merged.edited), "said": new.said})
            outcome = new.outcome if first else None  # what a person added or changed is judged with it
        if outcome is None:
            outcome = local.examine_one(self.bench, self.place.bundle(known.name))
        row = judged(row, report_of(self.bench.rules, outcome))
        known, row = self._contract(known, row, outcome)
        guessed = [] if MANIFEST_FILE in row.edited else known.guessed
        return known, row.model_copy(update={"needs": needs(outcome.manifest, row, guessed)})

    def _same(self, sources: Mapping[str, str]) -> bool:
        return bool(sources) and all(digest_or_none(self.root / path) == made for path, made in sources.items())

    def _proposed(self, one: Found, known: Kept, fresh: Path, crowded: bool) -> _New:
        """Make a bundle of one model: of several trials the first that is not refused for its sizes."""
        folder, _, file = one.path.rpartition("/")
        with _held(self.root, folder) as home:
            return self._tried(home, folder, file, known, fresh, crowded)

    def _tried(self, home: Path, folder: str, file: str, known: Kept, fresh: Path, crowded: bool) -> _New:
        """Make it of ``file`` in ``home``, which is ``folder`` of the root, whatever lies there by now."""
        most = self.bench.rules.policy.limits.files
        todo = start.plan([home / file], fresh, most=most, force=False)
        if todo.listing.followed:
            raise UsageError(f"{shown(file)} is a link by now", remedy="no link is followed")
        if crowded:  # golden sets beside several models are nobody's
            only = {path: todo.listing.files[path] for path in todo.models}
            todo = replace(todo, listing=Listing(todo.root, only, todo.listing.special))
        wishes = Wishes(id=f"{self.team}/{known.name}", whole=WHOLE)
        made = start.start(self.bench, todo, wishes, force=False)
        sources = {
            f"{folder}/{path}" if folder else path: digest(fresh / path)
            for path in regular(fresh)
            if path != MANIFEST_FILE
        }
        for trial in goldens.trials(self.bench, fresh, made, wishes):
            outcome = local.examine_one(self.bench, fresh) if trial.made or trial.last else None
            if trial.last or (outcome is not None and not _refused_for(outcome, SIZES)):
                break
        if outcome is not None and _refused_for(outcome, SHAPES) and not made.looked.goldens.names:
            trial = goldens.loosened(self.bench, fresh, made, wishes)
            outcome = local.examine_one(self.bench, fresh)
        if trial.evaluated and outcome is not None and (other := _other_values(outcome)):
            trial = goldens.regression(self.bench, fresh, made, trial, other)
            outcome = local.examine_one(self.bench, fresh)
        guessed = [text for text in trial.proposal.fill_in if text.startswith("dims")]
        if whole := _whole(trial.proposal):
            guessed.append(f"ranges of whole numbers, guessed as 0 and 1: {whole}")
        guessed += [f"left out of the manifest: {text}" for text in trial.proposal.left_out]
        return _New(sources, guessed, trial.said, outcome)

    def _copied(self, one: Found, fresh: Path) -> _New:
        """Copy a bundle as it is; it has a manifest, and what it has of golden sets is its own."""
        with _held(self.root, one.path) as home:
            return self._whole(home, one, fresh)

    def _whole(self, home: Path, one: Found, fresh: Path) -> _New:
        listing = listed(home, self.bench.rules.policy.limits.files)
        if listing.special:
            raise UsageError(
                f"{shown(listing.special[0])} is a link or no regular file",
                remedy="put a copy of the file in its place",
            )
        limits = self.bench.rules.policy.limits
        speakable(listing.files, limits)
        room = Room(limits)
        fresh.mkdir(parents=True)
        for path in listing.files:
            (fresh / path).parent.mkdir(parents=True, exist_ok=True)
            copy_file(home, path, fresh / path, room, mode=0o644)
        sources = {f"{one.path}/{path}": digest(fresh / path) for path in listing.files}
        return _New(sources, [], "as they were in the bundle")

    def _contract(self, known: Kept, row: Row, outcome: Outcome) -> tuple[Kept, Row]:
        """Propose a contract from what was declared and measured, where the bundle is not refused."""
        submission, judgement, manifest = outcome.submission, outcome.judgement, outcome.manifest
        if judgement.verdict not in {"accepted", "held"} or manifest is None or submission.inferred:
            return known, row
        path = self.place.contract(manifest.bundle.id)
        if row.state == "unchanged" and digest_or_none(path) is not None:
            return known, row.model_copy(update={"contract": True})
        assert submission.sealed is not None
        what = f"a check of the bundle {submission.sealed.digest[:16]}, which came to: {judgement.verdict}"
        basis = contracts.Basis(manifest, submission, self.bench.rules.policy, what, now=outcome.contract)
        made, theirs = put_text(path, contracts.proposal(basis), known.contract)
        edited = [*row.edited, str(path.relative_to(self.place.home))] if theirs else row.edited
        return known.model_copy(update={"contract": made}), row.model_copy(
            update={"contract": True, "edited": edited}
        )


@contextlib.contextmanager
def _held(root: Path, folder: str) -> Iterator[Path]:
    """Yield a path that stays ``folder`` of the root, whoever may write there; errors name the folder itself."""
    with beneath(root, folder) as descriptor:
        home = f"/proc/self/fd/{descriptor}"
        try:
            yield Path(home)
        except UsageError as error:
            message = error.message.replace(home, shown(folder) or ".")
            raise UsageError(message, remedy=error.remedy) from error


def _recorded(made: Kept, known: Kept, row: Row) -> Kept:
    """Return what goes on record: where it would not read back, what was ``known``, and a row that says so.

    One name that the record cannot hold would have every later run refuse the whole record.
    """
    try:
        Kept.model_validate_json(json.dumps(made.model_dump(mode="json")))
    except ValueError:
        why = "it has names that no record of an adoption can hold"
        told = Row(path=row.path, kind=row.kind, state="failed", name=row.name, reason=why, seconds=row.seconds)
        return known.model_copy(update={"row": told.model_dump()})
    return made


def _refused_for(outcome: Outcome, codes: frozenset[str]) -> bool:
    """Say whether it is refused for what was guessed in the proposal, by the codes that show it."""
    return any(one.severity == "reject" and one.code in codes for one in outcome.judgement.findings)


def _other_values(outcome: Outcome) -> str:
    """Return how the runtime's values are refused against the golden sets; empty where they are not."""
    findings = outcome.judgement.findings
    return next(
        (one.message for one in findings if one.severity == "reject" and one.code.startswith("parity/")), ""
    )


def _whole(proposal: Proposal) -> str:
    inputs = [port for model in proposal.manifest.models for port in model.inputs]
    return ", ".join(port.name for port in inputs if port.range is not None)


def _crowded(found: Sequence[Found]) -> set[str]:
    """Return the models that do not lie alone in their directory."""
    by: dict[str, list[str]] = {}
    for one in found:
        if one.kind == "model":
            by.setdefault(one.path.rpartition("/")[0], []).append(one.path)
    return {path for paths in by.values() if len(paths) > 1 for path in paths}


def _said(error: AcceptdError | OSError) -> str:
    remedy = getattr(error, "remedy", "")
    text = getattr(error, "message", "") or str(error)
    return f"{text} ({remedy})" if remedy else text
