"""The daemon's main loop with a site that does as it is told: words in, duties done, and an end that is an end."""

from __future__ import annotations

import gc
import os
import signal
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, ExitStack, nullcontext
from pathlib import Path
from typing import Any

import pytest
from structlog.testing import capture_logs

from acceptd import daemon as loop
from acceptd.config import Paths, Settings
from acceptd.daemon import Daemon
from acceptd.errors import ConfigError, LedgerError
from acceptd.rules import Rules
from acceptd.site import Helm
from acceptd.supervisor.pulse import Pulse, Watched

pytestmark = pytest.mark.unit


class Site:
    """Notes what is asked of it; ``script`` is what happens at each turn of duties."""

    script: list[Callable[[Site], Any]]

    def __init__(self, helm: Helm) -> None:
        self.helm, self.asked, self.ends, self.quiet_comes = helm, [], 0, True
        self.refuses: Exception | None = None

    def open(self, stack: ExitStack) -> None:
        stack.callback(self.asked.append, "closed")

    def begin(self) -> None:
        self.asked.append("begin")

    def shown(self, _pulse: Pulse) -> AbstractContextManager[None]:
        return nullcontext()

    def duties(self) -> None:
        self.asked.append("duties")
        if self.script:
            self.script.pop(0)(self)

    def room(self) -> None:
        self.asked.append("room")
        if self.script:
            self.script.pop(0)(self)

    def allow(self, _fresh: Rules) -> None:
        if self.refuses is not None:
            raise self.refuses

    def reloaded(self) -> None:
        self.asked.append("reloaded")

    def load(self) -> tuple[int, int]:
        return 2, 3

    def remark(self) -> str:
        return "the disk is nearly full"

    def drain(self, quiet: Callable[[], None]) -> None:
        self.asked.append("drain")
        if self.quiet_comes:
            quiet()

    def cancel(self) -> int:
        self.asked.append("cancel")
        return 2

    def join(self, _seconds: float) -> bool:
        self.asked.append("join")
        self.ends -= 1
        return self.ends < 0

    def end(self) -> None:
        self.asked.append("end")

    def watched(self) -> Iterator[Watched]:
        return iter(())


class Told:
    """A service manager's ear."""

    watchdog_seconds = 0.0

    def __init__(self) -> None:
        self.words: list[tuple[str, Any]] = []

    def __getattr__(self, name: str) -> Callable[..., None]:
        return lambda *said: self.words.append((name, *said))


@pytest.fixture
def policies(tmp_path: Path) -> Path:
    (tmp_path / "mine.toml").write_text('schema = 1\nname = "mine"\n')
    (tmp_path / "mine.toml").chmod(0o644)
    return tmp_path


def made(policies: Path, monkeypatch: pytest.MonkeyPatch, **settings: Any) -> tuple[Daemon, Site]:
    """Return a daemon with a site that is stopped where its script says so."""
    monkeypatch.setattr(gc, "freeze", lambda: None)
    monkeypatch.setattr(os, "umask", lambda _mask: 0o022)
    monkeypatch.setattr(loop, "HOUSEKEEPING_SECONDS", 0.001)
    given = Settings.model_validate({"policies": str(policies), "policy": "mine", **settings})
    daemon = Daemon(Paths(policies / "state"), given, Site)
    site = daemon.site
    assert isinstance(site, Site)
    site.script = []
    return daemon, site


def run(daemon: Daemon) -> list[dict[str, Any]]:
    with capture_logs() as logs:
        daemon.run()
    return [dict(one) for one in logs]


def test_it_begins_does_its_duties_and_ends_in_order(policies: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    daemon, site = made(policies, monkeypatch)
    site.script = [lambda _site: daemon.stop()]
    logs = run(daemon)
    assert site.asked == ["begin", "duties", "drain", "join", "end", "closed"]
    assert [one["event"] for one in logs] == ["ready", "stopping"]
    assert daemon.ready.is_set()


def test_room_in_the_queue_is_no_turn_of_all_duties(policies: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    daemon, site = made(policies, monkeypatch)
    monkeypatch.setattr(loop, "HOUSEKEEPING_SECONDS", 3600.0)
    site.helm.room()
    site.script = [lambda _site: daemon.stop()]
    run(daemon)
    assert site.asked == ["begin", "room", "drain", "join", "end", "closed"]


def test_a_log_that_is_not_what_was_signed_ends_the_daemon_and_is_its_error(
    policies: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    daemon, site = made(policies, monkeypatch)
    site.script = [lambda one: one.helm.end("entry 7 is not what was signed")]
    with pytest.raises(LedgerError, match="entry 7 is not what was signed"):
        run(daemon)
    assert site.asked[-4:] == ["drain", "join", "end", "closed"], "what runs ends in order all the same"


@pytest.mark.parametrize("impatient", [True, False], ids=["a second signal", "stop_seconds are over"])
def test_work_that_does_not_end_is_cancelled_and_waited_for(
    policies: Path, monkeypatch: pytest.MonkeyPatch, impatient: bool
) -> None:
    daemon, site = made(policies, monkeypatch, stop_seconds=3600 if impatient else 0)
    site.quiet_comes, site.ends = False, 2
    told = Told()
    monkeypatch.setattr(daemon, "_notifier", told)
    monkeypatch.setattr(daemon._pulse, "notifier", told)

    def stop(_site: Site) -> None:
        daemon.stop()
        if impatient:
            site.drain = lambda _quiet: daemon.stop()  # type: ignore[method-assign]

    site.script = [stop]
    logs = run(daemon)
    assert site.asked[-6:] == ["cancel", "join", "join", "join", "end", "closed"]
    assert {"event": "cancelling", "active": 2, "log_level": "warning"} in logs
    assert [word for word, *_ in told.words].count("more_time") >= 2


def test_time_is_asked_for_no_longer_than_said(policies: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    daemon, site = made(policies, monkeypatch)
    monkeypatch.setattr(loop, "ENDING_SECONDS", -1.0)
    site.ends, told = 3, Told()
    monkeypatch.setattr(daemon._pulse, "notifier", told)
    site.script = [lambda _site: daemon.stop()]
    run(daemon)
    assert site.asked.count("join") == 4
    assert [word for word, *_ in told.words].count("more_time") == 1, "while work might still end, and not after"


def test_a_reload_is_told_whatever_came_of_it(policies: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    daemon, site = made(policies, monkeypatch)
    told = Told()
    monkeypatch.setattr(daemon, "_notifier", told)
    before = daemon.rules()

    def refused(one: Site) -> None:
        one.refuses = ConfigError("it maps more than there is", remedy="lower it")
        daemon.reload()

    def mended(one: Site) -> None:
        one.refuses = None
        daemon.reload()

    site.script = [refused, mended, lambda _site: daemon.stop()]
    run(daemon)
    assert site.asked[:5] == ["begin", "duties", "duties", "reloaded", "duties"]
    assert daemon.rules() == before
    said = [words[0] for name, *words in told.words if name == "ready"]
    standing = f"2 running, 3 waiting; policy mine {before.policy_digest[:12]}; the disk is nearly full"
    assert said == [
        standing, f"policy not reloaded: it maps more than there is; lower it; {standing}", standing
    ]  # fmt: skip
    assert [name for name, *_ in told.words].count("reloading") == 2


def test_what_is_wrong_stays_to_be_read(policies: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    daemon, _ = made(policies, monkeypatch)
    said: list[str] = []
    daemon._tell_standing(said.append)
    daemon._pulse._told = "the thread inbox has ended"
    daemon._tell_standing(said.append)
    assert len(said) == 1


def test_signals_are_words_and_nothing_else(policies: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    daemon, _ = made(policies, monkeypatch)
    handlers: dict[int, Any] = {}
    monkeypatch.setattr(signal, "signal", handlers.__setitem__)
    daemon.install_signals()
    assert set(handlers) == {signal.SIGTERM, signal.SIGINT, signal.SIGHUP}
    handlers[signal.SIGHUP](signal.SIGHUP, None)
    assert daemon._listen() == {signal.SIGHUP}
