"""Batches: several tasks in one file, each an ordinary run, and one table of what came of them."""
