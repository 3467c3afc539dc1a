"""The parts of the ledger's audit: each recomputes one thing, and reports what differs and where."""
