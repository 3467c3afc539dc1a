"""Ten thousand drops of twenty teams, faster than one daemon can judge them: what must hold, and the figures."""
