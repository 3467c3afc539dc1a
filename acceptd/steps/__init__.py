"""The steps of a submission, each with only what it needs: a daemon and the roles of a fleet compose the same."""
