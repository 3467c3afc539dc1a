"""The tools: how each is called, what it can be asked about, how its answer is read."""

from __future__ import annotations

import json
import re
import sys
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final

from bench.hostile.bounded import Bounds, Ended
from bench.hostile.members import Member

HERE: Final = Path(__file__).resolve().parent
ROOT: Final = HERE.parents[1]
OUTCOMES: Final = ("detected", "warned", "missed", "hung", "crashed", "memory", "unsure", "not applicable")
ACCEPTD_LIMITS: Final = ("limits.run_cpu_seconds=5", "limits.inspect_cpu_seconds=10", "limits.wall_factor=20")
INFERRED: Final = ("manifest.inferred=accept", "operators.mode=any")


@dataclass(frozen=True)
class Asked:
    """What one call is about. ``report`` is where a tool writes its own report; ``state`` is acceptd's."""

    member: Member
    bundle: Path
    feeds: tuple[Path, ...]
    report: Path
    state: Path

    @property
    def model(self) -> Path:
        """The model file, for tools that take one."""
        return self.bundle / "model.onnx"


@dataclass(frozen=True)
class Answer:
    """``outcome`` is one of OUTCOMES; ``said`` the tool's own words for it."""

    outcome: str
    said: str = ""
    warnings: tuple[str, ...] = ()
    """Everything that it warned of, where it passed the bundle."""


@dataclass(frozen=True)
class Tool:
    """One tool with its flags. ``parts``: where a fault may lie for the tool to be asked about it."""

    name: str
    title: str
    package: str
    environment: str
    shown: str
    parts: frozenset[str]
    command: Callable[[Path, Asked], list[str]]
    read: Callable[[Ended, Asked], Answer]
    bounds: Bounds = field(default_factory=Bounds)

    @property
    def place(self) -> Path:
        """The directory of its commands."""
        return ROOT / (f".venvs/{self.environment}/bin" if self.environment else ".venv/bin")


WHY_NOT: Final = {
    "files": "it reads the model file; the fault lies in a file beside it",
    "archive": "it does not open archives of bundles",
    "manifest": "the fault lies in acceptd's own manifest",
    "interface": "nobody told it what the interface should be",
    "goldens": "it compares no outputs with expected ones",
}


def _last(text: str, *marks: str) -> str:
    found = [line for line in text.splitlines() if line.startswith(marks) and "FAILED | Runtime" not in line]
    return found[-1] if found else (text.strip().splitlines() or [""])[-1]


def _line(ended: Ended, _: Asked) -> Answer:
    """A script of ours: exit 1 and one line."""
    return Answer("missed") if ended.code == 0 else Answer("detected", _first(ended.said, "no: "))


def _first(text: str, mark: str) -> str:
    at = text.find(mark)
    return text[at + len(mark) :].splitlines()[0] if at >= 0 else _last(text)


def _polygraphy(ended: Ended, _: Asked) -> Answer:
    if ended.code == 0:
        return Answer("missed")
    return Answer("detected", _last(ended.said, "[!]", "[E]", "ERROR"))


def _lint(ended: Ended, asked: Asked) -> Answer:
    if ended.code != 0:
        return Answer("detected", _last(ended.said, "[!]", "[E]"))
    entries = _report(asked).get("lint_entries", [])
    graver = [one for one in entries if one.get("level") != "warning"]
    if graver:
        return Answer("detected", graver[0]["message"])
    return _warned([one["message"] for one in entries])


def _warned(words: list[str]) -> Answer:
    return Answer("warned", words[0], tuple(words[:50])) if words else Answer("missed")


def _report(asked: Asked) -> dict[str, Any]:
    try:
        found = json.loads(asked.report.read_text("utf-8", "replace"))
    except (OSError, ValueError):
        return {}
    return found if isinstance(found, dict) else {}


UNFINISHED: Final = ("skipped one or more", "skipped for external-data", "exceeded bounded")
"""modelaudit ends with 2 also where it names no fault and says that it could not look at all of a model."""
GRAVE: Final = ("critical", "error", "warning", "info", "debug")


def _modelaudit(ended: Ended, asked: Asked) -> Answer:
    issues = sorted(_report(asked).get("issues", []), key=lambda one: GRAVE.index(one.get("severity", "debug")))
    said = issues[0]["message"] if issues else ""
    if ended.code == 0:
        return _warned([one["message"] for one in issues])
    if any(words in said for words in UNFINISHED):
        return Answer("unsure", said)
    return Answer("detected", said or _last(ended.said))


def _modelscan(ended: Ended, asked: Asked) -> Answer:
    found = _report(asked)
    if found.get("issues"):
        return Answer("detected", str(found["issues"][0].get("description", "")))
    if ended.code == 1:
        return Answer("detected", _last(ended.said))
    if not found.get("summary", {}).get("scanned", {}).get("total_scanned"):
        return Answer("not applicable", "it does not read ONNX, and found no file of a kind that it reads")
    return Answer("missed")


def _acceptd(ended: Ended, _: Asked) -> Answer:
    start = ended.said.find("{")
    try:
        report = json.JSONDecoder().raw_decode(ended.said[start:])[0]
    except ValueError:
        return Answer("unsure", _last(ended.said))
    verdict = report["verdict"]
    codes = [one["code"] for one in report["findings"] if one["severity"] in {"reject", "hold"}]
    said = f"{verdict}: {', '.join(dict.fromkeys(codes))}"
    if verdict == "accepted":
        return _warned([one["code"] for one in report["findings"] if one["severity"] == "warn"])
    return Answer("unsure" if verdict == "inconclusive" else "detected", said)


def _ask_acceptd(place: Path, asked: Asked) -> list[str]:
    words = [str(place / "acceptd"), "check", str(asked.bundle), "--state", str(asked.state), "--json"]
    if asked.member.team:
        words += ["--team", asked.member.team]
    for one in (*ACCEPTD_LIMITS, *(INFERRED if asked.member.inferred else ())):
        words += ["--set", one]
    return words


def _loader(asked: Asked) -> list[str]:
    """Return Polygraphy's words for the golden inputs: a script that yields them."""
    if not asked.feeds:
        return []
    script = asked.report.with_name("loader.py")
    script.write_text(
        "import numpy\n\ndef load_data():\n"
        f"    for file in {[str(one) for one in asked.feeds]!r}:\n        yield dict(numpy.load(file))\n"
    )
    return ["--data-loader-script", str(script)]


MODEL: Final = frozenset({"model"})
RUN: Final = frozenset({"model", "interface"})
SCANNER: Final = frozenset({"model", "files", "archive"})
ALL: Final = frozenset({"model", "interface", "files", "archive", "manifest", "goldens"})


def _script(name: str, *words: str) -> Callable[[Path, Asked], list[str]]:
    """Return how a script of this directory is asked, in a peer's environment: words, the model, perhaps feeds."""

    def command(place: Path, asked: Asked) -> list[str]:
        fed = [str(one) for one in asked.feeds] if words == ("run",) else []
        return [str(place / "python"), str(HERE / name), *words, str(asked.model), *fed]

    return command


def _ask_polygraphy_run(place: Path, asked: Asked) -> list[str]:
    return [str(place / "polygraphy"), "run", str(asked.model), "--onnxrt", "--validate", *_loader(asked)]


def _ask_inspect(place: Path, asked: Asked) -> list[str]:
    return [str(place / "polygraphy"), "inspect", "model", str(asked.model)]


def _ask_lint(place: Path, asked: Asked) -> list[str]:
    return [str(place / "polygraphy"), "check", "lint", str(asked.model), "-o", str(asked.report)]


def _ask_modelaudit(place: Path, asked: Asked) -> list[str]:
    scan = [str(place / "modelaudit"), "scan", str(asked.bundle), "--format", "json", "--no-cache"]
    return [*scan, "-o", str(asked.report)]


def _ask_modelscan(place: Path, asked: Asked) -> list[str]:
    return [str(place / "modelscan"), "scan", "-p", str(asked.bundle), "-r", "json", "-o", str(asked.report)]


TOOLS: Final = (
    Tool(
        "acceptd",
        "acceptd check",
        "acceptd",
        "",
        "acceptd check BUNDLE --json " + " ".join(f"--set {one}" for one in ACCEPTD_LIMITS),
        ALL,
        _ask_acceptd,
        _acceptd,
        Bounds(wall_seconds=240, cpu_seconds=None, memory_bytes=None, nests=True),
    ),
    Tool(
        "ort-load",
        "onnxruntime: load",
        "onnxruntime",
        "peer-onnxruntime",
        'InferenceSession(MODEL, providers=["CPUExecutionProvider"])',
        MODEL,
        _script("ask_onnxruntime.py", "load"),
        _line,
    ),
    Tool(
        "ort-run",
        "onnxruntime: load, run",
        "onnxruntime",
        "peer-onnxruntime",
        "the same, then run(None, INPUTS) for each golden set's inputs; zeros where there are none",
        RUN,
        _script("ask_onnxruntime.py", "run"),
        _line,
    ),
    Tool(
        "onnx.checker",
        "onnx.checker",
        "onnx",
        "peer-onnx",
        "onnx.checker.check_model(MODEL, full_check=True)",
        MODEL,
        _script("ask_onnx.py"),
        _line,
    ),
    Tool(
        "polygraphy-inspect",
        "polygraphy inspect",
        "polygraphy",
        "peer-polygraphy",
        "polygraphy inspect model MODEL",
        MODEL,
        _ask_inspect,
        _polygraphy,
    ),
    Tool(
        "polygraphy-run",
        "polygraphy run",
        "polygraphy",
        "peer-polygraphy",
        "polygraphy run MODEL --onnxrt --validate --data-loader-script FILE (yields the golden inputs)",
        RUN,
        _ask_polygraphy_run,
        _polygraphy,
    ),
    Tool(
        "polygraphy-lint",
        "polygraphy lint",
        "polygraphy",
        "peer-polygraphy",
        "polygraphy check lint MODEL -o FILE",
        MODEL,
        _ask_lint,
        _lint,
    ),
    Tool(
        "modelaudit",
        "modelaudit",
        "modelaudit",
        "peer-modelaudit",
        "modelaudit scan BUNDLE --format json --no-cache -o FILE",
        SCANNER,
        _ask_modelaudit,
        _modelaudit,
    ),
    Tool(
        "modelscan",
        "modelscan",
        "modelscan",
        "peer-modelscan",
        "modelscan scan -p BUNDLE -r json -o FILE",
        SCANNER,
        _ask_modelscan,
        _modelscan,
    ),
)


def judged(tool: Tool, ended: Ended, asked: Asked) -> Answer:
    """Return what a tool's end means. Whoever hangs or dies has given no answer, whatever it said before."""
    if ended.hung:
        return Answer(
            "hung", f"ended by us after {ended.seconds:.0f} s, {ended.cpu_seconds:.0f} s of processor time"
        )
    if ended.crashed:
        return Answer("crashed", ended.signal)
    if ended.out_of_memory and tool.name != "acceptd":
        words = next(
            (line for line in ended.said.splitlines() if "alloc" in line or "Memory" in line), ended.signal
        )
        return Answer("memory", words)
    if ended.code is None:
        return Answer("crashed", ended.signal)
    return tool.read(ended, asked)


def cleaned(text: str, *places: Path) -> str:
    """Return a tool's words in one line of ASCII, without places of this machine; hostile names may be in them."""
    for place in (*places, ROOT, Path(sys.prefix)):
        text = text.replace(str(place), "")
    text = re.sub(r"\s+", " ", text).strip().encode("ascii", "backslashreplace").decode()
    text = re.sub(r"[^\x20-\x7e]", "?", text)
    return text if len(text) <= 200 else text[:197] + "..."
