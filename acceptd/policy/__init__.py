"""What people write: manifests, policies, contracts, profiles; validated, frozen, with their digests."""
