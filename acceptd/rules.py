"""The acceptor's rules as loaded for one acceptance: policy and profiles, with their digests."""

from __future__ import annotations

import contextlib
import os
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from acceptd.judge.profiles import Target
from acceptd.policy import load
from acceptd.policy.policy import Policy
from acceptd.policy.profile import Profile
from acceptd.policy.reduced import Reduced
from acceptd.policy.trusted import check_owner


@dataclass(frozen=True, slots=True)
class Rules:
    """One policy with its profiles. Digests are SHA-256 in hex of the canonical JSON.

    ``profile``, ``profile_digest`` and ``reduced`` are those of the first profile; ``others`` are the rest.
    """

    policy: Policy
    policy_digest: str
    profile: Profile
    profile_digest: str
    directory: Path
    reduced: Reduced | None = None
    """What the profile's onnxruntime was built with; None: everything."""
    source: bytes = b""
    others: tuple[Target, ...] = ()

    @property
    def targets(self) -> tuple[Target, ...]:
        """Every profile that bundles are judged under, in the policy's order, the required ones first."""
        return (Target(self.profile, self.profile_digest, self.reduced, source=self.source), *self.others)

    def under(self, target: Target) -> Rules:
        """Return the rules as they hold for one profile."""
        if not self.others:
            return self
        return replace(
            self,
            policy=self.policy.under(target.profile.name),
            profile=target.profile,
            profile_digest=target.digest,
            reduced=target.reduced,
            source=target.source,
            others=(),
        )


def policy_file(directory: Path, policy: str) -> Path:
    """Return the file of ``policy``: a path, or a name in ``directory``."""
    return Path(policy) if policy.endswith(".toml") else directory / f"{policy}.toml"


def load_rules(directory: Path, policy: str, overrides: Sequence[str] = ()) -> Rules:
    """Return the rules of ``policy``: a name in ``directory``, or a path to a file.

    ``overrides`` are ``key=value`` texts of ``check --set``; they change the policy's digest. Profiles and
    contracts are those of ``directory``, wherever the policy's own file lies.
    """
    rules = load.load_policy(policy_file(directory, policy))
    if overrides:
        rules = load.with_overrides(rules, overrides)
    for folder in (directory, directory / "profiles"):
        # Who may write there may take a profile away, and its pins with it.
        with contextlib.suppress(FileNotFoundError):
            check_owner(folder, os.stat(folder))
    first, *others = [
        _target(directory / "profiles" / f"{name}.toml", name, required=name in rules.profiles)
        for name in (*rules.profiles, *rules.optional_profiles)
    ]
    return Rules(
        rules,
        load.digest(rules),
        first.profile,
        first.digest,
        directory,
        first.reduced,
        first.source,
        tuple(others),
    )


def _target(place: Path, name: str, *, required: bool) -> Target:
    # The profile `cpu` is built in, so that a policy file alone is enough. A link that leads nowhere is no
    # absence: the built-in one pins nothing.
    built_in = name == "cpu" and not os.path.lexists(place)
    profile = Profile() if built_in else load.named_profile(place)
    source = load.reduced_source(profile, str(place))
    reduced = load.load_reduced(profile, str(place), source)
    return Target(profile, load.digest(profile), reduced, required, source)
