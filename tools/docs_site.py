"""What the site of the documentation adds to its pages; mkdocs calls it (``hooks`` of mkdocs.yml).

Pages name each other as a reader in a checkout finds them, `docs/loader.md` or `loader.md` in code type. On the
site such a name is a link to that page. ``python -m tools.docs_site site`` looks through the built site for what a
browser would fetch from another host: nothing.
"""

from __future__ import annotations

import posixpath
import re
import sys
from pathlib import Path
from typing import Any

_FENCED = re.compile(r"^```.*?^```$", re.MULTILINE | re.DOTALL)
_NAMED = re.compile(r"(?<!\[)`(?:docs/)?((?:[a-z0-9-]+/)*[a-z0-9-]+\.(?:md|schema\.json))`(?!\])")


def linked(markdown: str, page: str, known: frozenset[str]) -> str:
    """Return a page's text with every name of another page as a link; paths are those below docs/."""
    here = posixpath.dirname(page)

    def link(found: re.Match[str]) -> str:
        for target in (posixpath.normpath(posixpath.join(here, found[1])), found[1]):
            if target in known and target != page:
                return f"[{found[0]}]({posixpath.relpath(target, here or '.')})"
        return found[0]

    parts, end = [], 0
    for fence in _FENCED.finditer(markdown):
        parts += [_NAMED.sub(link, markdown[end : fence.start()]), fence[0]]
        end = fence.end()
    return "".join([*parts, _NAMED.sub(link, markdown[end:])])


def on_page_markdown(markdown: str, page: Any, config: Any, files: Any) -> str:  # noqa: ARG001 mkdocs names them
    """Called by mkdocs for each page."""
    return linked(markdown, page.file.src_uri, frozenset(file.src_uri for file in files))


_FETCHED = re.compile(
    r"<(?:script|img|iframe|source|video|audio)\b[^>]*\bsrc=\"(?:https?:)?//[^\"]+\"|<link\b[^>]*>"
)
_ELSEWHERE = re.compile(r"\bhref=\"(?:https?:)?//")


def fetched(html: str) -> list[str]:
    """Return the elements of a page for which a browser would ask another host; a link to click is none."""
    return [
        found[0]
        for found in _FETCHED.finditer(html)
        if not found[0].startswith("<link") or (_ELSEWHERE.search(found[0]) and 'rel="canonical"' not in found[0])
    ]


def main() -> int:
    """Say which pages of a built site would ask another host for something; 1 where one does."""
    site = Path(sys.argv[1])
    pages = sorted(site.rglob("*.html"))
    wrong = [f"{page.relative_to(site)}: {one}" for page in pages for one in fetched(page.read_text("utf-8"))]
    print(*wrong, f"{site}: {len(pages)} pages, {len(wrong)} things from another host", sep="\n")
    return 1 if wrong or not pages else 0


if __name__ == "__main__":
    sys.exit(main())
