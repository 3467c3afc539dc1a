"""What the daemon tells whoever supervises it: that it is ready, that it is alive, that it stops."""
