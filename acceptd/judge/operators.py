"""Operators and versions of one model against the policy: allowed, denied, bounded, in range. Pure."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Final

from acceptd.evidence import Facts, OpUse, Wire
from acceptd.judge.finding import Finding
from acceptd.judge.words import make
from acceptd.model_facts import SATURATED
from acceptd.policy.manifest import ModelSpec
from acceptd.policy.policy import OperatorLimit, Policy

BUILT_IN_DOMAINS: Final = frozenset(
    {"ai.onnx", "ai.onnx.ml", "ai.onnx.training", "ai.onnx.preview.training", "com.microsoft"}
)


def local_functions(functions: Iterable[str]) -> frozenset[tuple[str, str]]:
    """Return (domain, name) of local functions, which are written ``domain::name[:overload]``."""
    pairs = set()
    for written in functions:
        domain, _, rest = written.partition("::")
        pairs.add((domain or "ai.onnx", rest.partition(":")[0]))
    return frozenset(pairs)


def operators(model: ModelSpec, facts: Facts, policy: Policy) -> Iterator[Finding]:
    """Yield what the operators of every scope do against the policy; one finding per operator and version."""
    rules = policy.operators
    domains, allowed, denied = frozenset(rules.domains), frozenset(rules.allowed), frozenset(rules.denied)
    local = local_functions(facts.functions)
    for use in facts.operators:
        domain, name = use.domain or "ai.onnx", _name(use)
        shows = {"operator": name, "count": use.count}
        if name in denied or f"{domain}::*" in denied:
            yield make("operator/denied", "inspect", _where(model, use), f"{name} is denied by the policy", shows)
        elif rules.mode == "listed" and (domain not in domains or (allowed and name not in allowed)):
            if (domain, use.op_type) in local and domain not in BUILT_IN_DOMAINS:
                continue  # a local function: its body's operators are listed on their own
            lists = f"the policy lists {', '.join(sorted(domains)) or 'no domain'}"
            if domain in domains:
                lists = f"the policy lists {len(allowed)} operators, and not this one"
            yield make("operator/not-listed", "inspect", _where(model, use), f"{name}: {lists}", shows)
    yield from _limits(model, facts, policy)


def _limits(model: ModelSpec, facts: Facts, policy: Policy) -> Iterator[Finding]:
    for name, limit in sorted(policy.operators.limits.items()):
        uses = [use for use in facts.operators if _name(use) == name]
        count = sum(use.count for use in uses)
        if limit.nodes is not None and count > limit.nodes:
            message = f"{count} nodes of {name}; the policy allows {limit.nodes}"
            shows = {"operator": name, "count": count, "limit": limit.nodes}
            yield make("operator/over-limit", "inspect", _where(model, uses[0]), message, shows)
        if facts.cost is not None:
            yield from _sizes(model, facts, name, limit)


def _sizes(model: ModelSpec, facts: Facts, name: str, limit: OperatorLimit) -> Iterator[Finding]:
    """Yield repetitions and output sizes beyond the limit. The job names operators here by their type alone."""
    assert facts.cost is not None
    kind = name.partition("::")[2]
    for trip in facts.cost.trips:
        if trip.op_type == kind and trip.certain and limit.trips is not None and (trip.trips or 0) > limit.trips:
            message = f"{name} repeats {_amount(trip.trips or 0)} times; the policy allows {limit.trips}"
            shows = {"operator": name, "trips": trip.trips, "limit": limit.trips}
            yield make("operator/over-limit", "inspect", f"{model.file}: {trip.where}", message, shows)
    largest = [
        one for one in (facts.cost.largest, *facts.cost.by_operator) if one is not None and one.op_type == kind
    ]
    for one in sorted(largest, key=lambda item: -item.bytes)[:1]:
        if limit.output_bytes is not None and one.bytes > limit.output_bytes:
            message = f"{name} makes {_amount(one.bytes)} bytes; the policy allows {limit.output_bytes}"
            shows = {"operator": name, "bytes": one.bytes, "limit": limit.output_bytes}
            yield make("operator/over-limit", "inspect", f"{model.file}: {one.where}", message, shows)


def versions(model: ModelSpec, facts: Facts, wire: Wire | None, policy: Policy) -> Iterator[Finding]:
    """Yield IR version and operator sets out of range: imports of the model, and what its functions import.

    The ranges are those of the policy's profile. What the wire form told already is not told twice.
    """
    ranges = policy.opsets.of(policy.profile)
    if not ranges.ir_min <= facts.ir_version <= ranges.ir_max:
        message = f"IR version {facts.ir_version}; the policy takes {ranges.ir_min} to {ranges.ir_max}"
        yield make("structure/ir-version-out-of-range", "inspect", model.file, message, {"ir": facts.ir_version})
    told = {(one.domain or "ai.onnx", one.version) for one in wire.opsets} if wire is not None else set()
    seen: dict[tuple[str, int], str] = {}
    for domain, version in sorted(facts.opsets.items()):
        if domain not in facts.unused_domains or domain == "ai.onnx":
            seen.setdefault((domain, version), model.file)
    for use in facts.operators:
        if use.version is not None:
            seen.setdefault((use.domain or "ai.onnx", use.version), _where(model, use))
    for (domain, version), where in seen.items():
        bounds = ranges.range(domain)
        if (
            bounds is None
            or bounds[0] <= version <= bounds[1]
            or (domain == "ai.onnx" and (domain, version) in told)
        ):
            continue
        message = f"{domain} opset {version}; the policy takes {bounds[0]} to {bounds[1]}"
        yield make("structure/opset-out-of-range", "inspect", where, message, {"domain": domain, "opset": version})


def expansion(model: ModelSpec, facts: Facts, policy: Policy) -> Iterator[Finding]:
    """Yield the functions that are larger than the policy allows once the calls in them are expanded."""
    limit = policy.limits.expanded_nodes
    for one in facts.function_facts:
        if one.expanded > limit:
            message = f"{one.name} expands to {_amount(one.expanded)} nodes; the policy allows {limit}"
            shows = {"function": one.name, "expanded": one.expanded, "limit": limit}
            where = f"{model.file}: {one.where}" if one.where else model.file
            yield make("structure/function-expansion", "inspect", where, message, shows)


def _name(use: OpUse) -> str:
    return f"{use.domain or 'ai.onnx'}::{use.op_type}"


def _where(model: ModelSpec, use: OpUse) -> str:
    return f"{model.file}: {use.where}" if use.where else model.file


def _amount(number: int) -> str:
    return "more than 4 * 10^18" if number >= SATURATED else str(number)
