"""BioProBench: writing, ordering, checking and knowing laboratory protocols (arXiv:2505.07889)."""
