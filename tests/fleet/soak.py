"""The same bundles through a fleet and through one embedded daemon: same verdicts, same findings, byte for byte.

``python -m tests.fleet.soak`` (make soak-fleet): one intake, three workers, one promoter; PostgreSQL and an
S3-compatible server; 500 mixed bundles. Both sides have the same keys, so they draw the same probes, and the same
rules, in which nothing depends on how fast the machine is at that moment. :mod:`tests.fleet.recorded` says what is
compared, and what is not.
"""

from __future__ import annotations

import argparse
import collections
import json
import os
import shutil
import sys
import tempfile
import time
from collections.abc import Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path

from tests.fleet import embedded, house
from tests.fleet.mixed import Piece, mixed
from tests.fleet.recorded import Book, differences


@dataclass
class Soaked:
    """What came of it."""

    seed: int
    drops: int
    families: dict[str, int] = field(default_factory=dict)
    verdicts: dict[str, int] = field(default_factory=dict)
    findings: int = 0
    """Bytes of findings that were compared."""
    embedded_s: float = 0.0
    fleet_s: float = 0.0
    examined_by: dict[str, int] = field(default_factory=dict)
    """Submissions by the worker whose evidence decided."""
    different: list[str] = field(default_factory=list)
    broken: list[str] = field(default_factory=list)


def soak(home: Path, pieces: Sequence[Piece], seed: int, workers: int = 3, *, s3: bool = True) -> Soaked:
    """Judge ``pieces`` on both sides and compare."""
    template = embedded.initialise(home / "template")
    found = Soaked(seed, len(pieces), dict(collections.Counter(piece.family for piece in pieces)))
    began = time.monotonic()
    with house.built(home / "fleet", template, workers=workers, s3=s3) as fleet:
        alone = embedded.run(home / "embedded", template, fleet.policies, pieces)
        found.embedded_s = round(time.monotonic() - began, 1)
        began = time.monotonic()
        fleet.start()
        fleet.judged(pieces)
        fleet.settled()
        fleet.stop()
        found.fleet_s = round(time.monotonic() - began, 1)
        together = fleet.book()
        found.broken = [*fleet.broken(pieces), *unexpected(together, pieces)]
        found.examined_by = fleet.examined_by()
    found.verdicts = dict(collections.Counter(one.verdict for one in together.verdicts))
    found.findings = sum(len(one.findings) for one in together.verdicts)
    found.different = differences(alone, together)
    return found


def unexpected(book: Book, pieces: Sequence[Piece]) -> list[str]:
    """Return a line for each verdict that is ``inconclusive``: nothing was killed here, so nothing may be lost."""
    allowed = {piece.name for piece in pieces if "inconclusive" in piece.verdicts}
    return [
        f"{one.drop}: inconclusive: {one.reason}"
        for one in book.verdicts
        if one.verdict == "inconclusive" and one.drop.partition(".")[0] not in allowed
    ]


def main() -> int:
    """Soak and print the figures; 1 where anything differs or a promise does not hold."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--count", type=int, default=500)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--workers", type=int, default=3)
    parser.add_argument(
        "--files", action="store_true", help="objects in a directory that all nodes share, not in S3"
    )
    parser.add_argument("--directory", type=Path, help="make the states here")
    chosen = parser.parse_args()
    home = Path(tempfile.mkdtemp(prefix="acceptd-soak-", dir=chosen.directory or "/var/tmp"))
    home.chmod(0o755)  # cells walk through it
    found = soak(home, mixed(chosen.count, chosen.seed), chosen.seed, chosen.workers, s3=not chosen.files)
    print(json.dumps(asdict(found), indent=1))
    if found.different or found.broken:
        print(f"what is left of it lies in {home}", file=sys.stderr)
        return 1
    shutil.rmtree(home, ignore_errors=True)
    return 0


if __name__ == "__main__":
    os.umask(0o022)
    sys.exit(main())
