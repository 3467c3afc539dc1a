"""The life of a contract: proposed, compared, signed, put in force, superseded; and which one is in force."""
