"""Codes of the export record, the licence, and of what is new beside the current release."""

from __future__ import annotations

from typing import Final

from acceptd.judge.catalogue.code import Code, Table


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
    "export/independent-byte-equal": Code(
        "info",
        "team",
        "The independent export is the same file as the model, so it shows nothing.",
        "Export it by other means (another exporter or version), or leave it out: a copy shows nothing.",
    ),
    "export/independent-differs": Code(
        "warn",
        "team",
        "The model and its independent export differ in structure or in weights. Two exporters often write two "
        "graphs; what differs is in the report.",
        "Compare the exports; tell a reviewer why they differ.",
    ),
    "export/independent-graph-equal": Code(
        "info",
        "team",
        "The model and its independent export have the same canonical graph, weights included.",
        "Nothing to do.",
    ),
    "export/independent-unknown": Code(
        "warn",
        "team",
        "The model and its independent export could not be compared to the end.",
        "Mend what the other findings name in either file.",
    ),
    "difference/initializers-changed": Code(
        "info",
        "reviewer",
        "Initializers were added or removed since the current release.",
        "Nothing to do where the change was announced.",
    ),
    "difference/interface-changed": Code(
        "warn",
        "reviewer",
        "An input or output has another name, type or shape than in the current release.",
        "Ask the team whether its callers know; a contract would fix the interface.",
    ),
    "difference/meaning-changed": Code(
        "warn",
        "reviewer",
        "bundle.toml declares other labels, another order of labels, another output kind, another range, or other "
        "inputs, outputs or models than that of the current release: the same numbers now mean something else.",
        "Compare both values; ask the team whether its callers know. A contract would fix them.",
    ),
    "difference/models-changed": Code(
        "warn",
        "reviewer",
        "The bundle has other models than the current release.",
        "Ask the team whether that was meant.",
    ),
    "difference/new-branch": Code(
        "info",
        "reviewer",
        "The model selects in a place where the current release does not; no input decides.",
        "Nothing to do where the change was announced.",
    ),
    "difference/new-domain": Code(
        "warn",
        "reviewer",
        "The model uses operators of a domain that the current release does not use.",
        "Ask the team why; the runtime's operators of that domain become part of what is trusted.",
    ),
    "difference/new-operator": Code(
        "info",
        "reviewer",
        "The model uses operators that the current release does not use.",
        "Nothing to do where the change was announced.",
    ),
    "difference/new-selection": Code(
        "warn",
        "reviewer",
        "An input decides about a selection (Where, If, Loop, Compress, a mask, an index) that the current "
        "release does not have: the shape of a trigger, and of honest masks too.",
        "Look at the condition and the way to it; ask the team what it is for before the release.",
    ),
    "difference/operator-gone": Code(
        "info",
        "reviewer",
        "The model no longer uses operators that the current release uses.",
        "Nothing to do where the change was announced.",
    ),
    "difference/selection-changed": Code(
        "info",
        "reviewer",
        "Selections of the same kind as before are now decided by a value that is computed differently.",
        "Look at those where nothing that they depend on was meant to change.",
    ),
    "difference/size-changed": Code(
        "info",
        "reviewer",
        "The model has another size, number of parameters or number of nodes than the current release.",
        "Nothing to do where the change was announced.",
    ),
    "difference/terms-changed": Code(
        "warn",
        "reviewer",
        "bundle.toml declares another type, shape, bound, tolerance, preprocessing, label schema, licence, "
        "purpose or list of prohibited uses than that of the current release.",
        "Compare both values; ask the team whether the change was meant.",
    ),
    "difference/unknown": Code(
        "warn",
        "reviewer",
        "There is a current release, but it is not known, or known only in part, what differs from it.",
        "Run `acceptd ledger verify`; compare the two bundles by hand before the release.",
    ),
    "difference/version-changed": Code(
        "info",
        "reviewer",
        "The IR version or an opset import is another than in the current release.",
        "Nothing to do where the change was announced.",
    ),
    "license/missing": Code(
        "hold",
        "team",
        "The policy allows certain licences only, and bundle.toml names none.",
        'Give it in [bundle] of bundle.toml as an SPDX expression: `license = "Apache-2.0"`.',
    ),
    "license/not-allowed": Code(
        "hold",
        "team",
        "The bundle's licence is not one that the policy allows, or is no SPDX expression. Of `A OR B` one has to "
        "be allowed, of `A AND B` both.",
        "Give bundle.license as an SPDX expression of allowed licences, or ask the acceptor to allow it.",
    ),
}
