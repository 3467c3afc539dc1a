"""Admission and order of work: what may run now, what waits, and what becomes of work that is given up."""
