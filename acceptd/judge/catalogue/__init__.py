"""What every finding code means: severity, meaning, remedy, reason and public references; tables, no rules."""
