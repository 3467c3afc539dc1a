"""One harness that kills and starves a daemon at work, and asks for every promise each time: ``make chaos``."""
