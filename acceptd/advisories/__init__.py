"""Signed lists of what is known against runtimes: kept in the ledger, matched with what releases ran under."""
