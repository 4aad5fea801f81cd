"""ChemCoTBench: understanding, editing and optimising molecules, and predicting reactions (arXiv:2505.21318)."""
