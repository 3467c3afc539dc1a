"""No test depends on luck: what would be drawn is the same in every run, and no stream has a terminal's width.

``ACCEPTD_TEST_RANDOM=1`` draws anew: another secret for the probes, other keys, other examples of a property.
"""

from __future__ import annotations

import os

import hypothesis

from tests import steady

# pytest-xdist gives its workers the width of whoever started it; a test's streams are files and pipes.
os.environ.pop("COLUMNS", None)

hypothesis.settings.register_profile(
    "steady",
    derandomize=True,
    database=None,
    # How long an example takes says what else the host does.
    deadline=None,
    suppress_health_check=[hypothesis.HealthCheck.too_slow],
)
if not steady.RANDOM:
    hypothesis.settings.load_profile("steady")
    steady.secrets()
