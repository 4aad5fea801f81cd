"""Engines: a folder each, with a worker and pinned requirements; `contract.py` runs them in their environments."""
