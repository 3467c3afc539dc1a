"""Pure decisions: manifest, contract, policy, evidence, statistics and a time in; a verdict out."""
