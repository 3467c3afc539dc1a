"""What onnxruntime itself says of a model whose file leaves its interface open: a ``run`` job without an input."""

from __future__ import annotations

import hashlib

from acceptd.bundling.listing import Listing
from acceptd.bundling.stage import laid
from acceptd.cell.blobs import closing_blob, lent
from acceptd.cell.limits import job_limits
from acceptd.evidence import Facts, Schema
from acceptd.local import Bench


def open_in(facts: Facts) -> bool:
    """Say whether the file leaves the rank or the element type of a tensor open."""
    values = [value for value in (*facts.inputs, *facts.outputs) if not value.overridable]
    return any(value.kind == "tensor" and (value.shape is None or value.dtype == "undefined") for value in values)


def loaded(place: Bench, listing: Listing, model: str, external: list[str]) -> Schema | None:
    """Return the interface as the session of the policy's first profile reports it; None where none was made."""
    paths = [model, *external]
    rules = place.rules
    with listing.at(model).open("rb") as file:
        digest = hashlib.file_digest(file, "sha256").hexdigest()
    mapped = sum(listing.at(path).stat().st_size for path in external)
    spec = {
        "model": model,
        "sha256": digest,
        "size": listing.files[model],
        "external": external,
        "declared": {"inputs": [], "outputs": []},
        "dims": {},
        "profile": rules.profile.model_dump(mode="json", by_alias=True),
        "sets": [],
        "probes": False,
        "seed": "0",
        "inferred": True,
        "optimised": True,
        "repeats": 1,
    }
    with (
        laid(place, listing.root, paths, listing.followed) as stage,
        closing_blob(place.tools.temporary) as nothing,
        lent({"inputs": nothing.reader(), "outputs": nothing.writer()}) as blobs,
    ):
        record = place.tools.cell.run(
            "run",
            files={path: f"{stage}/{path}" for path in paths},
            spec=spec,
            limits=job_limits("run", rules.policy.limits, mapped_bytes=mapped),
            required_walls=rules.policy.required_walls,
            blobs=blobs,
            profile=rules.profile,
            proc_fd=bool(external),
        )
    return record.schema_
