"""Release: moves names, so that production finds an approved digest, the one before it, or an error."""
