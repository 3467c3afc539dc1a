"""Bundles and evidence by their digests, in a directory or an S3-compatible store; written once, read whole."""
