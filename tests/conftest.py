"""No test depends on luck: what would be drawn at random is the same in every run.

``ACCEPTD_TEST_RANDOM=1`` draws anew: another secret for the probes, other keys, other examples of a property.
"""

from __future__ import annotations

import hypothesis

from tests import steady

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
