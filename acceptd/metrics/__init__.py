"""What a running daemon counts and shows to Prometheus. No submitted name is ever a label."""
