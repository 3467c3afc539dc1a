"""The untrusted side: everything that runs inside the cell.

Nothing here imports ``acceptd``; what both sides need is in :mod:`sandbox.messages`, which uses
the standard library only. A test holds both rules.
"""
