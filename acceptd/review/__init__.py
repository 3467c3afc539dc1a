"""People's decisions about verdicts: signed with their own keys, recorded, and weighed by the policy."""
