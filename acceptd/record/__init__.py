"""Record: the ledger that cannot be rewritten unnoticed, its keys and statements, and the queue of submissions."""
