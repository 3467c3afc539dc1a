"""Retention: bytes go after their time; entries and evidence stay, and a removal is an entry before it happens."""
