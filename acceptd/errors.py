"""Every error that acceptd raises on purpose.

Two families. :class:`UserError` is somebody's to mend: one line with the place and the remedy, no
traceback. :class:`InternalError` is ours: a broken promise inside acceptd, exit code 70.
"""

from __future__ import annotations


class AcceptdError(Exception):
    """Base of all deliberate errors. ``exit_code`` is the documented one (design, section 9)."""

    exit_code = 70


class UserError(AcceptdError):
    """Something outside acceptd is wrong: a file, a flag, a permission, a host without a wall."""

    exit_code = 2

    def __init__(self, message: str, *, remedy: str = "") -> None:
        self.message = message
        self.remedy = remedy
        super().__init__(f"{message}; {remedy}" if remedy else message)


class UsageError(UserError):
    """A command, a path or a name that cannot be meant."""


class ConfigError(UserError):
    """acceptd.toml, a policy, a contract, a profile or a key file that is refused."""


class StateError(UserError):
    """The state directory is missing, foreign, newer than this version, or held by another process."""


class FleetAwayError(StateError):
    """Something that a fleet shares cannot be reached now. Says nothing about any submission."""

    exit_code = 70  # not 2: a service manager starts again what may pass


class NoThreadError(StateError, RuntimeError):
    """No thread could be started now, or it ended before it began. Says nothing about any submission."""

    exit_code = 70

    def __init__(self, message: str) -> None:
        super().__init__(message, remedy="let there be more processes, or memory: TasksMax, ulimit -u and -v")


class FleetRulesError(StateError):
    """This node works by other rules than what it was asked for. It may be told others; until then it waits."""


class SigningError(StateError):
    """A command that holds a private key did not sign: wrong, slow, or dead. Nothing is lost."""


class ObjectStoreError(UserError):
    """The object store refuses, keeps no conditions, or says what cannot be meant. Nothing was handed on."""


class ObjectMissingError(ObjectStoreError):
    """The object store has no such object."""


class ObjectDamagedError(ObjectStoreError):
    """The object store gave other bytes than the digest stands for. Nothing was handed on."""


class ObjectsUnreachableError(ObjectStoreError):
    """The object store did not answer in time, or failed, as often as it was tried. It may pass."""

    exit_code = 70  # not 2: a service manager starts again what may pass


class CellUnavailableError(UserError):
    """The sandbox cannot be built on this host, or a wall that the policy requires is missing."""


class SealError(UserError):
    """A drop cannot be sealed. ``code`` is the finding's code; ``where`` the place inside the drop."""

    exit_code = 1

    def __init__(self, code: str, where: str, message: str, *, remedy: str = "") -> None:
        super().__init__(message, remedy=remedy)
        self.code = code
        self.where = where


class FleetTrustError(UserError):
    """What another node handed over does not count: ``message`` says why, in one line.

    ``code`` is the finding's; ``cause`` is a stable word for what was wrong, for metrics and tests.
    """

    def __init__(self, code: str, cause: str, message: str, *, remedy: str = "") -> None:
        self.code = code
        self.cause = cause
        super().__init__(message, remedy=remedy)


class ProtocolViolationError(AcceptdError):
    """A job said something outside the closed set of messages. Always the job's fault."""


class GivenUpError(AcceptdError):
    """Work on a submission was cancelled: past its deadline, at a stop, or interrupted. Nobody's fault."""


class InternalError(AcceptdError):
    """A promise inside acceptd is broken."""


class LedgerError(InternalError):
    """The ledger cannot be written, or does not verify."""

    exit_code = 5


class LedgerStorageError(LedgerError):
    """The ledger cannot be read or written now: its disk, its space, a lock. Says nothing about what is in it."""


class LedgerRightsError(LedgerError):
    """The database's login may not do this. Says nothing about what is in the ledger."""


class LedgerLostError(LedgerStorageError):
    """The ledger's server went away in the middle, and nothing of the transaction stands: it may be done again."""


class AnchorError(InternalError):
    """The place outside the state that keeps checkpoints cannot be reached: nothing is proved, nothing signed."""


class DuplicateEntryError(LedgerError):
    """The ledger has this verdict, or this release number, already: one per submission, one per channel."""


class ReleaseError(UserError):
    """A release operation that cannot be done: unknown digest, revoked, not approved, wrong channel."""


class ExportError(UserError):
    """A release that cannot be exported in this form or to this place, with the reason. The release stands."""


class ChannelClosedError(ReleaseError):
    """The channel takes this bundle not now. ``words`` say why: ``frozen``, ``pinned``, ``absent``, ``early``."""

    def __init__(self, message: str, *, remedy: str = "", words: tuple[str, ...] = ()) -> None:
        super().__init__(message, remedy=remedy)
        self.words = words


class LoaderError(Exception):
    """Base of the loader's errors: production gets the right bytes, or one of these."""


class ReleaseNotFoundError(LoaderError):
    """No such model, channel or release below the given root."""


class StorageError(LoaderError):
    """The file system below the root does not answer: away, stale, failing, or closed to this process."""


class SignatureError(LoaderError):
    """A signature is missing, made by a key outside the keyring, or does not verify."""


class ExpiredError(LoaderError):
    """channel.json is past its expiry: the channel may be frozen by somebody."""


class RollbackError(LoaderError):
    """A number, sequence or revocation list is lower than one that this loader has already seen."""


class RevokedError(LoaderError):
    """The release's bundle digest is on the signed revocation list."""


class DigestMismatchError(LoaderError):
    """Bytes on disk differ from the signed digests, or the caller demanded another digest."""


class ArtifactRefusedError(LoaderError):
    """The cache of optimised artifacts cannot be trusted here: others may write to it, or it is no directory."""


class ProfileRefusedError(LoaderError):
    """The release does not hold for the caller's profile, or for several and the caller named none."""


class MalformedError(LoaderError):
    """A signed file is too large, too deep, not JSON or not of the documented form."""


class InvalidInputError(LoaderError):
    """A caller's input breaks the accepted interface; no tensor was made."""


class InvalidOutputError(LoaderError):
    """The model's output breaks the accepted interface; it was not handed on."""


class ProviderUnavailableError(LoaderError):
    """The accepted execution provider is not available here and no fallback was accepted."""


class RuntimeRefusedError(LoaderError):
    """The onnxruntime of this process cannot load or run the release as it was accepted."""


class RuntimeMismatchError(LoaderError):
    """The onnxruntime of this process, a library of it or the processor's class is not the accepted one."""


class RuntimeDifferenceWarning(UserWarning):
    """What runs here differs from what the release was accepted on, and the caller chose to be told."""


class PreprocessingMismatchError(LoaderError):
    """The caller's preprocessing is not the one of the release, or of the receipt; no tensor was made."""


class ReplayRefusedError(LoaderError):
    """A receipt that cannot be run again here: of another bundle or model, or of a run that gave no outputs."""
