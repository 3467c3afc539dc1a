"""Copies of what is released, for those without the loader: directories that verify themselves; and hooks."""
