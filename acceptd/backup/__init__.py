"""Copies of a whole state directory: made beside a running daemon, verified before they are used again."""
