"""What belongs to a model beside its bytes: the identity of its preprocessing and of its labels. Pure.

Both are declared in ``bundle.toml``, so the bundle digest binds them; ``release.json`` names them in the open,
for a caller to compare with his own before he feeds anything. Without pydantic: the loader uses it too.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from acceptd.errors import LedgerError, MalformedError
from acceptd.record.canonical import digest


def preprocessing_of(manifest: Mapping[str, Any]) -> dict[str, str] | None:
    """Return ``version`` and ``sha256`` of the preprocessing of a manifest, None where it declares none.

    ``sha256`` is the submitter's digest of his preprocessing code or configuration: what a caller compares.
    """
    table = manifest.get("preprocessing")
    if not isinstance(table, Mapping):
        return None
    return {"version": str(table.get("version", "")), "sha256": str(table.get("sha256", ""))}


def labels_of(manifest: Mapping[str, Any]) -> dict[str, str] | None:
    """Return ``schema_version`` and ``sha256`` of the labels that a manifest declares, None where there are none.

    ``sha256`` is over the RFC 8785 form of the schema version and of every output with labels, in the
    manifest's order: ``{"outputs": [{"labels": [...], "model": ..., "output": ...}], "schema_version": ...}``.
    Another order of labels is another digest. Raises MalformedError for labels that are no list of text.
    """
    table = manifest.get("labels")
    version = str(table.get("schema_version", "")) if isinstance(table, Mapping) else ""
    outputs = [
        {"model": str(model.get("name", "")), "output": str(row.get("name", "")), "labels": _labels(row["labels"])}
        for model in _rows(manifest.get("models"))
        for row in _rows(model.get("outputs"))
        if row.get("labels")
    ]
    if not outputs and not isinstance(table, Mapping):
        return None
    try:
        return {"schema_version": version, "sha256": digest({"schema_version": version, "outputs": outputs})}
    except LedgerError as error:
        raise MalformedError(f"labels that no document can hold: {error}") from error


def _labels(value: object) -> list[Any]:
    if not isinstance(value, list | tuple):
        raise MalformedError("the labels of an output are a list")
    return list(value)


def agreed(document: Mapping[str, Any], manifest: Mapping[str, Any]) -> None:
    """Raise MalformedError where ``release.json`` names another identity than its manifest; one may name none."""
    for key, due in (("preprocessing", preprocessing_of(manifest)), ("labels", labels_of(manifest))):
        if document.get(key) not in (None, due):
            raise MalformedError(f"release.json: {key} is not what its manifest declares")


def _rows(value: object) -> list[Mapping[str, Any]]:
    return [row for row in value if isinstance(row, Mapping)] if isinstance(value, list | tuple) else []
