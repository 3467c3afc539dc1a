"""Judges stored submissions again under another policy, from stored evidence alone."""
