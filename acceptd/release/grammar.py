"""The patterns of names, digests and times in signed files, for schemas and long documents.

A loader judges the same grammar by :mod:`acceptd.release.trust`, where nothing is compiled at each start of
production; a property test holds the two together.
"""

from __future__ import annotations

import re
from typing import Final

# As in acceptd.policy.names, which needs pydantic; a test holds the two together.
NAME: Final = re.compile(r"[a-z0-9]([a-z0-9_-]{0,62}[a-z0-9])?", re.ASCII)
SHA256: Final = re.compile(r"[0-9a-f]{64}", re.ASCII)
STAMP: Final = re.compile(r"[0-9]{4}-[0-9]{2}-[0-9]{2}T[0-9]{2}:[0-9]{2}:[0-9]{2}Z", re.ASCII)
