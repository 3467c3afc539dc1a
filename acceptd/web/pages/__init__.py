"""The console's pages: each reads what an address asks for and returns blocks."""
