"""Brings many existing models under acceptd: finds them, proposes a bundle for each, says what a check came to."""
