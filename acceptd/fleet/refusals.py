"""Why what another node handed over does not count: the codes of the findings, and how they are raised. Pure."""

from __future__ import annotations

from acceptd.errors import FleetTrustError


def refused(cause: str, why: str, *, remedy: str = "") -> FleetTrustError:
    """Return the error for what one node handed over: not signed by who counts, not for this order, or untrue.

    ``cause`` is a stable word, ``why`` one line.
    """
    return FleetTrustError("cell/evidence-refused", cause, why, remedy=remedy)


def disagree(why: str) -> FleetTrustError:
    """Return the error for what several nodes say otherwise."""
    return FleetTrustError("cell/workers-disagree", "disagree", why)
