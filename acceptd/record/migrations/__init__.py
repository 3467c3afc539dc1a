"""Migrations of the ledger's database, run by alembic: one revision for each number of ``tables.SCHEMA_VERSION``.

Rules of a revision:

- It never touches ``entries``, ``nodes`` or ``evidence``: the truth is migrated by nobody. Triggers refuse an
  edit, and :mod:`acceptd.record.migrate` compares every row and definition of them before and after.
  Projections may be changed in any way: they follow from the entries (``projections.rebuild``).
- Its id is its schema version in four digits, in a module ``vNNNN_what.py``; it never changes once it was shipped.
- It holds its own data definition and never imports ``tables``, which moves on.
- It runs in a transaction that is begun already, and never commits. All revisions that are due commit as one.
- Plain ``op`` calls and SQL. ``batch_alter_table`` drops a table, which empties those that refer to it.
- It holds on both engines: ``op.get_bind().dialect.name`` says which. PostgreSQL began with revision 0002.
- Where it only adds (tables, columns with a default), nodes of the version before work on: it leaves
  ``readable_from`` in ``meta`` as it is. Else it sets that to its own version, as ``tables.READABLE_FROM`` has it,
  and they refuse. New tables need their rights (``acceptd ledger roles --grant``).
- There is no way back but the backup that was made before: ``downgrade`` raises.
"""
