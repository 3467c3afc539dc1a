"""Where things are and how this installation behaves: ``acceptd.toml``, ``ACCEPTD_*``, ``--state DIR``.

Order of precedence: command line, environment, ``acceptd.toml`` in the state directory, defaults.
The state directory of a checkout is its ``var/``, else ``/var/lib/acceptd``.
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from pathlib import Path
from typing import Annotated, Any, Final, Literal

from pydantic import AfterValidator, BaseModel, ConfigDict, Field, model_validator

from acceptd.errors import ConfigError, StateError
from acceptd.export.settings import ExportTable, HookTable, distinct
from acceptd.fleet.settings import FleetTable, Role
from acceptd.objectstore.settings import ObjectsTable
from acceptd.policy import tomlfile
from acceptd.policy.troubles import Trouble, first
from acceptd.policy.trusted import read_trusted
from acceptd.postgres_url import record_url

INSTALLED_STATE = Path("/var/lib/acceptd")
INSTALLED_POLICIES = Path("/etc/acceptd/policies")
SHIPPED_POLICIES = Path(__file__).resolve().with_name("policies")
"""Only in an installed wheel: a copy of the checkout's ``policies/`` (pyproject.toml puts it there)."""
CHECKOUT = Path(__file__).resolve().parent.parent

NUMBERS = ("workers", "cores", "memory_bytes", "min_free_bytes", "submission_seconds", "stop_seconds")
"""Keys that a variable ``ACCEPTD_<KEY>`` may set, as whole numbers."""
TEXTS = ("policy", "policies", "record.url")
"""Keys that a variable ``ACCEPTD_<KEY>`` may set, as text; a dot is an underscore there."""
FILE = "acceptd.toml"
_MAX_BYTES: Final = 1 << 20


class InboxTable(BaseModel):
    """How drops are noticed. Seconds and counts."""

    model_config = ConfigDict(frozen=True, strict=True, extra="forbid")

    settle_seconds: Annotated[float, Field(ge=0, le=3600, strict=False)] = 2.0
    """How long a drop must be unchanged before it is taken."""
    rescan_seconds: Annotated[float, Field(ge=0.1, le=3600, strict=False)] = 30.0
    """Everything is looked at again so often."""
    polling: bool = False
    """Poll instead of inotify: for network file systems."""
    max_entries: Annotated[int, Field(ge=1, le=1_000_000)] = 10_000
    """Directory entries that one scan of one inbox looks at."""


class CheckpointTable(BaseModel):
    """Where signed checkpoints of the ledger are kept outside the state directory."""

    model_config = ConfigDict(frozen=True, strict=True, extra="forbid")

    anchor: str | Annotated[list[str], Field(min_length=1, max_length=64)] = ""
    """A directory, ``journal``, or a command as a list. Empty: nowhere, and every verdict says so."""


_Days = Annotated[int, Field(ge=0, le=36_500)]
_Pin = Annotated[str, Field(pattern=r"^([0-9a-f]{64}|[a-z0-9_-]{1,64}/[a-z0-9_-]{1,64})$")]


class RetentionTable(BaseModel):
    """After how many days bytes go; 0: never. Entries and evidence stay, and each removal is an entry."""

    model_config = ConfigDict(frozen=True, strict=True, extra="forbid")

    rejected_days: _Days = 30
    """Held bundles that a person has rejected, and what a rejected one left behind; from the rejection on."""
    quarantined_days: _Days = 30
    """Bundles at which the daemon died twice."""
    held_days: _Days = 90
    """Held bundles that nobody has decided about; from the verdict on."""
    outputs_days: _Days = 180
    """Outputs kept for ``policy replay``; from when they were last kept."""
    superseded_days: _Days = 0
    """Bundles in the store that no channel has as its current or prior release; from when that ended."""
    backups_days: _Days = 90
    """Backups made before a migration."""
    pinned: Annotated[list[_Pin], Field(max_length=10_000)] = []
    """Bundle digests, or models (``team/name``): their bundles stay."""
    interval_seconds: Annotated[int, Field(ge=60, le=604_800)] = 3600
    """How often the daemon looks; first soon after its start."""


class MetricsTable(BaseModel):
    """Where figures for Prometheus are shown; nowhere by default."""

    model_config = ConfigDict(frozen=True, strict=True, extra="forbid")

    file: Annotated[str, Field(max_length=4096, pattern=r"^(/.*\.prom)?$")] = ""
    """A file for node_exporter's textfile collector, replaced whole."""
    listen: Annotated[
        str,
        Field(max_length=108, pattern=r"^(unix:/.+|(127\.0\.0\.1|\[::1\]):[0-9]{1,5})?$"),
    ] = ""
    """``unix:/path`` or a port of this host alone: ``127.0.0.1:9464``, ``[::1]:9464``."""
    seconds: Annotated[int, Field(ge=1, le=3600)] = 15
    """How often the file is written."""

    @property
    def shown(self) -> bool:
        """Whether anybody is shown anything."""
        return bool(self.file or self.listen)


class KeyTable(BaseModel):
    """Where one role's private key is, if not in ``keys/``."""

    model_config = ConfigDict(frozen=True, strict=True, extra="forbid")

    command: Annotated[list[str], Field(max_length=64)] = []
    """A program in full with its arguments; ``sign ROLE KEY_ID`` is added. Empty: the key is a file."""
    seconds: Annotated[float, Field(ge=0.1, le=300, strict=False)] = 10.0
    """For one signature."""


class KeysTable(BaseModel):
    """The commands that hold private keys, by role."""

    model_config = ConfigDict(frozen=True, strict=True, extra="forbid")

    ledger: KeyTable = KeyTable()
    release: KeyTable = KeyTable()
    revocation: KeyTable = KeyTable()
    node: KeyTable = KeyTable()
    """Of a node of a fleet: what it seals or examines is signed with it."""


class RecordTable(BaseModel):
    """Where the record is: in a file of the state directory, or on PostgreSQL (docs/postgresql.md)."""

    model_config = ConfigDict(frozen=True, strict=True, extra="forbid")

    url: Annotated[str, Field(max_length=2048), AfterValidator(record_url)] = ""
    """``postgresql://user@host:port/database``, with parameters of libpq and never a password. Empty: SQLite."""


class Settings(BaseModel):
    """``acceptd.toml``."""

    model_config = ConfigDict(frozen=True, strict=True, extra="forbid")

    policy: str = "default"
    """A policy's name in the policies directory, or a path."""
    policies: str = ""
    """The policies directory; empty: the checkout's, else ``/etc/acceptd/policies``, else the wheel's own."""
    workers: Annotated[int, Field(ge=0, le=256)] = 0
    """Submissions examined side by side at most; 0: one for each core. The budget may allow fewer."""
    cores: Annotated[int, Field(ge=0, le=4096)] = 0
    """Threads of jobs that may run at once; 0: the cores that this process may use."""
    memory_bytes: Annotated[int, Field(ge=0)] = 0
    """Memory of all jobs together; 0: what is available at the start, less the warm parents' own."""
    min_free_bytes: Annotated[int, Field(ge=0)] = 256 << 20
    """Below this much free space nothing is claimed."""
    submission_seconds: Annotated[int, Field(ge=1, le=86_400)] = 3600
    """From the claim, however often the daemon restarts meanwhile."""
    stop_seconds: Annotated[int, Field(ge=0, le=86_400)] = 60
    """How long a stop lets running work finish before it cancels it."""
    queue_limit: Annotated[int, Field(ge=1, le=1_000_000)] = 10_000
    """Submissions that wait in memory; more wait in the database."""
    inbox: InboxTable = InboxTable()
    record: RecordTable = RecordTable()
    checkpoint: CheckpointTable = CheckpointTable()
    retention: RetentionTable = RetentionTable()
    metrics: MetricsTable = MetricsTable()
    objects: ObjectsTable = ObjectsTable()
    keys: KeysTable = KeysTable()
    fleet: FleetTable | None = None
    """One node of a fleet; without the table there is none, and one machine does everything."""
    exports: Annotated[list[ExportTable], Field(max_length=64)] = []
    """Directories that follow what is current."""
    hooks: Annotated[list[HookTable], Field(max_length=64)] = []
    """Commands that are told of each release, rollback and revocation."""
    log_level: Literal["debug", "info", "warning", "error"] = "info"
    """Least level that is logged."""

    @model_validator(mode="after")
    def _exports_apart(self) -> Settings:
        distinct(self.exports, self.hooks, self.objects)
        return self


class Paths:
    """Every place below the state directory, named once (design, section 3)."""

    def __init__(self, state: Path) -> None:
        self.state = state
        self.inbox = state / "inbox"
        self.outbox = state / "outbox"
        self.sealed = state / "sealed"
        self.store = state / "store" / "sha256"
        self.releases = state / "releases"
        self.keys = state / "keys"
        self.heldout = state / "heldout"
        self.quarantine = state / "quarantine"
        self.checkpoints = state / "checkpoints"
        self.temporary = state / "tmp"
        self.outputs = state / "outputs"
        """Made when the first outputs are kept: it is not among :meth:`directories`."""
        self.backups = state / "backups"
        """Made with the first backup, as :attr:`outputs` is."""
        self.ledger = state / "ledger.sqlite3"
        self.lock = state / "daemon.lock"

    def missing(self, role: Role = "all") -> list[Path]:
        """Return the directories that ``acceptd init`` makes and that are not there."""
        return [path for path, _ in self.directories(role) if not path.is_dir()]

    def directories(self, role: Role = "all") -> list[tuple[Path, int]]:
        """Return (directory, mode) in the order in which they are made; of a node of a fleet those of its role.

        The state directory itself is 0711: loaders walk through it to the releases and the store, and
        teams to the inbox and the outbox, but nobody lists it.
        """
        every = [
            (self.state, 0o711),
            (self.inbox, 0o755),
            (self.outbox, 0o755),
            (self.sealed, 0o700),
            (self.store.parent, 0o755),
            (self.store, 0o755),
            (self.releases, 0o755),
            (self.keys, 0o700),
            (self.heldout, 0o700),
            (self.quarantine, 0o700),
            (self.checkpoints, 0o755),
            (self.temporary, 0o700),
        ]
        unused = {
            "all": set[Path](),
            "intake": {
                self.store.parent,
                self.store,
                self.releases,
                self.heldout,
                self.quarantine,
                self.checkpoints,
            },
            "worker": {
                *(self.inbox, self.outbox, self.store.parent, self.store, self.releases),
                *(self.quarantine, self.checkpoints),
            },
            "promoter": {self.inbox, self.outbox, self.heldout},
        }[role]
        return [(path, mode) for path, mode in every if path not in unused]


def default_state() -> Path:
    """Return the state directory that holds when nobody names one."""
    named = os.environ.get("ACCEPTD_STATE")
    if named:
        return Path(named).absolute()
    return CHECKOUT / "var" if is_checkout() and (CHECKOUT / "var").is_dir() else INSTALLED_STATE


def is_checkout() -> bool:
    """Say whether this code runs from a checkout. Installed, what lies beside it belongs to other packages."""
    return (CHECKOUT / "pyproject.toml").is_file() and (CHECKOUT / "policies").is_dir()


def load_settings(state: Path) -> Settings:
    """Return the settings of ``state``; raise ConfigError with the place for a wrong file or variable."""
    return load_with_sources(state)[0]


def load_with_sources(state: Path) -> tuple[Settings, dict[str, str]]:
    """Return the settings of ``state``, and for each dotted key that is set, which variable or file sets it.

    Raises ConfigError as :func:`load_settings` does.
    """
    path = state / FILE
    document = _document(path)
    sources = dict.fromkeys(flat(document), FILE)
    for key in (*TEXTS, *NUMBERS):
        variable = f"ACCEPTD_{key.upper().replace('.', '_')}"
        value = os.environ.get(variable)
        if not value:
            continue
        if key in NUMBERS and not (value.isascii() and value.isdecimal()):
            raise ConfigError(f"{variable}={value!r:.200} is not a whole number")
        _put(document, key, int(value) if key in NUMBERS else value)
        sources[key] = variable
    found = first(document, Settings)
    if isinstance(found, Trouble):
        words = f"{found.key}: {found.message}" if found.key else found.message
        source = sources.get(found.key, FILE)
        place = path if source == FILE else source
        raise ConfigError(f"{place}: {words}", remedy="docs/operations.md lists the keys")
    return found, sources


def _put(document: dict[str, object], key: str, value: object) -> None:
    """Set a dotted key; where a table is due and something else is, that is left for validation to name."""
    table, _, name = key.rpartition(".")
    if not table:
        document[key] = value
    elif isinstance(inner := document.setdefault(table, {}), dict):
        inner[name] = value


def flat(document: Mapping[str, Any], before: str = "") -> dict[str, Any]:
    """Return a document's values by dotted key; a list, of tables too, is one value."""
    result: dict[str, Any] = {}
    for key, value in document.items():
        inner = isinstance(value, Mapping)
        result |= flat(value, f"{before}{key}.") if inner else {f"{before}{key}": value}
    return result


def _document(path: Path) -> dict[str, object]:
    """Return the file as a document, empty where there is none; a link that leads nowhere is not none."""
    try:
        path.lstat()
    except (FileNotFoundError, NotADirectoryError):
        return {}
    except OSError as error:
        raise ConfigError(f"{path}: {error.strerror}", remedy="make it a readable TOML file") from error
    try:
        return tomlfile.document(read_trusted(path, _MAX_BYTES, "a TOML file").decode("utf-8"))
    except ValueError as error:  # UnicodeDecodeError is one
        raise ConfigError(f"{path}: {error}", remedy="mend the TOML text") from error


def policies_directory(settings: Settings) -> Path:
    """Return the directory of policies, contracts and profiles.

    In this order: the one that the settings name, the checkout's own, the operator's in ``/etc``, and the one
    that came with the wheel, which the next installation replaces: contracts belong into one of the others.
    """
    if settings.policies:
        return Path(settings.policies)
    if is_checkout():
        return CHECKOUT / "policies"
    return INSTALLED_POLICIES if INSTALLED_POLICIES.is_dir() else SHIPPED_POLICIES


def require_state(state: Path, settings: Settings | None = None) -> Paths:
    """Return the paths of an initialised state directory; raise StateError with the remedy otherwise.

    ``settings`` are the state's own where they were loaded before: they say which role's directories are due.
    """
    paths = Paths(state)
    if paths.missing():
        fleet = (settings or load_settings(state)).fleet
        role = fleet.role if fleet is not None else "all"
        if missing := paths.missing(role):
            option = "" if role == "all" else f" --role {role}"
            own = load_settings(state).fleet
            if own is not None and own.role != role:  # its directories would be made beside keys that are not its
                raise StateError(
                    f"{state / FILE}: this state is of a node with the role {own.role}, not {role}",
                    remedy=f"leave --role out; acceptd init{option or ' --role all'} --state DIR makes another",
                )
            raise StateError(
                f"{missing[0]} does not exist", remedy=f"run `acceptd init{option} --state {state}` once"
            )
    return paths
