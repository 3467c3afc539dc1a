"""What production records of a run, and how a record is run again: receipts of one session's outputs.

    with Request(session, request_id, raw_input=body, preprocessing=DIGEST, deadline_ms=50) as request:
        with request.preprocessing():
            tensor = prepare(body)
        outputs = request.run({"features": tensor})
        with request.postprocessing():
            label = request.decide(threshold=0.7)
    append("/var/log/model/receipts.jsonl", request.receipt)  # also after an error: try ... finally

A receipt holds digests, names, times and the label that was decided; never an element of a tensor or an error's
message.
"""

from __future__ import annotations

import contextlib
import hashlib
import hmac
import time
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from types import TracebackType
from typing import TYPE_CHECKING, Any, Final

from acceptd.errors import InvalidInputError, InvalidOutputError, PreprocessingMismatchError, ReplayRefusedError
from acceptd.loader_values import value_digest
from acceptd.release.opened import Verified
from acceptd.release.receipt import (
    ERROR_CLASS,
    MAX_MICROSECONDS,
    Beside,
    Decision,
    Durations,
    Receipt,
    decimal,
    folded,
    make_receipt,
    parse,
    preprocessing_digest,
)

if TYPE_CHECKING:
    from acceptd.loader_session import Outputs, Session

_PHASES: Final = ("queue", "preprocess", "run", "postprocess")


def digests(values: Mapping[str, Any]) -> dict[str, str]:
    """Return the tensor digests of what was fed or came out, by name."""
    return {name: value_digest(value) for name, value in values.items()}


def raw_digest(raw: bytes | str | None) -> str | None:
    """Return the SHA-256 of a caller's bytes; a digest (64 hex digits), and None, as they are."""
    return hashlib.sha256(raw).hexdigest() if isinstance(raw, bytes | bytearray | memoryview) else raw


def check_preprocessing(release: Verified, given: str | None) -> None:
    """Raise PreprocessingMismatchError unless ``given`` is the SHA-256 that the release's manifest declares."""
    declared = preprocessing_digest(release.manifest)
    if not hmac.compare_digest((declared or "").encode(), str(given or "").encode("utf-8", "replace")):
        raise PreprocessingMismatchError(
            f"the caller prepares by {_shown(given)}, {release.model_id} number {release.number} "
            f"was accepted for {_shown(declared)}"
        )


def _shown(digest: str | None) -> str:
    return "no declared preprocessing" if digest is None else f"preprocessing {str(digest)[:12]}"


def decided(outputs: Outputs, row: int = 0, output: str | None = None, threshold: float | None = None) -> Decision:
    """Return what is decided about one row: the label of the greatest element, the lowest index on a tie.

    ``row`` counts over all leading axes. With ``threshold`` (compared in the output's own precision) a row whose
    greatest element is below it has no label. Raises InvalidInputError for a row that is not there, or where no,
    or more than one, output has labels and none is named.
    """
    spec = outputs.labelled(output)
    array = outputs[spec.name]
    rows = array.reshape(-1, array.shape[-1])
    if type(row) is not int or not 0 <= row < len(rows):
        raise InvalidInputError(f"{spec.name!r} has {len(rows)} rows, and none of this number")
    words = None if threshold is None else decimal(threshold)
    index = int(rows[row].argmax())
    if threshold is not None and rows[row][index] < array.dtype.type(threshold):
        return Decision(row, spec.name, None, None, words)
    return Decision(row, spec.name, index, spec.labels[index], words)


def receipt_of(
    outputs: Outputs,
    request_id: str | None = None,
    *,
    raw_input: bytes | str | None = None,
    row: int | None = None,
    output: str | None = None,
    threshold: float | None = None,
    beside: Beside | None = None,
) -> Receipt:
    """Return the receipt of a run that gave ``outputs``; with ``row``, of what it decides about that row.

    ``raw_input`` is what was preprocessed (bytes, or their SHA-256). Raises InvalidInputError as :func:`decided`
    and :func:`~acceptd.release.receipt.make_receipt` do.
    """
    session = outputs.session
    return make_receipt(
        session.release,
        model=session.model,
        runtime_identity=session.runtime_identity,
        inputs=digests(outputs.fed),
        outputs=digests(outputs),
        request_id=request_id,
        raw_input=raw_digest(raw_input),
        decision=None if row is None else decided(outputs, row, output, threshold),
        beside=_provided(session, beside or Beside()),
    )


def _provided(session: Session, beside: Beside) -> Beside:
    return replace(beside, requested_provider=session.requested_provider, provider=session.selected_provider)


class Request:
    """One request on its way through queue, preprocessing, run and postprocessing; at its end it has a receipt.

    ``arrived`` is when it came, in seconds of ``clock`` (default: now): until it is entered it queued.
    ``deadline_ms`` counts from there. Nothing is interrupted: that the deadline was exceeded is told. An error
    that leaves the block is told by its class and goes on. For one thread.
    """

    def __init__(
        self,
        session: Session,
        request_id: str | None = None,
        *,
        raw_input: bytes | str | None = None,
        preprocessing: str | None = None,
        deadline_ms: float | None = None,
        arrived: float | None = None,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._session, self._clock = session, clock
        self._preprocessing, self._deadline = preprocessing, deadline_ms
        self._arrived = clock() if arrived is None else arrived
        self._spent: dict[str, int | None] = dict.fromkeys(_PHASES)
        self._outputs: Outputs | None = None
        self._fed: Mapping[str, Any] = {}
        self._decision: Decision | None = None
        self._error = ""
        self._validation = "none"
        self._timeout = "none"
        # Made now: what is wrong with the request id is told before anything ran.
        self._bare = make_receipt(
            session.release, model=session.model, runtime_identity=session.runtime_identity, inputs={}, outputs={},
            request_id=request_id, raw_input=raw_digest(raw_input),
        )  # fmt: skip

    def __enter__(self) -> Request:
        self._spent["queue"] = self._since(self._arrived)
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if kind is not None:
            self._error = kind.__name__ if ERROR_CLASS.fullmatch(kind.__name__) else "Exception"
        if isinstance(error, InvalidOutputError):
            self._validation = "failed"
        if self._deadline is not None:
            late = self._clock() - self._arrived > self._deadline / 1000
            self._timeout = "exceeded" if late else "met"

    def preprocessing(self) -> contextlib.AbstractContextManager[None]:
        """Measure a block as preprocessing."""
        return self._phase("preprocess")

    def postprocessing(self) -> contextlib.AbstractContextManager[None]:
        """Measure a block as postprocessing."""
        return self._phase("postprocess")

    def run(self, inputs: Mapping[str, Any]) -> Outputs:
        """Run once, as :meth:`Session.run`; PreprocessingMismatchError before a tensor exists, where one was
        named.
        """
        if self._preprocessing is not None:
            check_preprocessing(self._session.release, self._preprocessing)
        with self._phase("run"):
            self._outputs = self._session.run(inputs, self._was_fed)
        self._validation = "passed"
        return self._outputs

    def decide(self, row: int = 0, output: str | None = None, threshold: float | None = None) -> str | None:
        """Return the label of one row, or None below the threshold, as :func:`decided`; the receipt binds it."""
        if self._outputs is None:
            raise InvalidInputError("nothing has been run yet")
        self._decision = decided(self._outputs, row, output, threshold)
        return self._decision.label

    @property
    def receipt(self) -> Receipt:
        """The receipt of what has happened so far; ask for it after the block."""
        durations = Durations(**self._spent)
        beside = Beside(durations, validation=self._validation, timeout=self._timeout, error=self._error)
        return replace(
            self._bare,
            inputs=folded(digests(self._fed)),
            outputs={} if self._outputs is None else folded(digests(self._outputs)),
            decision=self._decision,
            beside=_provided(self._session, beside),
        )

    def _was_fed(self, feed: Mapping[str, Any]) -> None:
        self._fed = feed

    @contextlib.contextmanager
    def _phase(self, name: str) -> Iterator[None]:
        start = self._clock()
        try:
            yield
        finally:
            self._spent[name] = (self._spent[name] or 0) + self._since(start)

    def _since(self, start: float) -> int:
        return min(max(int((self._clock() - start) * 1_000_000), 0), MAX_MICROSECONDS)


@dataclass(frozen=True, slots=True)
class Replay:
    """What running a receipt's request again gave. ``same``: the same inputs, outputs and decision."""

    inputs: bool
    """The caller's inputs have the receipt's tensor digests."""
    outputs: bool
    decision: bool
    release: bool
    """The very release, not only the same bundle under another number."""
    runtime: bool
    """The same runtime identity: without it, other last digits are no surprise."""
    differing: tuple[str, ...] = field(default=())
    """Outputs, by name, whose digests are others."""

    @property
    def same(self) -> bool:
        """Whether the receipt tells what these inputs give here."""
        return self.inputs and self.outputs and self.decision


def replay(
    session: Session, receipt: Receipt | bytes, inputs: Mapping[str, Any], *, preprocessing: str | None
) -> Replay:
    """Run the inputs of a receipt again and say whether inputs, outputs and decision have its digests.

    ``preprocessing`` is the SHA-256 of the preprocessing that made ``inputs``; None where there is none. Raises,
    before a tensor exists: MalformedError or DigestMismatchError for a line that is no receipt, ReplayRefusedError
    for one of another bundle or model, or of a run without outputs, PreprocessingMismatchError where the caller's
    digest is not the receipt's and the release's. Then as :meth:`Session.run`.
    """
    told = parse(receipt) if isinstance(receipt, bytes) else receipt
    release = session.release
    bound, here = (
        (told.model_id, told.bundle_digest, told.model),
        (release.model_id, release.bundle_digest, session.model),
    )
    if bound != here:
        raise ReplayRefusedError(
            f"the receipt is of {told.model_id} {told.model} ({told.bundle_digest[:12]}), this session of "
            f"{release.model_id} {session.model} ({release.bundle_digest[:12]}): open that release"
        )
    if not told.outputs:
        raise ReplayRefusedError(f"the receipt binds no outputs ({told.beside.error or 'nothing was run'})")
    check_preprocessing(release, preprocessing)
    if told.preprocessing != preprocessing:
        raise PreprocessingMismatchError(
            f"the receipt binds {_shown(told.preprocessing)}, the caller prepares by {_shown(preprocessing)}"
        )
    outputs = session.run(inputs)
    found = folded(digests(outputs))
    names = sorted(name for name in {*found, *told.outputs} if found.get(name) != told.outputs.get(name))
    return Replay(
        inputs=folded(digests(outputs.fed)) == told.inputs,
        outputs=not names,
        decision=_decides_the_same(outputs, told.decision),
        release=release.release_digest == told.release_digest,
        runtime=session.runtime_identity == told.runtime_identity,
        differing=tuple(names),
    )


def _decides_the_same(outputs: Outputs, told: Decision | None) -> bool:
    if told is None:
        return True
    threshold = None if told.threshold is None else float(told.threshold)
    try:
        return decided(outputs, told.row, told.output, threshold) == told
    except InvalidInputError:  # a row or an output that this release does not have
        return False
