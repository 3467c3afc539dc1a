"""The model file's wire form: problems, depth, unknown fields, opset imports; both readings compared. Pure.

The wire walk and protobuf read the same file in one job, apart from each other. Where they count
differently, the file that was checked is not the file that runs.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from acceptd.evidence import Facts, Problem, Wire
from acceptd.judge.finding import Finding
from acceptd.judge.words import from_job, make
from acceptd.policy.manifest import ModelSpec
from acceptd.policy.policy import Policy

HIDDEN_PAYLOAD_BYTES: Final = 4096
"""Unknown protobuf fields beyond this many bytes are called a payload."""
LARGEST_VERSION: Final = 2**31 - 1
"""onnxruntime keeps opset versions in 32 bits and drops the rest (FACTS); onnx reads 64."""
LARGEST_STANDARD: Final = 99
"""For onnx's own domains beside the default one: ai.onnx.ml is at 5."""
_DEFAULT: Final = "ai.onnx"


def problems(model: ModelSpec, found: list[Problem]) -> Iterator[Finding]:
    """Yield a finding for each problem that a job states."""
    for problem in found:
        where = f"{model.file}: {problem.where}" if problem.where else model.file
        yield from_job(problem.code, "inspect", where, problem.message)


def over(code: str, model: ModelSpec, what: str, value: int, limit: int) -> Iterator[Finding]:
    """Yield a finding when a count passes its limit."""
    if value > limit:
        message = f"{value} {what}; the policy allows {limit}"
        yield make(code, "inspect", model.file, message, {"value": value, "limit": limit})


def wire_form(model: ModelSpec, wire: Wire, policy: Policy) -> Iterator[Finding]:
    """Yield what the ``wire`` frame shows."""
    yield from problems(model, wire.problems)
    yield from over("wire/too-deep", model, "levels of nesting", wire.depth, policy.limits.wire_depth)
    if wire.unknown_bytes > HIDDEN_PAYLOAD_BYTES:
        message = f"{wire.unknown_bytes} bytes in {wire.unknown_fields} fields that ONNX does not define"
        yield make("wire/hidden-payload", "inspect", model.file, message, {"bytes": wire.unknown_bytes})
    elif wire.unknown_fields and not any(one.code == "wire/unknown-field" for one in wire.problems):
        message = f"{wire.unknown_fields} fields that ONNX does not define"
        yield make("wire/unknown-field", "inspect", model.file, message, {"fields": wire.unknown_fields})
    yield from _imports(model, wire, policy)


def _imports(model: ModelSpec, wire: Wire, policy: Policy) -> Iterator[Finding]:
    """Yield imports, of functions too, whose version is none: out of the policy's range, 0, negative, cut off."""
    ranges = policy.opsets.of(policy.profile)
    for one in wire.opsets:
        domain = one.domain or _DEFAULT
        least, most = 1, LARGEST_VERSION
        if domain == _DEFAULT:  # ranges of other domains are held against what is used of them, by the facts
            least, most = ranges.min, ranges.max
        elif domain.startswith(f"{_DEFAULT}."):
            most = LARGEST_STANDARD
        if not least <= one.version <= most:
            message = f"{domain[:200]} opset {one.version}; {least} to {most} may be imported"
            shows = {"domain": domain[:200], "opset": one.version}
            yield make("structure/opset-out-of-range", "inspect", f"{model.file}: {one.where}", message, shows)


def disagreements(model: ModelSpec, wire: Wire, facts: Facts) -> Iterator[Finding]:
    """Yield one finding that names every count on which the wire form and the parsed model differ."""
    differ: dict[str, list[int]] = {}

    def compare(what: str, walked: int, parsed: int) -> None:
        if walked != parsed:
            differ[what] = [walked, parsed]

    compare("IR version", wire.ir_version or 0, facts.ir_version)
    compare("nodes", wire.nodes, facts.nodes)
    compare("initializers", wire.initializers, facts.initializers)
    compare("scopes", wire.graphs + wire.functions, facts.scopes)
    for name in sorted({*wire.counts, *facts.counts}):
        compare(name, wire.counts.get(name, 0), facts.counts.get(name, 0))
    walked = {(one.domain or _DEFAULT, one.version) for one in wire.opsets}
    if len(wire.opsets) < _all_imports(wire):
        walked |= set(facts.opsets.items())  # more of them than the frame holds: a finding of its own
    for domain, version in facts.opsets.items():
        if (domain, version) not in walked:
            differ[f"opset of {domain[:200]}"] = [-1, version]
    if differ:
        first = "; ".join(f"{what}: {one} and {other}" for what, (one, other) in list(differ.items())[:8])
        message = f"two readings of the file differ (byte by byte, by protobuf): {first}"
        yield make("wire/disagrees", "inspect", model.file, message, {"differ": dict(list(differ.items())[:32])})


def _all_imports(wire: Wire) -> int:
    return sum(count for name, count in wire.counts.items() if name.endswith(".opset_import"))
