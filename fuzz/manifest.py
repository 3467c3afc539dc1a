"""Target: the ``manifest`` job's parser, and the trusted side's reading of what it sends.

Any bytes end in a document or in a refusal with a place; the document survives the frame; the trusted
side answers it with a manifest or with its own error. A parse that takes seconds is a finding (-timeout).
"""

from __future__ import annotations

import json

from acceptd.errors import ConfigError
from acceptd.policy.manifest import validate
from sandbox import manifest
from sandbox.messages import RefusedError, encode


def check(raw: bytes) -> None:
    """Parse ``raw`` as a submitter's bundle.toml on both sides. Raises whatever is not their own refusal."""
    try:
        document = manifest.parse(raw, "bundle.toml")
    except RefusedError as error:
        assert error.code.startswith("manifest/")
        assert error.where
        assert error.message
        return
    told = json.loads(encode("manifest", {"document": document})[5:])["document"]
    try:
        validate(told)
    except ConfigError:
        return
