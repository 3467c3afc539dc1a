"""``python -m acceptd``."""

from acceptd.cli.main import main

main()
