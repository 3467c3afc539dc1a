"""Portfolio: every model on one page: what is promoted, by which acceptance, and what will need a person soon."""
