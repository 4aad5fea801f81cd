"""Training: what is asked of the training engine, what it may cost, how it is watched, and where it begins."""
