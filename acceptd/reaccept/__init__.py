"""Runs what is promoted again, under another runtime or policy; says what would no longer pass; moves nothing."""
