"""Judging a canary by the receipts of production: counted, decided, recorded, and then carried out."""
