"""What one verdict of a whole fleet costs with a hundred submissions waiting and with a hundred thousand; paired.

Usage: python -m bench.fleet_queued [--sizes 100 100000] [--rounds 3] [--verdicts 40]

Each size has a fleet of its own: promoter, intake, one worker, PostgreSQL on disk with fsync. What waits was
sealed and signed for as an intake does it (each with a seal of its own; the bytes are those of fifty bundles, and
the intake that took them is another one, which is away: so their last step, writing its outbox, is left out). The
fleets run in turn (A B A B …), for so many verdicts at a time: processor time of each verdict by role, verdicts a
second, and how long a drop of another team takes from its inbox to its outbox while the others wait.
"""

from __future__ import annotations

import argparse
import json
import os
import shutil
import statistics
import sys
import tempfile
import time
from contextlib import ExitStack
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Any, Final

from acceptd.evidence import JobRecord, Sealed
from acceptd.fleet.host import this_node
from acceptd.fleet.seal import sign_seal
from acceptd.record.canonical import plain_bytes
from acceptd.record.entry import utc_now
from acceptd.record.node_key import node_signer
from bench import figures
from bench.fleet import family_seconds
from bench.fleet_parts import machine
from examples import evidence_classifier as classifier
from tests.fleet import embedded, house
from tests.fleet.house import Fleet
from tests.fleet.mixed import ACCEPTED, Piece
from tests.fleet.postgres import OWNER, Server
from tests.fleet.s3 import ENVIRONMENT

FLOOD: Final = "mosaic"
OTHER: Final = "harbor"
AWAY: Final = "elsewhere"
"""The intake that took the drops of the flood."""
BUNDLES: Final = 50
PATIENCE: Final = 900.0
SEALED: Final = (
    "SELECT team, name, kind, uid, data, bundle_digest FROM submissions WHERE node = 'intake' AND team = %s"
)
COPIED: Final = """
    COPY submissions (id, team, name, path, kind, uid, state, received_at, updated_at, bundle_digest, data, node)
    FROM STDIN
"""


def piece(team: str, number: int) -> Piece:
    """Return a small bundle of a model of its own."""
    model = f"{team}/queued-{number}"
    write = partial(classifier.write_bundle, version="1.0.0", model_id=model, sets=3)
    return Piece(f"queued-{team}-{number}", team, 1, "valid", write, ACCEPTED, model)


@dataclass
class Flooded:
    """One fleet and what was measured of it."""

    size: int
    fleet: Fleet
    server: Server
    rates: list[float] = field(default_factory=list)
    cpu_ms: dict[str, list[float]] = field(default_factory=dict)
    others_s: list[float] = field(default_factory=list)
    made: int = 0
    dropped: int = 0

    def seal(self) -> None:
        """Let the intake seal the bundles that the flood is made of; nobody examines them yet."""
        self.fleet.start("promoter", "intake")
        names = [self.fleet.boxes.drop(piece(FLOOD, number)) for number in range(BUNDLES)]
        intake = self.fleet["intake"].process
        assert intake is not None
        self.fleet.bell.until(lambda: intake.said("sealed") == len(names), "they are sealed", PATIENCE)
        for name in ("intake", "promoter"):
            process = self.fleet[name].process
            assert process is not None
            process.stop()

    def flood(self, count: int) -> None:
        """Put so many more submissions on record, sealed and signed for."""
        signer, node = node_signer(self.fleet["intake"].state), this_node("intake")
        with self.server.connected(self.fleet.database, OWNER) as connection:
            rows = connection.execute(SEALED, (FLOOD,)).fetchall()
            with connection.cursor() as cursor, cursor.copy(COPIED) as copy:
                for _ in range(count):
                    team, name, kind, uid, data, digest = rows[self.made % len(rows)]
                    self.made += 1
                    document = json.loads(data)
                    identity = f"20260101t000000000-{self.made:08x}"
                    document["seal"] = sign_seal(
                        signer, node, submission=identity, team=team, drop=name, uid=uid,
                        sealed=Sealed.model_validate(document["sealed"], strict=False),
                        jobs=[JobRecord.model_validate(one) for one in document["unpack"]],
                        model=document["declared_model"], at=utc_now(),
                    )  # fmt: skip
                    document.pop("order", None)
                    now = utc_now()
                    told = plain_bytes(document).decode()
                    copy.write_row((identity, team, name, "/", kind, uid, "sealed", now, now, digest, told, AWAY))
            connection.execute("ANALYZE submissions")

    def window(self, verdicts: int) -> None:
        """Start the fleet, measure so many verdicts, and stop it."""
        fleet = self.fleet
        fleet.start()
        promoter = fleet["promoter"].process
        assert promoter is not None
        self._judged(5)
        parts = {name: partial(self._pid, name) for name in fleet.nodes} | {"database": self.server.pid}
        before = {part: family_seconds(pid()) for part, pid in parts.items()}
        start, done = time.perf_counter(), promoter.said("judged", verdict="accepted")
        self._judged(done + verdicts)
        made = promoter.said("judged", verdict="accepted") - done
        self.rates.append(made / (time.perf_counter() - start))
        for part, pid in parts.items():
            self.cpu_ms.setdefault(part, []).append((family_seconds(pid()) - before[part]) * 1000 / made)
        for _ in range(3):
            self.dropped += 1
            start = time.perf_counter()
            fleet.await_verdicts([fleet.boxes.drop(piece(OTHER, self.dropped))], PATIENCE)
            self.others_s.append(time.perf_counter() - start)
        fleet.stop()

    def _judged(self, count: int) -> None:
        promoter = self.fleet["promoter"].process
        assert promoter is not None
        self.fleet.bell.until(
            lambda: promoter.said("judged", verdict="accepted") >= count, self.fleet.told, PATIENCE
        )

    def _pid(self, name: str) -> int:
        process = self.fleet[name].process
        assert process is not None
        return process.pid

    def told(self) -> dict[str, Any]:
        """Return the medians."""
        return {
            "verdicts_per_s": round(statistics.median(self.rates), 2),
            "cpu_ms": {part: round(statistics.median(rows), 1) for part, rows in self.cpu_ms.items()},
            "cpu_ms_sum": round(sum(statistics.median(rows) for rows in self.cpu_ms.values()), 1),
            "other_team_ms": round(statistics.median(self.others_s) * 1000, 1),
        }


def measure(home: Path, sizes: list[int], rounds: int, verdicts: int) -> tuple[list[figures.Line], dict[str, Any]]:
    """Measure every size in turn; return the lines and everything else that was found."""
    with ExitStack() as stack:
        template = embedded.initialise(home / "template")
        all_of: list[Flooded] = []
        for size in sizes:
            server = Server(fsync=True, on_disk=True)
            stack.callback(server.close)
            fleet = Fleet(
                home / f"fleet-{size}", template, server=server, objects=house.shared(home / f"objects-{size}"),
                environment=ENVIRONMENT, workers=1, settings=(),
            )  # fmt: skip
            stack.callback(fleet.close)
            one = Flooded(size, fleet, server)
            one.seal()
            one.flood(size)
            all_of.append(one)
        for _ in range(rounds):
            for one in all_of:
                if one.size < 10 * verdicts:
                    one.flood(2 * verdicts)  # so that as many wait at each beginning
                one.window(verdicts)
    found = {str(one.size): one.told() for one in all_of}
    first, last = all_of[0], all_of[-1]
    few, many = ([sum(each) for each in zip(*one.cpu_ms.values(), strict=True)] for one in (first, last))
    lines = [
        figures.against(
            "fleet/queued", f"processor time of a verdict, {last.size:,} submissions waiting", many,
            f"{first.size:,} waiting", few,
        ),
        figures.against(
            "fleet/queued/rate", f"verdicts a second, {last.size:,} submissions waiting", last.rates,
            f"{first.size:,} waiting", first.rates, unit="/s",
        ),
    ]  # fmt: skip
    return lines, {
        "machine": machine(),
        "rounds": rounds,
        "verdicts": verdicts,
        "waiting": found,
        "ratio_cpu": round(last.told()["cpu_ms_sum"] / first.told()["cpu_ms_sum"], 3),
        "ratio_other_team": round(statistics.median(last.others_s) / statistics.median(first.others_s), 3),
        "load_after": os.getloadavg()[0],
    }


def main() -> int:
    """Measure, print, keep the figures."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--sizes", type=int, nargs="+", default=[100, 100_000])
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--verdicts", type=int, default=40)
    given = parser.parse_args()
    place = Path(tempfile.mkdtemp(prefix="acceptd-bench-", dir="/var/tmp"))
    place.chmod(0o755)  # cells walk through it
    try:
        lines, found = measure(place, given.sizes, given.rounds, given.verdicts)
    finally:
        shutil.rmtree(place, ignore_errors=True)
    print(json.dumps(found, indent=1))
    return figures.save("fleet_queued", lines, detail=found)


if __name__ == "__main__":
    os.umask(0o022)
    sys.exit(main())
