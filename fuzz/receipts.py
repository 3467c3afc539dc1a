"""Target ``receipts``: a file of JSON lines that anybody may have written. A line is a receipt or is refused."""

from __future__ import annotations

from acceptd.errors import LoaderError
from acceptd.release import receipt
from acceptd.release.receipt import Beside, Decision, Durations, Receipt
from fuzz.house import only


def check(raw: bytes) -> None:
    """Read every line. A receipt that is read is written as a line that is read as the same receipt."""
    for line in raw.split(b"\n"):
        found = only(LoaderError, lambda line=line: receipt.parse(line))
        if found is None:
            continue
        again = receipt.parse(found.line + b"\n")
        assert again == found
        assert again.beside == found.beside
        assert again.digest == found.digest
        assert b"\n" not in found.line
        assert found.line.isascii()


def seeds() -> dict[str, bytes]:
    """Return lines of receipts, whole and torn."""
    digests = [str(number) * 64 for number in range(1, 7)]
    beside = Beside(
        Durations(run=1000), requested_provider="CPUExecutionProvider", provider="CPUExecutionProvider"
    )
    plain = Receipt(
        request_id="r-1", at="2026-11-29T12:00:00Z", model_id="mosaic/small", model="main",
        channel="production",
        number=1, release_digest=digests[0], bundle_digest=digests[1], profile="cpu", runtime_identity=digests[2],
        preprocessing=None, raw_input=digests[5], inputs={"x": digests[3]}, outputs={"y": digests[4]},
        decision=Decision(0, "y", 1, "accept", "0.5"), beside=beside,
    )  # fmt: skip
    bare = Receipt(
        request_id="~" * 128, at="2026-11-29T12:00:00Z", model_id="mosaic/small", model="main",
        channel="production",
        number=999_999, release_digest=digests[0], bundle_digest=digests[1], profile="cpu",
        runtime_identity=digests[2], preprocessing=digests[5], raw_input=None, inputs={}, outputs={},
        beside=beside,
    )  # fmt: skip
    return {
        "one": plain.line + b"\n",
        "two": plain.line + b"\n" + bare.line + b"\n",
        "torn": plain.line[:200] + b"\n" + bare.line,
        "bare": bare.line,
    }
