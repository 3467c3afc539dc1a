"""What a request asks for: parameters of an address, each of one form; anything else is refused in a line."""

from __future__ import annotations

import re
from collections.abc import Iterable
from typing import Any, Final

from acceptd.cli.times import moment
from acceptd.errors import UsageError
from acceptd.web import house

_CODE: Final = re.compile(r"[a-z0-9-]{1,40}/[a-z0-9-]{1,80}", re.ASCII)
_KIND: Final = re.compile(r"[a-z][a-z0-9-]{0,47}", re.ASCII)
_SUBMISSION: Final = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,127}", re.ASCII)
_DIGEST: Final = re.compile(r"[0-9a-f]{64}", re.ASCII)
_REMEDY: Final = "mend the filter, or follow the console's own links"


class Asked:
    """The parameters of one request; an unknown one is refused, so that no filter is passed by unseen."""

    def __init__(self, parameters: Any, known: Iterable[str]) -> None:
        self._given: dict[str, str] = {}
        for key, value in parameters.multi_items():
            if key not in known or key in self._given:
                raise UsageError(f"the parameter {key!r:.60} is unknown or said twice", remedy=_REMEDY)
            self._given[key] = value.strip()

    def text(self, key: str) -> str:
        """Return a parameter as it was given; empty where it was not."""
        return self._given.get(key, "")

    def one_of(self, key: str, known: Iterable[str]) -> str:
        """Return a parameter that is empty or one of ``known``."""
        return self._form(key, lambda value: value in set(known), "is not one of the choices")

    def team(self, key: str = "team") -> str:
        """Return the name of a team or a channel, or nothing."""
        return house.name(self.text(key)) if self.text(key) else ""

    def model(self, key: str = "model") -> str:
        """Return a model id, or nothing."""
        return house.model(self.text(key)) if self.text(key) else ""

    def code(self, key: str = "code") -> str:
        """Return a finding's code, or nothing."""
        return self._form(key, _CODE.fullmatch, "is no finding code, like `run/crash`")

    def kind(self, key: str = "kind") -> str:
        """Return the type of an entry, or nothing."""
        return self._form(key, _KIND.fullmatch, "is no type of entry")

    def submission(self, key: str) -> str:
        """Return a submission's id, or nothing."""
        return self._form(key, _SUBMISSION.fullmatch, "is no submission")

    def digest(self, key: str) -> str:
        """Return 64 lowercase hex digits, or nothing."""
        return self._form(key, _DIGEST.fullmatch, "is no digest: 64 lowercase hexadecimal digits")

    def number(self, key: str) -> int | None:
        """Return a whole number of at most 15 digits, or None."""
        text = self._form(
            key, lambda value: value.isascii() and value.isdecimal() and len(value) < 16, "is no number"
        )
        return int(text) if text else None

    def time(self, key: str, otherwise: str = "") -> str:
        """Return a moment as the record holds it, or nothing; ``30d`` and ``12h`` count back from now."""
        said = self.text(key) or otherwise
        return moment(said, option=key) if said else ""

    def _form(self, key: str, fits: Any, otherwise: str) -> str:
        value = self.text(key)
        if value and not fits(value):
            raise UsageError(f"{key}: {value!r:.80} {otherwise}", remedy=_REMEDY)
        return value
