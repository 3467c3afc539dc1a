"""What a URL of the record may say. Pure; it keeps no password, and its errors repeat none."""

from __future__ import annotations

from typing import Final
from urllib.parse import parse_qsl, urlsplit

SCHEMES: Final = ("postgresql", "postgres")
_SECRETS: Final = frozenset({"password", "sslpassword", "oauth_client_secret"})
_OURS: Final = frozenset({"options", "client_encoding", "fallback_application_name"})


def record_url(text: str) -> str:
    """Return a URL that is none of a file's, or empty; raise ValueError for one that cannot be meant.

    Libpq reads it (PostgreSQL, 34.1.1.2): what it does not know it refuses when the record is opened.
    """
    if not text:
        return text
    if not text.isprintable() or " " in text:
        raise ValueError("the URL of the record holds blanks or control characters")
    try:
        parts = urlsplit(text)
        named = {key.lower() for key, _ in parse_qsl(parts.query, keep_blank_values=True)}
        secret = parts.password is not None or bool(named & _SECRETS)
    except ValueError:
        raise ValueError("the URL of the record is malformed: postgresql://user@host:port/database") from None
    if secret:
        raise ValueError(
            "the URL of the record holds a password, which every reader of it would learn: "
            "put it into a file of mode 0600 that PGPASSFILE names, or a service (PGSERVICEFILE)"
        )
    if parts.scheme not in SCHEMES:
        raise ValueError("the URL of the record begins with postgresql://; without one the record is a file")
    if ours := sorted(named & _OURS):
        raise ValueError(f"{ours[0]!r} in the URL of the record is acceptd's own to set: ALTER ROLE … SET it")
    if parts.fragment:
        raise ValueError("the URL of the record holds a #: write it as %23")
    return text
