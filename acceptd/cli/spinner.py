"""A spinner whose words are text: a name of a file, a drop or a model may hold anything, also rich's markup."""

from __future__ import annotations

from typing import Any

from rich.console import RenderableType
from rich.status import Status
from rich.text import Text


class Words(Status):
    """rich's own reads markup in a string, and raises MarkupError for ``[/b]``."""

    def __init__(self, status: RenderableType, **how: Any) -> None:
        super().__init__(_text(status), **how)

    def update(self, status: RenderableType | None = None, **how: Any) -> None:
        """Show other words."""
        super().update(None if status is None else _text(status), **how)


def _text(words: RenderableType) -> RenderableType:
    return Text(words) if isinstance(words, str) else words
