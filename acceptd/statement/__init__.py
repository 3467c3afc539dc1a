"""What signed statements say: their predicates as frozen models, and how they are made from what is known."""
