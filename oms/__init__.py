"""Interoperability with model_signing, the reference implementation of OpenSSF model signatures."""
