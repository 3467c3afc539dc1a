"""The same bundle asked of acceptd and of what people would use instead, in turn (A B A B …).

acceptd: in a warm cell (``check`` of a process that has one, as a suite's next bundle meets it) and as a cold
command. Peers, each a cold command in an environment of its own (``bench/peers``): bare onnxruntime, onnx.checker,
Polygraphy, modelaudit, modelscan; and onnxruntime once more in a process that has imported it. How each is called
stands in ``bench/hostile/tools.py``. The static scanners are modelaudit and modelscan: the faster one counts
(design, section 10); where that is modelscan, which reads no ONNX and says so, modelaudit is held beside it too.
"""

from __future__ import annotations

import argparse
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Final

from acceptd import local
from acceptd.config import CHECKOUT
from acceptd.rules import load_rules
from bench import figures
from bench.hostile import members
from bench.hostile.bounded import Ended
from bench.hostile.run import environment, version
from bench.hostile.tools import TOOLS, Asked, Tool, judged
from bench.large import build
from examples import evidence_classifier as classifier

STATIC: Final = ("modelaudit", "modelscan")
WARM, IN_PROCESS = "acceptd, warm cell", "onnxruntime, in-process"
WIDTH: Final = 2236
"""Of a layer whose weights are 20 MB."""
SECONDS: Final = 600.0
"""What a peer may take for one bundle."""
SIZES: Final = ("tiny", "20MB", "1.5GiB")
ASKED: Final = tuple(tool for tool in TOOLS if tool.name not in {"ort-load", "polygraphy-inspect"})
SERVER: Final = """
import sys, time, numpy, onnxruntime
print("ready", flush=True)
for line in sys.stdin:
    model, *feeds = line.rstrip("\\n").split("\\t")
    feeds = [dict(numpy.load(file)) for file in feeds]
    start = time.perf_counter()
    session = onnxruntime.InferenceSession(model, providers=["CPUExecutionProvider"])
    for feed in feeds:
        session.run(None, feed)
    print(time.perf_counter() - start, flush=True)
"""


def write(size: str, place: Path) -> Path:
    """Write a bundle of one of SIZES."""
    if size == "tiny":
        return classifier.write_bundle(place)
    return build(place, 20_000_000, WIDTH) if size == "20MB" else build(place, 3 << 29)


class Peer:
    """One tool as a cold command; what it answered last is kept."""

    def __init__(self, tool: Tool, asked: Asked, scratch: Path) -> None:
        self._command = tool.command(tool.place, asked)
        if tool.name == "acceptd":  # without the limits of the hostile report, which are for hostile models
            self._command = self._command[: self._command.index("--set")]
        self._tool, self._asked, self._scratch = tool, asked, scratch
        self.said = ""

    def __call__(self) -> None:
        """Ask it once."""
        self._asked.report.unlink(missing_ok=True)
        try:
            done = subprocess.run(
                self._command, cwd=self._scratch, env=environment(self._scratch), stdin=subprocess.DEVNULL,
                capture_output=True, text=True, errors="replace", timeout=SECONDS, check=False,
            )  # fmt: skip
        except subprocess.TimeoutExpired:
            self.said = f"no end in {SECONDS:.0f} s"
            return
        code = done.returncode if done.returncode >= 0 else None
        ended = Ended(code, "" if code is not None else "a signal", False, 0, 0, 0, done.stdout + done.stderr)
        self.said = judged(self._tool, ended, self._asked).outcome
        if self._tool.name == "acceptd" and done.returncode:
            raise SystemExit(f"acceptd check ended with {done.returncode}: {done.stderr[-400:]}")


def served(process: subprocess.Popen[str], words: str) -> float:
    """Have the running onnxruntime load and run a model; return its own seconds."""
    assert process.stdin is not None
    assert process.stdout is not None
    process.stdin.write(words + "\n")
    process.stdin.flush()
    return float(process.stdout.readline())


def accepted(place: local.Bench, bundle: Path) -> None:
    """Judge the bundle in the warm cell."""
    report = local.check_one(place, bundle)
    if report["verdict"] != "accepted":
        raise SystemExit(f"{report['verdict']}: {report['reason']}")


def measure(size: str, home: Path, rounds: int) -> list[figures.Line]:
    """Return the lines of one size."""
    home.mkdir()
    scratch, drop, state = home / "scratch", home / "drop", home / "state"
    for one in (scratch, drop, state):
        one.mkdir()
    (state / "acceptd.toml").write_text(f'policies = "{CHECKOUT / "policies"}"\n')
    bundle = write(size, drop / "bundle")
    feeds = members.feeds(bundle, scratch)
    asked = Asked(members.EXAMPLE, bundle, tuple(feeds), scratch / "report.json", state)
    peers = {tool.title: Peer(tool, asked, scratch) for tool in ASKED}
    ort = next(tool for tool in TOOLS if tool.name == "ort-run")
    server = subprocess.Popen(
        [str(ort.place / "python"), "-c", SERVER], env=environment(scratch), stdin=subprocess.PIPE,
        stdout=subprocess.PIPE, text=True,
    )  # fmt: skip
    try:
        assert server.stdout is not None
        server.stdout.readline()
        words = "\t".join([str(asked.model), *map(str, feeds)])
        rules = load_rules(CHECKOUT / "policies", "default", [])
        with local.bench(rules, cores=1, suite=True) as place:
            ways: dict[str, Callable[[], float | None]] = {WARM: partial(accepted, place, bundle)}
            ways |= peers
            ways[IN_PROCESS] = partial(served, server, words)
            taken = figures.in_turn(ways, rounds, told=f"scanners, {size}:")
    finally:
        server.terminate()
        server.wait(60)
    shutil.rmtree(home)
    return list(lines(size, taken, {title: peer.said for title, peer in peers.items()}))


def lines(size: str, taken: dict[str, list[float]], said: dict[str, str]) -> list[figures.Line]:
    """Return the design's two lines of the tiny bundle, and one for each peer: how long it takes, by acceptd's."""
    titles = {tool.name: tool.title for tool in ASKED}
    cold = titles["acceptd"]
    fastest = min((titles[name] for name in STATIC), key=lambda title: figures.spread(taken[title]).median)
    found = [
        figures.against(
            f"scanners/{size}/{way}", f"{size} bundle, {title}", taken[title], f"the faster scanner, {fastest}",
            taken[fastest], sense="least", bound=bound if size == "tiny" else None, source="design",
        )
        for way, title, bound in (("warm", WARM, 20.0), ("cold", cold, 3.0))
    ]  # fmt: skip
    if fastest != titles["modelaudit"]:
        found += [
            figures.against(
                f"scanners/{size}/{way}/onnx", f"{size} bundle, {title}", taken[title],
                "modelaudit, the scanner that reads ONNX", taken[titles["modelaudit"]], sense="least",
                bound=bound if size == "tiny" else None, source="design",
            )
            for way, title, bound in (("warm", WARM, 20.0), ("cold", cold, 3.0))
        ]  # fmt: skip
    for title, values in taken.items():
        if title not in {cold, WARM}:
            word = said.get(title, "missed")
            note = "" if word == "missed" else f" ({word})"
            found.append(
                figures.against(
                    f"peers/{size}/{title}", f"{size} bundle, {title}{note}", values, cold, taken[cold]
                )
            )  # fmt: skip
    return found


def main() -> int:
    """Measure, print and keep the figures."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--sizes", nargs="+", choices=SIZES, default=["tiny", "20MB"])
    parser.add_argument("--rounds", type=int, default=7)
    parser.add_argument("--name", default="scanners", help="of the file of results")
    given = parser.parse_args()
    for tool in ASKED:
        version(tool)  # ends here with a line where a peer is not installed
    found = []
    with tempfile.TemporaryDirectory(prefix="acceptd-bench-", dir="/var/tmp") as name:
        Path(name).chmod(0o755)
        for size in given.sizes:
            found += measure(size, Path(name) / size, given.rounds)
    return figures.save(given.name, found)


if __name__ == "__main__":
    sys.exit(main())
