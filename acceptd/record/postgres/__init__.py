"""The ledger's database on PostgreSQL: connections, schema, roles, and a look at it from outside for the audit."""
