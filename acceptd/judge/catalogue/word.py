"""Codes of what people wrote: manifest, policy, contract."""

from __future__ import annotations

from typing import Final

from acceptd.judge.catalogue.code import Code, Table
from acceptd.judge.catalogue.exporters import LOCK

TABLE: Final[Table] = {
    "manifest/datetime": Code(
        "reject",
        "team",
        "bundle.toml holds a TOML date or time; the manifest has none.",
        "Write it as a string in quotes.",
    ),
    "manifest/file-missing": Code(
        "reject",
        "team",
        "bundle.toml names a model file that is not in the bundle.",
        "Add the file, or correct `file` in [[models]]; it is a path inside the bundle.",
    ),
    "manifest/inferred": Code(
        "hold",
        "team",
        "The bundle has no bundle.toml; its interface was inferred from the model, so nothing in it was "
        "promised by a person.",
        "Add a bundle.toml (`acceptd bundle init DIR --id TEAM/NAME` proposes one), or have a reviewer "
        "approve what was inferred.",
    ),
    "manifest/invalid": Code(
        "reject",
        "team",
        "bundle.toml is not of the documented form.",
        "Correct the key that is named; `acceptd schema show bundle` gives editors the form, docs/bundle.md"
        " explains every key.",
    ),
    "manifest/invalid-range": Code(
        "reject",
        "team",
        "A declared range has its ends the wrong way round, or an end that is no finite number.",
        "Give `range = [lowest, highest]` with two finite numbers.",
    ),
    "manifest/labels-width": Code(
        "reject",
        "team",
        "The number of labels differs from the declared width of the output.",
        "Give `labels` of the output one name for each column, in the order of the columns.",
    ),
    "manifest/lock-mismatch": Code(
        "reject",
        "team",
        "A file has another size or SHA-256 than the [files] lock says.",
        f"Write the lock again after the last change to the files: {LOCK}.",
    ),
    "manifest/lock-missing-file": Code(
        "reject",
        "team",
        "The [files] lock names a file that is not in the bundle.",
        f"Add the file, or write the lock again: {LOCK}.",
    ),
    "manifest/missing": Code(
        "reject",
        "team",
        "The bundle has no bundle.toml, and the policy does not judge a bundle by an inferred one.",
        "Let acceptd propose one from the model: `acceptd bundle init DIR --id TEAM/NAME`; docs/bundle.md "
        "explains every key.",
    ),
    "manifest/no-model": Code(
        "reject",
        "team",
        "The bundle holds no file that could be its model.",
        "Put model.onnx at the top of the bundle, or name the model in bundle.toml.",
    ),
    "manifest/not-in-lock": Code(
        "reject",
        "team",
        "The bundle holds a file that the [files] lock does not name.",
        f"Remove the file, or write the lock again: {LOCK}.",
    ),
    "manifest/not-toml": Code(
        "reject",
        "team",
        "bundle.toml is not valid TOML 1.0.",
        "Mend the line that the message names: texts stand in quotes, tables in [brackets].",
    ),
    "manifest/not-utf8": Code(
        "reject",
        "team",
        "bundle.toml is not valid UTF-8.",
        "Save it as UTF-8.",
    ),
    "manifest/number-out-of-range": Code(
        "reject",
        "team",
        "A number in bundle.toml does not fit 64 bits.",
        "Give a whole number that fits 64 bits.",
    ),
    "manifest/reserved-version": Code(
        "reject",
        "team",
        "The version 0+inferred is reserved for manifests that acceptd itself inferred.",
        "Give `version` in [bundle] a version of your own, for example 1.0.0.",
    ),
    "manifest/team-mismatch": Code(
        "reject",
        "team",
        "The team in bundle.id is another than the team whose inbox the drop came through.",
        "Submit through your own team's inbox, or correct bundle.id.",
    ),
    "manifest/text-too-long": Code(
        "reject",
        "team",
        "A key or a string in bundle.toml is longer than 4,096 characters.",
        "Shorten it to 4,096 characters; long texts belong into a file of the bundle.",
    ),
    "manifest/too-deep": Code(
        "reject",
        "team",
        "bundle.toml nests keys or brackets deeper than any manifest needs.",
        "Keep to the documented tables; docs/bundle.md shows a whole bundle.toml.",
    ),
    "manifest/too-large": Code(
        "reject",
        "team",
        "bundle.toml is larger than 64 KiB.",
        "Move large lists into an asset file.",
    ),
    "manifest/undeclared-file": Code(
        "warn",
        "team",
        "A file of the bundle is no model, no golden vector, no external data of a model, and no [files] lock "
        "names it: it rides along. Its content was looked at for payloads.",
        f"Remove it, or write a [files] lock that names every file: {LOCK}.",
    ),
    "manifest/undeclared-model": Code(
        "hold",
        "team",
        "A file is named as a model is, and no [[models]] table names it: nothing in it was inspected.",
        "Declare it in [[models]], or remove it from the bundle; a [files] lock alone is not enough.",
    ),
    "manifest/vectors-overlap": Code(
        "reject",
        "team",
        "A golden-vector pattern also covers a model file or bundle.toml.",
        "Keep golden vectors in directories of their own and name those.",
    ),
    "policy/override-ignored": Code(
        "warn",
        "reviewer",
        "The policy tries to lower a finding whose severity is fixed; the finding kept its own severity.",
        "The operator removes the line from [severity] of the policy.",
    ),
    "policy/unknown-code": Code(
        "warn",
        "reviewer",
        "The policy's [severity] names a finding code that does not exist.",
        "The operator corrects or removes the line.",
    ),
    "contract/missing": Code(
        "hold",
        "reviewer",
        "The acceptor has no contract for this model and the policy wants one.",
        "A reviewer agrees on one: acceptd contract propose, sign, install (docs/contracts.md).",
    ),
    "contract/model-missing": Code(
        "reject",
        "team",
        "The contract names a model that the bundle does not have.",
        "Add the model, under the contract's name.",
    ),
    "contract/model-unexpected": Code(
        "reject",
        "team",
        "The bundle has a model that the contract does not name.",
        "Remove the model, or ask the acceptor to extend the contract.",
    ),
    "contract/none": Code(
        "info",
        "reviewer",
        "The acceptor has no contract for this model; only the submitter's own manifest was held against it.",
        "Nothing to do; a reviewer may write one: `acceptd contract propose` gives it its first form.",
    ),
    "contract/refused": Code(
        "hold",
        "team",
        "The acceptor's contract file for this model cannot be read or trusted, so nothing was judged by it.",
        "The operator mends the file (the daemon's log names the place); then submit again.",
    ),
    "contract/wrong-id": Code(
        "reject",
        "team",
        "The contract is for another model id than the manifest names.",
        "Correct bundle.id, or ask the acceptor for a contract of this model.",
    ),
}
