"""The model file itself: wire form, limits, operators, opsets, external data, checker. Pure.

The facts come from a hostile job; what the trusted side can check again (sizes, the sealed
inventory, the policy's lists) is checked again here.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Final

from acceptd.evidence import Check, External, Facts, JobRecord, Sealed, Wire
from acceptd.judge.finding import Finding
from acceptd.judge.inventory import Inventory
from acceptd.judge.jobs import place
from acceptd.judge.operators import expansion, operators, versions
from acceptd.judge.wire import disagreements, over, problems, wire_form
from acceptd.judge.words import make, printable, safe
from acceptd.policy.manifest import ModelSpec
from acceptd.policy.policy import Policy

_SHADOWING: Final = re.compile(
    r"(ValidationError: )?Graph must be in single static assignment \(SSA\) form, "
    r"however '.*' has been used as (output|graph input) names multiple times\."
)
"""The checker's whole sentence: a part of it may stand in any refusal as the name of a node."""


_BY_FILE: Final = frozenset({"external-data/missing-file", "external-data/out-of-range"})
"""What a lost or truncated data file makes true of each of its tensors."""


def structure(
    model: ModelSpec, record: JobRecord | None, policy: Policy, sealed: Sealed, inventory: Inventory
) -> list[Finding]:
    """Return what the ``inspect`` job of one model shows. A missing job is a missing stage, not a finding."""
    found = list(_file(model, policy, sealed))
    if record is None:
        return found
    if record.wire is not None:
        found += wire_form(model, record.wire, policy)
    if record.facts is not None:
        found += _facts(model, record.facts, record.wire, policy)
        found += operators(model, record.facts, policy)
        said = {(one.code, one.where) for one in found}
        own = list(_external(model, record.facts, sealed, inventory))
        found += [one for one in own if one.code not in _BY_FILE or (one.code, one.where) not in said]
        found = _by_file(model, record.facts, found)
        if record.wire is not None:
            found += disagreements(model, record.wire, record.facts)
    if record.checker is not None:
        found += _checker(model, record.checker)
    if record.shapes is not None and not record.shapes.ok:
        skipped = record.shapes.skipped
        code = "structure/shape-inference-skipped" if skipped else "structure/shape-inference-failed"
        found.append(make(code, "inspect", model.file, skipped or record.shapes.message or place(record)))
    return found


def _file(model: ModelSpec, policy: Policy, sealed: Sealed) -> Iterator[Finding]:
    size = next((file.size for file in sealed.files if file.path == model.file), None)
    if size is not None:
        limit = policy.limits.model_bytes
        yield from over("structure/model-too-large", model, "bytes", size, limit)


def _facts(model: ModelSpec, facts: Facts, wire: Wire | None, policy: Policy) -> Iterator[Finding]:
    limits = policy.limits
    yield from problems(model, facts.problems)
    yield from over("structure/too-many-nodes", model, "nodes", facts.nodes, limits.nodes)
    yield from over(
        "structure/too-many-initializers", model, "initializers", facts.initializers, limits.initializers
    )
    yield from over("structure/too-many-scopes", model, "graphs and functions", facts.scopes, limits.scopes)
    yield from over(
        "structure/metadata-too-large", model, "bytes of metadata", facts.metadata_bytes, limits.metadata_bytes
    )
    yield from versions(model, facts, wire, policy)
    yield from expansion(model, facts, policy)
    if facts.unused_domains:
        names = sorted(facts.unused_domains)
        many = f"{len(names)} domain{'s' if len(names) > 1 else ''}"
        message = f"imports {many} that no node uses: {', '.join(names[:8])}"
        yield make("structure/unused-domain", "inspect", model.file, message, {"domains": names[:32]})
    overridable = [value.name for value in facts.inputs if value.overridable]
    if overridable and not any(one.code == "structure/overridable-initializer" for one in facts.problems):
        message = f"{len(overridable)} weights are also inputs, first {overridable[0]!r}"
        yield make("structure/overridable-initializer", "inspect", model.file, message, {"names": overridable[:8]})


_REMOTE: Final = re.compile(r"[A-Za-z][A-Za-z0-9+.-]*:|[\\/]{2}|.*://", re.ASCII | re.DOTALL)
"""A URI scheme (a drive letter is the shortest), ``//host``, UNC, a URL further in."""


def refusal(location: str) -> str:
    """Return the finding code for an external location that is no plain relative path; empty for one that is."""
    if _REMOTE.match(location.lstrip()):
        return "external-data/remote-location"
    parts = location.split("/")
    if location.startswith("/") or ".." in parts or "\\" in location or "\0" in location:
        return "external-data/path-escape"
    return "" if any(part not in {"", "."} for part in parts) else "external-data/path-escape"


def resolve(model_file: str, location: str) -> str | None:
    """Return the bundle path that an external location means beside its model; None if it may leave the bundle.

    Refused outright is what :func:`refusal` names. onnxruntime resolves locations beside the real
    path of the model.
    """
    if refusal(location):
        return None
    directory = model_file.rpartition("/")[0]
    parts = [part for part in location.split("/") if part not in {"", "."}]
    return "/".join([*([directory] if directory else []), *parts])


def _by_file(model: ModelSpec, facts: Facts, found: list[Finding]) -> list[Finding]:
    """Return the findings with one per file of those that say the same of each of its tensors, with a count."""
    paths = {_place(model, one): resolve(model.file, one.location) for one in facts.external}
    first: dict[tuple[str, str], int] = {}
    places: dict[tuple[str, str], list[str]] = {}
    result: list[Finding] = []
    for one in found:
        path = paths.get(one.where) if one.code in _BY_FILE else None
        if path is None:
            result.append(one)
            continue
        key = (one.code, path)
        places.setdefault(key, []).append(one.where)
        if key not in first:
            first[key] = len(result)
            result.append(one)
    for key, index in first.items():
        if len(places[key]) > 1:
            shows = {"file": key[1], "tensors": len(places[key]), "places": places[key][:8]}
            evidence = {**result[index].evidence, **safe(shows)}
            result[index] = result[index].model_copy(update={"count": len(places[key]), "evidence": evidence})
    return result


def _place(model: ModelSpec, one: External) -> str:
    return printable(f"{model.file}: {one.where or one.tensor}")


def _external(model: ModelSpec, facts: Facts, sealed: Sealed, inventory: Inventory) -> Iterator[Finding]:
    sizes = {file.path: file.size for file in sealed.files}
    forbidden = frozenset(inventory.forbidden)
    if facts.external_count > len(facts.external):
        message = f"{facts.external_count} records, of which {len(facts.external)} were reported"
        yield make("external-data/too-many", "inspect", model.file, message)
    told = {problem.where for problem in facts.problems if problem.code.startswith("external-data/")}
    for one in facts.external:
        where = _place(model, one)
        shows = {"tensor": one.tensor, "location": one.location, "offset": one.offset, "length": one.length}
        path = resolve(model.file, one.location)
        start, span = one.offset or 0, one.length or 0
        if path is None:
            code = refusal(one.location)
            what = "leads out" if code == "external-data/path-escape" else "is no file"
            yield make(code, "inspect", where, f"location {one.location!r} {what} of the bundle", shows)
        elif path in forbidden:
            message = f"location {one.location!r} is a vector file, the manifest or a model"
            yield make("external-data/names-forbidden-file", "inspect", where, message, shows)
        elif path not in sizes:
            yield make("external-data/missing-file", "inspect", where, f"no file {path!r} in the bundle", shows)
        elif start < 0 or span < 0 or start + span > sizes[path]:
            message = f"bytes {start} to {start + span} of {path!r}, which has {sizes[path]} bytes"
            yield make("external-data/out-of-range", "inspect", where, message, shows)
        elif not one.inside and one.where not in told:
            message = f"location {one.location!r} was not found to lie inside the bundle"
            yield make("external-data/path-escape", "inspect", where, message, shows)


def _checker(model: ModelSpec, check: Check) -> Iterator[Finding]:
    if check.ok:
        return
    if check.skipped:
        yield make("structure/checker-skipped", "inspect", model.file, check.skipped)
    elif _SHADOWING.fullmatch(check.message.partition("\n")[0]):
        # Within one graph the runtime itself refuses a second definition; what is left is shadowing.
        yield make("structure/shadowed-name", "inspect", model.file, check.message)
    else:
        yield make("structure/checker-failed", "inspect", model.file, check.message or "refused without a message")
