"""Every target by name: what it reads and where those bytes come from. ``docs/fuzzing.md`` says what must hold.

A target's function takes bytes and raises AssertionError where a promise is broken; any exception that leaves it
is a finding. Modules are loaded when they are asked for: atheris has to be there before what it instruments.
"""

from __future__ import annotations

import importlib
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Final

CORPUS: Final = Path(__file__).resolve().parent / "corpus"
CACHE: Final = CORPUS.parent.parent / ".cache/fuzz"
FINDINGS: Final = Path(__file__).resolve().parent / "findings"

Check = Callable[[bytes], None]


@dataclass(frozen=True, slots=True)
class Target:
    """One parser under test. ``most``: bytes of the longest input; ``form``: how ``mutate.py`` changes one."""

    name: str
    place: str
    """Module below ``fuzz`` and function."""
    most: int
    form: str
    source: str
    """Whose bytes these are."""

    def load(self) -> Check:
        """Import and return the function."""
        module, _, function = self.place.partition(":")
        check: Check = getattr(importlib.import_module(f"fuzz.{module}"), function)
        return check


K: Final = 1 << 10
_ALL: Final = (
    Target("wire", "wire:check", 64 * K, "", "a submitter's model file"),
    Target("manifest", "manifest:check", 16 * K, "toml", "a submitter's bundle.toml"),
    Target("frames", "frames:check", 64 * K, "frames", "a job in the cell"),
    Target("entries", "frames:check_entries", 16 * K, "frames", "the job that unpacks an archive"),
    Target("tensors", "tensors:check", 8 * K, "task", "files of values that jobs leave behind"),
    Target("judged", "judged:check", 64 * K, "json", "evidence of the documented form, whoever made it"),
    Target("names", "names:check", 2 * K, "lines", "names of drops and files, addresses of the console"),
    Target("native", "names:check_native", 1 * K, "", "the first bytes of a submitted file"),
    Target("channel", "signed:check_channel", 8 * K, "json", "whoever may write below a loader's root"),
    Target("release", "signed:check_release", 16 * K, "json", "whoever may write below a loader's root"),
    Target("revocations", "signed:check_revocations", 8 * K, "json", "whoever may write below a loader's root"),
    Target("rotations", "signed:check_rotations", 16 * K, "json", "whoever may write below a loader's root"),
    Target("export", "signed:check_export", 16 * K, "json", "whoever may write where a release is exported"),
    Target("loader", "loader_tree:check", 4 * K, "json", "a whole directory, in the hands of an attacker"),
    Target("keyring", "signed:check_keyring", 8 * K, "json", "the file of public keys that a loader was handed"),
    Target(
        "checkpoint", "signed:check_checkpoint", 2 * K, "lines", "signed notes: release.json, anchors, witnesses"
    ),
    Target("anchor", "anchor:check", 8 * K, "lines", "a journal, a command or a directory outside the state"),
    Target("envelope", "signed:check_envelope", 16 * K, "json", "DSSE statements, in the ledger and handed on"),
    Target("verify", "signed:check_verify", 16 * K, "json", "a signed file that somebody was handed"),
    Target("canonical", "signed:check_canonical", 8 * K, "json", "entries of a ledger, evidence, signed payloads"),
    Target("receipts", "receipts:check", 8 * K, "json", "JSON lines of whoever serves a model"),
    Target("decision", "people:check_decision", 8 * K, "json", "a file that somebody says a reviewer signed"),
    Target("version", "people:check_version", 16 * K, "json", "a contract that somebody says reviewers signed"),
    Target("advisories", "people:check_advisories", 8 * K, "json", "a list that somebody says a reviewer signed"),
    Target("seal", "fleet:check_seal", 8 * K, "json", "the shared record of a fleet; an intake that fell"),
    Target(
        "statement", "fleet:check_statement", 8 * K, "json", "the shared record of a fleet; a worker that fell"
    ),
    Target("evidence", "fleet:check_evidence", 64 * K, "json", "the object store of a fleet; a worker that fell"),
    Target("order", "fleet:check_order", 16 * K, "json", "the shared record of a fleet"),
    Target("prior", "fleet:check_prior", 16 * K, "json", "the object store of a fleet, its queue of tasks"),
    Target("inventory", "fleet:check_inventory", 8 * K, "json", "the object store of a fleet"),
    Target("handover", "fleet:check_handover", 8 * K, "json", "the shared record of a fleet; an intake that fell"),
    Target("policy", "settings:check_policy", 16 * K, "toml", "the operator's policy, and --set"),
    Target(
        "contract", "settings:check_contract", 8 * K, "toml", "the operator's contracts, defaults and reviewers"
    ),
    Target("profile", "settings:check_profile", 8 * K, "toml", "the operator's profiles"),
    Target("settings", "settings:check_settings", 8 * K, "toml", "the operator's acceptd.toml"),
    Target("reduced", "settings:check_reduced", 4 * K, "lines", "the operator's list of a reduced build"),
    Target("own", "own:check", 4 * K, "own", "acceptd's own small files and answers, spoilt"),
)
TARGETS: Final[dict[str, Target]] = {one.name: one for one in _ALL}
