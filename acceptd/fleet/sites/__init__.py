"""What a daemon does as a node of a fleet: the wings of its roles, each with only what its role may have."""
