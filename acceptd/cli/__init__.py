"""The command line: one module per noun; every error is one line with the place and the remedy."""
