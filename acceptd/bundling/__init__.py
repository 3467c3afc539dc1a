"""Helps a team to make a bundle: proposes its manifest, locks it, packs it, makes golden vectors for it."""
