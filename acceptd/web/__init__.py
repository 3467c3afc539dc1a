"""The reviewers' console: pages over the record, on loopback; it reads, and what is signed goes to the CLI."""
