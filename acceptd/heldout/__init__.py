"""Held-out vectors: kept where no submission reaches, evaluated once all else passed, told as one bit."""
