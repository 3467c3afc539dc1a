"""Example models and bundles: one that is accepted, and a catalogue of those that never are."""
