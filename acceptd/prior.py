"""The release that a submission is compared with, as evidence: facts of the accepted submission that made it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from contextlib import suppress
from hashlib import sha256
from posixpath import dirname, join, normpath
from typing import Annotated, Any, Literal

from pydantic import Field, ValidationError

from acceptd.declared import Declared
from acceptd.model_facts import External, Facts
from acceptd.placement_facts import Placement, PlacementSummary, Profiled, ProfilePlacement, summary
from acceptd.structure_facts import Structure
from acceptd.values import Count, Evidence, Text


class ReleasedFile(Evidence):
    """One sealed file that a run of a model reads."""

    path: str
    sha256: str
    size: Count


class Snapshot(Evidence):
    """One model as it was inspected: what two of them are compared by. ``bytes`` is the size of the model file.

    ``sha256`` is the model file's, ``data_sha256`` covers the sealed files that its tensors lie in: see
    :func:`data_digest`. Both empty where not known.
    """

    name: str
    file: str = ""
    bytes: Count
    facts: Facts
    structure: Structure
    sha256: str = ""
    data_sha256: str = ""
    files: Annotated[list[ReleasedFile], Field(max_length=20_001)] = []
    """What a run of it reads: the model file first, then its external data. Empty where not known."""
    placements: Annotated[list[ProfilePlacement], Field(max_length=64)] = []
    """By profile; empty in evidence of older versions, and of a model that has not run yet."""


class Prior(Evidence):
    """The current release of the same model id and channel, when the submission was judged.

    ``none``: there is none, or nobody could know of one (``reason``). ``same``: it is this very bundle. ``found``:
    its facts are in ``models``, and what its manifest says in ``declared`` (None where that is no longer a valid
    manifest). ``unknown``: there is one, and its facts could not be had or not be trusted.
    """

    status: Literal["none", "same", "found", "unknown"]
    reason: Text = ""
    channel: str = ""
    number: Count = 0
    bundle_digest: str = ""
    version: str = ""
    revoked: bool = False
    """Whether it stands although its bundle was revoked: then nothing that follows it has to answer as it does."""
    verdict_seq: Count = 0
    evidence_digest: str = ""
    models: Annotated[list[Snapshot], Field(max_length=32)] = []
    declared: Declared | None = None


def same_or(prior: Prior, digest: str) -> Prior:
    """Return what a bundle is compared with: nothing where it is the very same one."""
    if prior.status == "found" and prior.bundle_digest == digest:
        return prior.model_copy(
            update={"status": "same", "reason": "this is the same bundle", "models": [], "declared": None}
        )
    return prior


NO_LEDGER = Prior(status="none", reason="judged without a ledger: there is no prior release to compare with")


def pruned(facts: Facts) -> Facts:
    """Return the facts without what is never compared, so that evidence that holds them stays small."""
    left_out = ("external", "problems", "initializer_names", "weights", "function_facts")
    uses = [use.model_copy(update={"types": []}) for use in facts.operators]
    return facts.model_copy(update={**{key: [] for key in left_out}, "operators": uses, "cost": None})


def placements_in(jobs: Sequence[Mapping[str, Any]], model: str) -> list[ProfilePlacement]:
    """Return the placements of one model, by profile, from the jobs of stored evidence.

    ``jobs`` are job records as JSON data. What an older version did not write is left out, and so is what it wrote
    in another form: then nothing is compared.
    """
    runs = [job for job in jobs if job.get("kind") == "run" and job.get("model") == model]
    main = {str(job.get("profile", "")): job for job in runs if not job.get("variant") and job.get("placement")}
    timed = {str(job.get("profile", "")): job.get("profiled") for job in runs if job.get("variant") == "profiled"}
    found: list[ProfilePlacement] = []
    for profile, job in sorted(main.items()):
        with suppress(ValidationError):
            placed = Placement.model_validate(job["placement"])
            given = timed.get(profile)
            profiled = Profiled.model_validate(given) if given else None
            session = [str(name) for name in (job.get("schema_") or {}).get("providers", [])]
            wanted = placed.requested_provider
            if wanted:
                one: PlacementSummary = summary(placed, profiled, [wanted], session)
                found.append(ProfilePlacement(profile=profile, summary=one))
    return found[:64]


def data_digest(file: str, external: Sequence[External], count: int, sealed: Mapping[str, str]) -> str:
    """Return one SHA-256 over the sealed files that hold the tensors of the model ``file``; empty if not known.

    ``sealed`` gives digests by path. The locations are a job's word: one that is in no sealed file, or a list that
    was cut, makes the whole unknown.
    """
    paths = _data_paths(file, external, count)
    if paths is None or any(path not in sealed for path in paths):
        return ""
    return sha256(
        "".join(f"{sealed[path]} {path}\n" for path in paths).encode("utf-8", "surrogatepass")
    ).hexdigest()


def released_files(
    file: str, external: Sequence[External], count: int, sealed: Mapping[str, tuple[str, int]]
) -> list[ReleasedFile]:
    """Return the sealed files that a run of the model ``file`` reads; none where they are not all known.

    ``sealed`` gives (SHA-256, bytes) by path. For the locations see :func:`data_digest`.
    """
    paths = _data_paths(file, external, count)
    wanted = [file, *(path for path in paths or () if path != file)]
    if paths is None or any(path not in sealed for path in wanted):
        return []
    return [ReleasedFile(path=path, sha256=sealed[path][0], size=sealed[path][1]) for path in wanted]


def _data_paths(file: str, external: Sequence[External], count: int) -> list[str] | None:
    """Return the paths that external data names, sorted; None where the list was cut."""
    if len(external) != count:
        return None
    return sorted({normpath(join(dirname(file), one.location)) for one in external})
