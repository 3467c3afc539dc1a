"""One gate on many machines: who examines what, whose word counts, and how it becomes one verdict."""
