"""Codes of the export record and the licence: what a bundle tells of its own origin."""

from __future__ import annotations

from typing import Final

from acceptd.judge.code import Code, Table


def _missing(what: str, key: str) -> Code:
    return Code(
        "hold",
        "team",
        f"The policy wants the export record to name {what}, and bundle.toml does not.",
        f"Give {key} in bundle.toml; docs/bundle.md shows its form.",
    )


TABLE: Final[Table] = {
    "export/checkpoint-missing": _missing("the checkpoint that was exported", "export.checkpoint"),
    "export/code-revision-missing": _missing("the revision of the code that made it", "export.code_revision"),
    "export/dataset-lineage-missing": _missing("the data it was made from", "export.dataset_lineage"),
    "export/exporter-missing": _missing("the exporting program and its version", "export.exporter"),
    "export/framework-missing": _missing("the training framework", "export.framework"),
    "export/layers-missing": _missing("the number of layers of the source", "export.layers"),
    "export/parity-missing": _missing("a comparison of the export with its source", "export.parity"),
    "export/quality-missing": _missing("at least one quality result", "export.quality"),
    "export/redistribution-missing": _missing("the terms of redistribution", "export.redistribution"),
    "export/tested-hardware-missing": _missing("the hardware that was tested", "export.tested_hardware"),
    "export/parity-failed": Code(
        "hold",
        "team",
        "The export record itself says that the exported model did not agree with its source.",
        "Export again until the comparison passes, or explain the difference to a reviewer.",
    ),
    "license/missing": Code(
        "hold",
        "team",
        "The policy allows certain licences only, and bundle.toml names none.",
        "Give bundle.license as an SPDX expression.",
    ),
    "license/not-allowed": Code(
        "hold",
        "team",
        "The bundle's licence is not one that the policy allows, or is no SPDX expression. Of `A OR B` one has to "
        "be allowed, of `A AND B` both.",
        "Give bundle.license as an SPDX expression of allowed licences, or ask the acceptor to allow it.",
    ),
}
