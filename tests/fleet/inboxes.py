"""Where drops go in and verdicts come out: of an embedded daemon's state, or of a fleet's intake."""

from __future__ import annotations

import json
import os
from collections.abc import Iterable
from pathlib import Path
from typing import Any

from watchdog.events import FileSystemEvent, FileSystemEventHandler
from watchdog.observers import Observer

from tests.fleet.mixed import Piece
from tests.fleet.processes import Bell


class _Ringing(FileSystemEventHandler):
    def __init__(self, bell: Bell) -> None:
        self._bell = bell

    def on_any_event(self, event: FileSystemEvent) -> None:
        self._bell.ring()


class Inboxes:
    """The inboxes and outboxes of one state directory; the bell rings for whatever changes in an outbox."""

    def __init__(self, state: Path, stage: Path, bell: Bell) -> None:
        self.state, self._stage = state, stage
        self._observer = Observer()
        self._observer.schedule(_Ringing(bell), str(state / "outbox"), recursive=True)
        self._observer.start()
        stage.mkdir(parents=True, exist_ok=True)
        self.reports: dict[str, dict[str, Any]] = {}
        """Every verdict that was written, by submission."""

    def close(self) -> None:
        """Watch no longer."""
        self._observer.stop()
        self._observer.join()

    def drop(self, piece: Piece) -> str:
        """Write a bundle beside and rename it into its inbox, so that it appears whole; return the drop's name."""
        return self.placed(piece, self.written(piece))

    def written(self, piece: Piece) -> Path:
        """Write a bundle beside the inbox and return where it lies."""
        return piece.write(self._stage / piece.name)

    def placed(self, piece: Piece, made: Path) -> str:
        """Rename what was written into the inbox; return the drop's name."""
        made.rename(self.state / "inbox" / piece.team / made.name)
        return made.name

    def look(self) -> dict[str, dict[str, Any]]:
        """Return all verdicts that stand in the outboxes by now, by submission."""
        for team in os.scandir(self.state / "outbox"):
            for item in os.scandir(team.path):
                if item.name not in self.reports and not item.name.startswith("."):
                    verdict = Path(item.path) / "verdict.json"
                    if verdict.is_file():
                        self.reports[item.name] = json.loads(verdict.read_bytes())
        return self.reports

    def answered(self, drops: Iterable[str]) -> bool:
        """Whether each of these drops has a verdict in its outbox."""
        told = {report.get("drop") for report in self.look().values()}
        return told.issuperset(drops)

    def left(self) -> list[str]:
        """Return what still lies in the inboxes, or sealed: what is done leaves nothing there."""
        places = [*(self.state / "inbox").glob("*/*"), *(self.state / "sealed").glob("*")]
        return sorted(str(place.relative_to(self.state)) for place in places)
