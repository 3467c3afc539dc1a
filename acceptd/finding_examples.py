"""One real example of each finding code: the place and the sentence, as the judge worded them of a real bundle.

The data is ``judge/catalogue/examples.json``, beside the tables of codes; the judge itself does not read it.
``python -m tools.gen_examples`` adds what is missing from findings that the tests made.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from types import MappingProxyType
from typing import Final

FILE: Final = Path(__file__).with_name("judge") / "catalogue" / "examples.json"


@dataclass(frozen=True, slots=True)
class Example:
    """``where`` and ``message`` of one finding, as in a verdict; ``where`` may be empty."""

    where: str
    message: str

    def line(self) -> str:
        """Return both as a verdict's table says them, in one line."""
        return f"{self.where}: {self.message}" if self.where else self.message


@cache
def examples() -> Mapping[str, Example]:
    """Return the example of each code. Raises ValueError where the shipped file was changed into nonsense."""
    data = json.loads(FILE.read_text(encoding="utf-8"))
    return MappingProxyType({code: Example(where, message) for code, (where, message) in data.items()})
