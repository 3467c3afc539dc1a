"""A place outside the state tells a restored backup and a cut log from the real one."""

from __future__ import annotations

import json
import shutil
import socket
import stat
import struct
import threading
from collections.abc import Callable
from pathlib import Path

import pytest

from acceptd.errors import AnchorError, ConfigError, LedgerError
from acceptd.record import anchor, audit, checkpoint
from acceptd.record.anchor import Anchor, Command, Directory, Journal, open_anchor
from acceptd.record.database import FILE_NAME
from acceptd.record.keys import Keyring, Signer, create_keys, load_keyring, load_signer
from acceptd.record.log import Ledger
from acceptd.record.notary import Notary

pytestmark = pytest.mark.unit

KEEPER = """#!/bin/sh
# Keeps notes below $0.d, as an operator's own program would.
set -eu
place="$0.d"
mkdir -p "$place"
case "$1" in
  put) cat > "$place/$3" ;;
  last) last=$(ls "$place" | sort -n | tail -1); [ -z "$last" ] || cat "$place/$last" ;;
esac
"""


class State:
    """A state directory with keys and a log."""

    def __init__(self, place: Path) -> None:
        self.place = place
        self.count = 0
        place.mkdir()
        create_keys(place)

    @property
    def keyring(self) -> Keyring:
        return load_keyring(self.place)

    @property
    def signer(self) -> Signer:
        return load_signer(self.place, "ledger")

    def grow(self, entries: int, kept: Anchor | None) -> checkpoint.Checkpoint:
        with Ledger.open(self.place) as ledger:
            for _ in range(entries):
                self.count += 1  # no two entries are alike, also within a second
                ledger.append("note", {"number": self.count})
            return checkpoint.write(self.place, ledger, self.signer, self.keyring, kept)


@pytest.fixture
def state(tmp_path: Path) -> State:
    return State(tmp_path / "state")


def keeper(tmp_path: Path) -> Command:
    program = tmp_path / "keeper"
    program.write_text(KEEPER)
    program.chmod(0o755)
    return Command((str(program),))


def directory(tmp_path: Path) -> Directory:
    (tmp_path / "volume").mkdir()
    return Directory(tmp_path / "volume")


PLACES: list[Callable[[Path], Anchor]] = [directory, keeper]


@pytest.mark.parametrize("make", PLACES)
def test_the_whole_state_restored_from_a_backup_is_refused_and_named(
    make: Callable[[Path], Anchor], state: State, tmp_path: Path
) -> None:
    kept = make(tmp_path)
    state.grow(2, kept)
    shutil.copytree(state.place, tmp_path / "backup")
    state.grow(3, kept)
    shutil.rmtree(state.place)
    (tmp_path / "backup").rename(state.place)
    with pytest.raises(LedgerError, match=r"has 3 entries, but the checkpoint .* keeps says 6"):
        state.grow(0, kept)
    # More entries than before make it no better: the log was forked.
    with pytest.raises(LedgerError, match="does not extend"):
        state.grow(9, kept)
    with Ledger.open(state.place) as ledger:
        note = kept.last(ledger.origin)
    assert note is not None
    differences = audit.examine(state.place, kept=[audit.Kept("the anchor", note)]).differences
    assert [(one.what, one.where) for one in differences] == [("checkpoint", "the anchor")]


def test_without_an_anchor_the_same_backup_passes(state: State, tmp_path: Path) -> None:
    """The control: it is the place outside that tells."""
    state.grow(2, None)
    shutil.copytree(state.place, tmp_path / "backup")
    state.grow(3, None)
    shutil.rmtree(state.place)
    (tmp_path / "backup").rename(state.place)
    assert state.grow(9, None).size == 12
    assert audit.examine(state.place).differences == ()


def test_a_tail_that_was_cut_with_its_checkpoints_is_found(state: State, tmp_path: Path) -> None:
    kept = directory(tmp_path)
    state.grow(2, kept)
    database = (state.place / FILE_NAME).read_bytes()
    state.grow(3, kept)
    (state.place / FILE_NAME).write_bytes(database)
    for path in (state.place / "checkpoints").iterdir():
        path.unlink()
    with pytest.raises(LedgerError, match="cut, or an older backup"):
        state.grow(0, kept)


def test_another_logs_notes_are_not_this_ones(state: State, tmp_path: Path) -> None:
    kept, other = directory(tmp_path), State(tmp_path / "other")
    other.grow(9, kept)
    assert state.grow(1, kept).size == 2
    with Ledger.open(other.place) as theirs, Ledger.open(state.place) as ours:
        foreign = kept.last(theirs.origin)
        assert foreign is not None
        kept.put(ours.origin, 50, foreign)
    with pytest.raises(LedgerError, match="another log"):
        state.grow(1, kept)


def test_an_anchor_out_of_reach_is_no_empty_one(state: State, tmp_path: Path) -> None:
    kept = directory(tmp_path)
    state.grow(2, kept)
    (tmp_path / "volume").rename(tmp_path / "unmounted")
    with pytest.raises(AnchorError):
        state.grow(1, kept)
    assert checkpoint.sizes(state.place) == [3], "nothing is signed that could not be proved"
    (tmp_path / "unmounted").rename(tmp_path / "volume")
    assert state.grow(0, kept).size == 4


def test_a_note_that_did_not_reach_the_anchor_reaches_it_the_next_time(state: State, tmp_path: Path) -> None:
    kept = directory(tmp_path)
    state.grow(2, None)
    state.grow(0, kept)
    with Ledger.open(state.place) as ledger:
        assert kept.last(ledger.origin) == checkpoint.note_of(state.place, 3)


def test_the_anchor_keeps_the_newest_and_prunes_only_its_own(state: State, tmp_path: Path) -> None:
    kept = directory(tmp_path)
    (kept.place / "somebody else's").write_text("stays")
    for size in range(1, anchor.KEPT + 5):
        kept.put("acceptd/a", size, b"%d" % size)
    kept.put("acceptd/b", 1, b"b")
    assert kept.last("acceptd/a") == b"%d" % (anchor.KEPT + 4)
    assert kept.last("acceptd/b") == b"b"
    assert len(list(kept.place.iterdir())) == anchor.KEPT + 2


@pytest.mark.parametrize("body", ["exit 3", "echo no >&2; exit 1", "kill -9 $$"])
def test_a_command_that_fails_proves_nothing(body: str, state: State, tmp_path: Path) -> None:
    program = tmp_path / "broken"
    program.write_text(f"#!/bin/sh\n{body}\n")
    program.chmod(0o755)
    with pytest.raises(AnchorError, match="ended with"):
        state.grow(1, Command((str(program),)))
    assert checkpoint.sizes(state.place) == []


def test_the_journal_is_written_by_its_protocol_and_read_by_trusted_fields(tmp_path: Path) -> None:
    """The journal itself is not here: its socket and its reader are played."""
    place = tmp_path / "socket"
    with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as journald:
        journald.bind(str(place))
        Journal(str(place)).put("acceptd/a", 7, b"note\n")
        message = journald.recv(1 << 16)
    fields: dict[str, str] = {}
    while message:
        name, _, rest = message.partition(b"\n")
        (length,) = struct.unpack("<Q", rest[:8])
        fields[name.decode()] = rest[8 : 8 + length].decode()
        message = rest[8 + length + 1 :]
    assert fields["CHECKPOINT_ORIGIN"] == "acceptd/a"
    assert bytes.fromhex(fields["CHECKPOINT_NOTE"]) == b"note\n"
    older = fields | {"CHECKPOINT_SIZE": "6", "CHECKPOINT_NOTE": b"older".hex()}
    reader = tmp_path / "journalctl"
    asked = tmp_path / "asked"
    rows = "\n".join(json.dumps(row) for row in (fields, older))
    reader.write_text(f"#!/bin/sh\necho \"$@\" > {asked}\ncat <<'END'\n{rows}\nEND\n")
    reader.chmod(0o755)
    assert Journal(str(place), str(reader)).last("acceptd/a") == b"note\n"
    assert "_UID=" in asked.read_text(), "a field that journald sets itself; others could be forged"
    with pytest.raises(AnchorError):
        Journal(str(tmp_path / "nobody")).put("acceptd/a", 7, b"")


def test_only_a_place_outside_the_state_is_an_anchor(tmp_path: Path) -> None:
    state, outside = tmp_path / "state", tmp_path / "anchor"
    (state / "checkpoints").mkdir(parents=True)
    outside.mkdir()
    (outside / "link").symlink_to(state / "checkpoints")
    assert open_anchor("", state) is None
    assert open_anchor([], state) is None
    assert open_anchor(str(outside), state) == Directory(outside)
    assert open_anchor("journal", state) == Journal()
    assert open_anchor(["/bin/sh", "-c"], state) == Command(("/bin/sh", "-c"))
    for wrong in (
        str(state),
        str(state / "checkpoints"),
        str(outside / "link"),
        "relative",
        ["sh"],
        ["/no/program"],
    ):
        with pytest.raises(ConfigError, match=r"checkpoint\.anchor"):
            open_anchor(wrong, state)


def test_the_notary_says_what_stands_and_freezes_a_log_that_was_rewritten(state: State, tmp_path: Path) -> None:
    kept = directory(tmp_path)
    told: list[str] = []
    with Ledger.open(state.place) as ledger:
        notary = Notary(state.place, ledger, state.signer, kept, told.append)
        assert Notary(state.place, ledger, state.signer, None, told.append).standing == "unanchored"
        notary.begin()
        assert notary.standing == "anchored"
        kept.place.rename(tmp_path / "unmounted")
        ledger.append("note", {})
        notary.seal()
        assert notary.standing == "unanchored: the anchor is out of reach"
        (tmp_path / "unmounted").rename(kept.place)
        notary.seal()
        assert notary.standing == "anchored"
        assert told == []
        # A longer log of the same name elsewhere was sealed meanwhile: ours is the older one.
        with Ledger.open(_copy(state, tmp_path)) as longer:
            longer.append_many([])
            for _ in range(3):
                longer.append("note", {"of": "the other"})
            note = checkpoint.sign(
                checkpoint.Checkpoint(longer.origin, longer.tree().size, longer.tree().root), state.signer
            )
            kept.put(longer.origin, longer.tree().size, note)
        notary.start()
        notary.nudge()
        notary.stop()
        assert len(told) == 1
        with pytest.raises(LedgerError, match="nothing more is written"):
            ledger.append("note", {})


def _copy(state: State, tmp_path: Path) -> Path:
    place = tmp_path / "copy"
    place.mkdir()
    shutil.copy(state.place / FILE_NAME, place / FILE_NAME)
    (place / FILE_NAME).chmod(stat.S_IRUSR | stat.S_IWUSR)
    return place


def test_a_ledger_that_was_removed_and_begun_anew_is_no_new_log(state: State, tmp_path: Path) -> None:
    """With it went every rejection, and the count of what was spent of held-out vectors."""
    kept = directory(tmp_path)
    state.grow(3, kept)
    for path in state.place.glob(f"{FILE_NAME}*"):
        path.unlink()
    shutil.rmtree(state.place / "checkpoints")
    with pytest.raises(LedgerError, match="begun anew"):
        state.grow(9, kept)
    assert len(list(kept.place.iterdir())) == 1


def test_another_instance_may_share_the_directory(state: State, tmp_path: Path) -> None:
    kept = directory(tmp_path)
    state.grow(3, kept)
    assert State(tmp_path / "other").grow(2, kept).size == 3
    assert state.grow(1, kept).size == 5


class Slow(Directory):
    """A volume that takes its time: something comes while a note is being written."""

    def put(self, origin: str, size: int, note: bytes) -> None:
        REACHED.set()
        assert GO_ON.wait(10)
        super().put(origin, size, note)


REACHED, GO_ON = threading.Event(), threading.Event()


def test_what_comes_while_a_checkpoint_is_written_is_sealed_at_an_orderly_stop(
    state: State, tmp_path: Path
) -> None:
    kept = Slow(directory(tmp_path).place)
    with Ledger.open(state.place) as ledger:
        notary = Notary(state.place, ledger, state.signer, kept, pytest.fail)
        notary.start()
        notary.nudge()
        assert REACHED.wait(10)
        ledger.append("note", {"late": True})
        notary.nudge()
        threading.Timer(0.05, GO_ON.set).start()  # after stop() was called
        notary.stop()
        last = checkpoint.latest(state.place, state.keyring)
        assert last is not None
        assert last.size == ledger.tree().size


SORTING = """#!/bin/sh
# Keeps the notes of each log in a directory of its own; `last -` prints the newest of each.
set -eu
newest() { last=$(ls "$1" | sort -n | tail -1); [ -z "$last" ] || cat "$1/$last"; }
name=$(printf %s "$2" | tr / _)
case "$1" in
  put) mkdir -p "$0.d/$name"; cat > "$0.d/$name/$3" ;;
  last) if [ "$2" = - ]; then for one in "$0.d"/*/; do [ -d "$one" ] && newest "$one"; done
        elif [ -d "$0.d/$name" ]; then newest "$0.d/$name"; fi; true ;;
esac
"""


def test_a_command_tells_a_log_that_was_begun_anew_and_leaves_strangers_logs_alone(
    state: State, tmp_path: Path
) -> None:
    program = tmp_path / "sorting"
    program.write_text(SORTING)
    program.chmod(0o755)
    kept = Command((str(program),))
    others = [State(tmp_path / name) for name in ("one", "two")]
    for number, other in enumerate(others):
        other.grow(3 + number, kept)
    assert state.grow(2, kept).size == 3, "notes of other instances are not ours"
    assert len(kept.others()) == 3
    (state.place / FILE_NAME).unlink()
    shutil.rmtree(state.place / "checkpoints")
    with pytest.raises(LedgerError, match="exchanged or begun anew"):
        state.grow(9, kept)


def test_a_directory_that_is_missing_says_what_to_do(tmp_path: Path) -> None:
    place = tmp_path / "unmounted"
    with pytest.raises(AnchorError, match=f"{place}.*mount its volume, or make the directory"):
        Directory(place).last("acceptd/x")
    assert not place.exists()
