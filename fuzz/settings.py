"""Targets of the operator's own TOML: ``acceptd.toml``, policies, profiles, contracts; and a reduced build's list.

The files are the operator's, but what a slip of a hand or a half-restored backup makes of one has to end in
ConfigError with a place and a remedy too. A table that is read is written, and read as the same.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any, Final

from acceptd import config
from acceptd.errors import ConfigError, UsageError
from acceptd.policy import load
from acceptd.policy.contract import Contract
from acceptd.policy.defaults import ContractDefaults
from acceptd.policy.manifest import Table
from acceptd.policy.policy import Policy
from acceptd.policy.profile import Profile
from acceptd.policy.reduced import parse_reduced
from acceptd.policy.reviewers import Reviewers
from acceptd.report.escape import line
from fuzz.house import memory_directory, only

ROOT: Final = Path(__file__).resolve().parent.parent
_folder: Path | None = None


def _place(name: str, raw: bytes) -> Path:
    """Write ``raw`` where only this process's user can; return its path."""
    global _folder
    if _folder is None:
        _folder = memory_directory()
    path = _folder / name
    path.write_bytes(raw)
    path.chmod(0o600)
    return path


def _table(raw: bytes, kind: type[Table]) -> Any:
    path = _place("table.toml", raw)
    found = only(ConfigError, lambda: load.read_table(path, kind))
    if found is None:
        return None
    table, troubles = found
    assert table is not None or troubles
    for one in troubles:
        text = one.text("table.toml")
        assert one.line >= 1
        assert "\n" not in one.key
        assert len(text) < 4000
    again = only(ConfigError, lambda: load._load(path, kind))
    assert (again is None) == bool(troubles)
    if again is not None:
        assert again == table
        assert kind.model_validate(table.model_dump(mode="json", by_alias=True), strict=False) == table
        load.digest(table)
    return again


def check_policy(raw: bytes) -> None:
    """A policy; and ``--set`` with a line of it."""
    _table(raw, Policy)
    first = raw.partition(b"\n")[0].decode("utf-8", "replace")
    only(UsageError, lambda: load.with_overrides(Policy(), [first]))


def check_contract(raw: bytes) -> None:
    """A contract, defaults of contracts, and the list of reviewers."""
    for kind in (Contract, ContractDefaults, Reviewers):
        _table(raw, kind)


def check_profile(raw: bytes) -> None:
    """A profile."""
    _table(raw, Profile)


def check_settings(raw: bytes) -> None:
    """``acceptd.toml``."""
    path = _place(config.FILE, raw)
    found = only(ConfigError, lambda: config.load_with_sources(path.parent))
    if found is not None:
        settings, sources = found
        assert config.Settings.model_validate(settings.model_dump(mode="json")) == settings
        assert set(sources.values()) <= {config.FILE}


def check_reduced(raw: bytes) -> None:
    """The required-operators file of a reduced build."""
    found = only(ConfigError, lambda: parse_reduced(raw, "ops.config"))
    if found is not None:
        assert all(1 <= one.opset <= 10_000 for kernels in found.kernels.values() for one in kernels)
        assert all(line(name) == name for _, name in found.kernels)


def seeds() -> dict[str, dict[str, bytes]]:
    """Return the shipped files, their examples and small ones, by target."""
    folder = ROOT / "policies"
    small = {
        "strings": b"policy = \"x\\u00e9\\n\"\npolicies = '''raw\nlines'''\nworkers = 1_0\n"
        b'"queue_limit" = 0x1F\n',
        "nested": b"[inbox]\nsettle_seconds = 1\n[keys.ledger]\ncommand = [\"/bin/true\", 'x']\n"
        b'[[hooks]]\nname = "h"\n'
        b'command = ["/bin/true"]\n[[exports]]\nname = "e"\nkind = "plain"\ndirectory = "/srv/e"\n',
        "record": b'record.url = "postgresql://acceptd@db.example:5432/acceptd?sslmode=verify-full"\n'
        b'[objects]\nurl = "s3://bucket/prefix"\n[fleet]\nrole = "worker"\nname = "gpu-1"\n',
        "broken": b'policy = "no end\n[b\n= 1\n',
        "twice": b"workers = 1\nworkers = 2\n[inbox]\n[inbox]\n",
    }
    profiles = {f"profile-{one.stem}": one.read_bytes() for one in sorted((folder / "profiles").glob("*.toml"))}
    contracts = {
        "contract": (folder / "contracts/mosaic/evidence-disposition.toml.example").read_bytes(),
        "defaults": (folder / "contracts/defaults/teams/mosaic.toml.example").read_bytes(),
        "reviewers": (folder / "reviewers.toml.example").read_bytes(),
    }
    policies = {one.stem: _bare(one.read_bytes()) for one in sorted(folder.glob("*.toml"))}
    uncommented = {f"{name}-set": _uncommented(text) for name, text in (policies | contracts | profiles).items()}
    reduced = (
        b"# comment\n!globally_allowed_types;float,int64_t\nai.onnx;12,13;Add,Concat\n\ncom.microsoft;1;Gelu\n"
    )
    typed = (
        b"!no_ops_specified_means_all_ops_are_required\n"
        b'ai.onnx;13;Cast{"inputs": {"0": ["float"]}, "outputs": {"0": ["int64_t"]}},Concat\n'
    )
    return {
        "policy": policies,
        "contract": contracts
        | {name: text for name, text in uncommented.items() if name.removesuffix("-set") in contracts},
        "profile": profiles | {name: text for name, text in uncommented.items() if name.startswith("profile-")},
        "settings": small,
        "reduced": {"typed": typed, "global": reduced, "all": b"!no_ops_specified_means_all_ops_are_required\n"},
    }


def _bare(text: bytes) -> bytes:
    """Return TOML without its comments and empty lines: there are many."""
    return b"".join(row + b"\n" for row in text.split(b"\n") if row.strip() and not row.startswith(b"#"))


def _uncommented(text: bytes) -> bytes:
    """Return an example with its keys set: the lines that are comments of the form ``# key = value``."""
    kept = []
    for row in text.split(b"\n"):
        bare = row.removeprefix(b"#").strip()
        if bare.startswith(b"[") or (b" = " in bare and b" " not in bare.partition(b" = ")[0]):
            kept.append(bare)
    return b"\n".join(kept) + b"\n"
