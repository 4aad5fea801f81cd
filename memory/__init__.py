"""The basement: the vocabulary, the state, where files lie, and the database that holds checkpoints and the ledger."""
