"""Intake: watches the inbox, claims drops and seals their bytes; it parses nothing that a submitter wrote."""
