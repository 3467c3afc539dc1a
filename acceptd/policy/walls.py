"""The walls of the cell, by the names that a policy requires them by."""

from __future__ import annotations

from typing import Literal

Wall = Literal[
    "namespaces",
    "root",
    "network",
    "landlock",
    "seccomp",
    "capabilities",
    "rlimits",
    "memory_cgroup",
    "separate_uid",
]
