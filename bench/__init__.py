"""Benchmarks: ratios in one run on one machine, never asserted in a unit test."""
