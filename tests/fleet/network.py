"""A network between the machines of a fleet, on one machine: each node in a namespace of its own, joined by
cables.

The process that makes it lives in a network namespace itself (:func:`alone` sees to it), with a bridge in it; each
node is on the other end of a cable (a veth pair) that can be pulled. Nothing of it is seen from outside, and all
of it is gone with the processes. Database and object store have an address each, so that a node can lose one and
keep the other.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
from typing import Final

DATABASE: Final = "198.18.7.1"
OBJECTS: Final = "198.18.7.2"
"""Addresses of the range for benchmarks (RFC 2544): nothing real has one."""
PREFIX: Final = 24
SUBNET: Final = "198.18.7.0/24"
_NODES: Final = "198.18.7.{}"
_FIRST: Final = 11
_NOWHERE: Final = "02:00:00:00:00:fe"
"""A station that no cable leads to: what is sent there is lost without a word."""
_INSIDE: Final = "ACCEPTD_TEST_ALONE"


def able() -> bool:
    """Whether namespaces, bridges and cables can be made here."""
    if os.geteuid() != 0:
        return False
    words = "ip link add probe type bridge && ip link add one type veth peer name other"
    done = subprocess.run(["unshare", "-n", "sh", "-c", words], capture_output=True, check=False)
    return done.returncode == 0


def alone(module: str, words: list[str]) -> None:
    """Go on in a network namespace of its own: the process begins again there, once, as ``python -m MODULE
    WORDS``."""
    if os.environ.get(_INSIDE) == "1":
        return
    os.environ[_INSIDE] = "1"
    os.execvp("unshare", ["unshare", "-n", sys.executable, "-m", module, *words])


class Network:
    """A bridge here, and nodes at the other ends of its cables."""

    def __init__(self) -> None:
        assert os.environ.get(_INSIDE) == "1", "a network is made in a namespace of its own"
        self._holders: dict[str, subprocess.Popen[str]] = {}
        self._numbers: dict[str, int] = {}
        _ip("link set lo up")
        _ip("link add fleet type bridge")
        for address in (DATABASE, OBJECTS):
            _ip(f"addr add {address}/{PREFIX} dev fleet")
        _ip("link set fleet up")

    def join(self, name: str) -> None:
        """Give a node its namespace, its address and its cable."""
        number = self._numbers[name] = len(self._numbers)
        # A process that does nothing keeps the namespace; it dies with this one.
        holder = subprocess.Popen(
            ["setpriv", "--pdeathsig", "KILL", "unshare", "-n", "sh", "-c", "echo made; exec sleep infinity"],
            stdout=subprocess.PIPE, stdin=subprocess.DEVNULL, text=True,
        )  # fmt: skip
        assert holder.stdout is not None
        assert holder.stdout.readline() == "made\n"
        self._holders[name] = holder
        cable = f"cable{number}"
        _ip(f"link add {cable} type veth peer name eth0 netns {holder.pid}")
        _ip(f"link set {cable} master fleet up")
        self._at(name, "link set lo up")
        self._at(name, f"addr add {_NODES.format(_FIRST + number)}/{PREFIX} dev eth0")
        self._at(name, "link set eth0 up")

    def inside(self, name: str) -> list[str]:
        """Return what begins a command line that is to run at a node's place."""
        return ["nsenter", f"--net=/proc/{self._holders[name].pid}/ns/net", "--"]

    def pull(self, name: str) -> None:
        """Pull a node's cable: what is sent either way is lost, and nobody is told."""
        _ip(f"link set cable{self._numbers[name]} nomaster")

    def down(self, name: str) -> None:
        """Take a node's interface away: its own sends fail at once, and the others are not told."""
        self._at(name, "link set eth0 down")

    def lose(self, name: str, address: str) -> None:
        """Lose what a node sends to one address; what is sent to it arrives, and so does all else."""
        self._at(name, f"neigh replace {address} lladdr {_NOWHERE} dev eth0 nud permanent")

    def slow(self, name: str, kilobits: int) -> None:
        """Let a node receive so many kilobits a second at most."""
        _tc(f"qdisc replace dev cable{self._numbers[name]} root tbf rate {kilobits}kbit burst 16kb latency 800ms")

    def counted(self, name: str) -> tuple[int, int]:
        """Return the bytes that a node has sent and received on its cable until now."""
        words = ["ip", "-json", "-stats", "link", "show", "dev", "eth0"]
        done = subprocess.run([*self.inside(name), *words], capture_output=True, text=True, check=True)
        found = json.loads(done.stdout)[0]["stats64"]
        return int(found["tx"]["bytes"]), int(found["rx"]["bytes"])

    def mend(self, name: str) -> None:
        """Take back whatever was done to a node's cable."""
        cable = f"cable{self._numbers[name]}"
        _ip(f"link set {cable} master fleet up")
        self._at(name, "link set eth0 up")
        for address in (DATABASE, OBJECTS):
            self._at(name, f"neigh del {address} dev eth0", check=False)
        _tc(f"qdisc del dev {cable} root", check=False)

    def close(self) -> None:
        """Take it down."""
        for holder in self._holders.values():
            holder.kill()
            holder.wait()
            assert holder.stdout is not None
            holder.stdout.close()
        _ip("link del fleet")

    def _at(self, name: str, words: str, check: bool = True) -> None:
        done = subprocess.run(
            [*self.inside(name), "ip", *words.split()], capture_output=True, text=True, check=False
        )
        assert not check or done.returncode == 0, f"ip {words}: {done.stderr}"


def _ip(words: str) -> None:
    done = subprocess.run(["ip", *words.split()], capture_output=True, text=True, check=False)
    assert done.returncode == 0, f"ip {words}: {done.stderr}"


def _tc(words: str, check: bool = True) -> None:
    done = subprocess.run(["tc", *words.split()], capture_output=True, text=True, check=False)
    assert not check or done.returncode == 0, f"tc {words}: {done.stderr}"
