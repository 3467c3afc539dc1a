"""The revisions, oldest first by name."""
