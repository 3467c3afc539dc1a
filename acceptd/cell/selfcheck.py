"""Before a daemon takes drops: one harmless job shows that every required wall holds here."""

from __future__ import annotations

from pathlib import Path

from acceptd.cell.client import Cell
from acceptd.cell.doctor import MEANING
from acceptd.cell.limits import job_limits
from acceptd.errors import CellUnavailableError
from acceptd.intake import files
from acceptd.policy.policy import Policy

_PLACE = "selfcheck"
_TEXT = b"schema = 1\n"


def require_walls(cell: Cell, sealed: Path, policy: Policy) -> None:
    """Raise CellUnavailableError, naming each wall and its remedy, unless all required ones hold."""
    folder = sealed / _PLACE
    folder.mkdir(mode=0o755, exist_ok=True)
    folder.chmod(0o755)
    files.replace_file(folder, "bundle.toml", _TEXT, 0o444)
    try:
        record = cell.run(
            "manifest",
            files={"bundle.toml": f"{_PLACE}/bundle.toml"},
            spec={"path": "bundle.toml"},
            limits=job_limits("manifest", policy.limits),
            required_walls=[],
        )
    except OSError as error:  # descriptors, memory or processes ran out here, or the job died before its order
        raise CellUnavailableError(
            f"the self-check job could not be given to the cell: {error.strerror or error}",
            remedy="see how many files and processes this process may have; `acceptd doctor` shows more",
        ) from error
    files.remove_tree(sealed, _PLACE)
    states = dict(cell.outer_states) | (dict(record.walls.states) if record.walls else {})
    missing = [wall for wall in policy.required_walls if states.get(wall) != "enforced"]
    if missing:
        lines = "; ".join(f"{wall}: {MEANING[wall][1]}" for wall in missing)
        raise CellUnavailableError(
            f"policy {policy.name} requires walls that do not hold here: {', '.join(missing)}",
            remedy=f"{lines}. `acceptd doctor` shows more",
        )
    if record.ending != "done":
        raise CellUnavailableError(
            f"the self-check job ended as {record.ending}: {record.cause or record.message}",
            remedy="run `acceptd doctor`",
        )
