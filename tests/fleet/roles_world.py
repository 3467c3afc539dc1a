"""A fleet of real processes on one machine: a promoter, an intake and workers on one PostgreSQL and one store."""

from __future__ import annotations

import base64
import json
import os
import shutil
import signal
import subprocess
import sys
from collections import Counter
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from acceptd.fleet.settings import Role
from acceptd.record.log import Ledger
from acceptd.record.node_key import node_signer
from acceptd.record.place import Place
from acceptd.record.queue import Queue, Submission
from examples import evidence_classifier as classifier
from tests.fleet.postgres import OWNER, Server
from tests.fleet.processes import ROOT, Bell, Running

TEAM = "mosaic"


class Fleet:
    """Directories and processes below ``root``. Nodes are made with :meth:`node`, started with :meth:`start`."""

    def __init__(
        self,
        root: Path,
        server: Server,
        *,
        objects: str = "",
        policy: str = "",
        profiles: Mapping[str, str] | None = None,
        fleet: str = "",
        keys: str = "",
        endpoint: str = "",
    ) -> None:
        self.keys = keys
        self.endpoint = f'endpoint = "{endpoint}"\n' if endpoint else ""
        self.root, self.server = root, server
        self.database = server.fresh_database()
        self.bell = Bell()
        self.policies = root / "policies"
        shutil.copytree(ROOT / "policies", self.policies)
        for name, text in (profiles or {}).items():
            (self.policies / "profiles" / f"{name}.toml").write_text(text)
        self.policy, self.objects, self.fleet = policy, objects or f"file://{root}/objects", fleet
        if not objects:
            (root / "objects").mkdir()
        self.trust: dict[tuple[str, str], str] = {}
        self.roles: dict[str, Role] = {}
        self.running: dict[str, Running] = {}
        self.environment: dict[str, str] = {}
        self.write_policy()

    def write_policy(self) -> None:
        """Write the policy with whoever is trusted."""
        demo = (
            (ROOT / "policies" / "demo.toml").read_text().replace('name = "demo"', f'name = "fleet"\n{self.keys}')
        )
        (self.policies / "fleet.toml").write_text("\n".join([demo, self.policy, *self.trust.values()]))

    def state(self, name: str) -> Path:
        """Return the state directory of a node."""
        return self.root / name

    def node(
        self,
        name: str,
        role: Role,
        *,
        settings: str = "",
        profiles: tuple[str, ...] = ("cpu",),
        heldout: bool = False,
        trusted: bool = True,
        team: str = TEAM,
        fleet: str = "",
    ) -> Path:
        """Make a node's state as an operator does, and name its key in the policy."""
        state = self.state(name)
        state.mkdir()
        self.roles[name] = role
        url = self.server.url(self.database, self.login(name, role))
        (state / "acceptd.toml").write_text(
            f'policy = "fleet"\npolicies = "{self.policies}"\nmin_free_bytes = 0\n'
            + settings
            + f'\n[record]\nurl = "{url}"\n[objects]\nurl = "{self.objects}"\n{self.endpoint}'
            + "[inbox]\nsettle_seconds = 0.1\n"
            + f'[fleet]\nname = "{name}"\nrole = "{role}"\nlook_seconds = 1.0\nretry_seconds = 0.2\n'
            + f"beat_seconds = 0.5\nstalled_seconds = 3.0\n{self.fleet}{fleet}"
        )
        if not self.trust and len(self.roles) == 1:
            owner = {"ACCEPTD_RECORD_URL": self.server.url(self.database, OWNER)}
            self.command("fleet", "init", "--state", str(state), **owner)
        if role != "all":
            self.server.execute(f"CREATE ROLE {self.login(name, role)} LOGIN IN ROLE acceptd_{role}")
        words = ["init", "--state", str(state), "--role", role]
        self.command(*words, *(["--team", team] if role in {"intake", "all"} else []))
        if role in {"intake", "worker", "all"} and trusted:
            self.trusts(name, profiles=profiles, heldout=heldout)
        return state

    def login(self, name: str, role: Role) -> str:
        """Return the login of a node: a member of its role in the database; the owner does everything."""
        if role == "all":
            return OWNER
        return f"{self.database}_{name}"

    def trusts(self, name: str, *, profiles: tuple[str, ...] = ("cpu",), heldout: bool = False) -> None:
        """Name a node's key in the policy, in its roles."""
        key = base64.b64encode(node_signer(self.state(name)).public).decode()
        role = self.roles[name]
        for one in ("intake", "worker") if role == "all" else (role,):
            more = (
                f"profiles = {json.dumps(profiles)}\nheldout = {str(heldout).lower()}\n" if one == "worker" else ""
            )
            self.trust[name, one] = f'[[fleet.trust]]\nname = "{name}"\nrole = "{one}"\nkey = "{key}"\n{more}'
        self.write_policy()

    def start(self, *names: str, environment: Mapping[str, str] | None = None) -> None:
        """Start nodes and wait until they are ready."""
        for name in names:
            self.launch(name, environment=environment)
        for name in names:
            self.running[name].ready()

    def launch(self, name: str, *words: str, environment: Mapping[str, str] | None = None) -> Running:
        """Start a node, ready or not."""
        command = ["daemon", "--state", str(self.state(name)), *words]
        more = {**self.environment, **(environment or {})}
        self.running[name] = Running(command, self.root / f"{name}.log", self.bell, environment=more)
        return self.running[name]

    def kill(self, name: str) -> None:
        """Kill a node at once, with everything that it started."""
        self.running.pop(name).kill()

    def stop(self, name: str) -> int | None:
        """Stop a node in order; return its exit code."""
        one = self.running.pop(name)
        one.send(signal.SIGTERM)
        self.bell.until(one.ended, lambda: f"{name} ends; {one.tail()}")
        return one.code

    def close(self) -> None:
        """End everything."""
        for one in self.running.values():
            one.kill()
        self.server.drop(self.database)

    # -- drops ------------------------------------------------------------------------------------------

    def put(self, name: str, *, intake: str = "intake", team: str = TEAM, **options: Any) -> str:
        """Write the evidence classifier and drop it; return the drop's name."""
        return self.drop(
            classifier.write_bundle(self.root / "made" / name, **options), name, intake=intake, team=team
        )

    def accepted(self, name: str, **options: Any) -> dict[str, Any]:
        """Drop a good bundle and return its report once it is promoted."""
        report = self.verdict(self.put(name, **options))
        assert report["verdict"] == "accepted", (report["reason"], report["findings"])
        assert report.get("release"), report.get("promotion_trouble")
        return report

    def drop(self, source: Path, name: str, *, intake: str = "intake", team: str = TEAM) -> str:
        """Move a bundle into an inbox as a team does; return its name."""
        target = self.state(intake) / "inbox" / team / name
        source.rename(target)
        return name

    def verdict(self, name: str, *, intake: str = "intake", team: str = TEAM) -> dict[str, Any]:
        """Wait for a drop's verdict, and return the report in the outbox."""
        found: dict[str, Any] = {}

        def there() -> bool:
            outbox = self.state(intake) / "outbox" / team
            for place in outbox.glob("*/verdict.json"):
                report = json.loads(place.read_text())
                if report["drop"] == name:
                    found.update(report)
            return bool(found)

        self.bell.until(there, lambda: f"verdict of {name}; {self.tails()}")
        return found

    def tails(self) -> str:
        """Return the ends of all logs."""
        return "\n".join(f"== {name}\n{one.tail(3000)}" for name, one in self.running.items())

    # -- the record -------------------------------------------------------------------------------------

    def ledger(self, node: str = "promoter") -> Ledger:
        """Open the record."""
        return Ledger.open(self.state(node), create=False)

    def owned(self) -> Ledger:
        """Open the record as the owner of the tables, whom no role's walls hold."""
        state = self.state("promoter")
        return Ledger.open(state, create=False, place=Place(state, self.server.url(self.database, OWNER)))

    def verdicts(self, node: str = "promoter") -> Counter[str]:
        """Return how many verdict entries each submission has."""
        with self.ledger(node) as ledger:
            return Counter(str(entry.submission) for entry in ledger.entries(kind="verdict"))

    def whole(self, node: str = "promoter") -> None:
        """Check what every test promises: each submission with one verdict, and a whole ledger."""
        self.until(lambda: all(row.final for row in self.rows(node)), "every submission is finished")
        assert self.verdicts(node) == Counter(row.id for row in self.rows(node))
        self.command("ledger", "verify", "--state", str(self.state(node)))

    def rows(self, node: str = "promoter") -> list[Submission]:
        """Return all submissions."""
        with self.ledger(node) as ledger:
            return Queue(ledger).find()

    def until(self, holds: Any, what: str) -> None:
        """Wait until something holds of the record."""
        self.bell.until(holds, lambda: f"{what}; {self.tails()}")

    def command(self, *words: str, **more: str) -> str:
        """Run a command to its end and return what it prints."""
        done = subprocess.run(
            [sys.executable, "-m", "acceptd", *words], cwd=ROOT, env={**os.environ, **self.environment, **more},
            capture_output=True, text=True, check=False,
        )  # fmt: skip
        assert done.returncode == 0, done.stderr + done.stdout
        return done.stdout
