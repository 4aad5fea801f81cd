"""Causes: what each change did, and what is to blame for what is still wrong; from figures and outcomes, by rules."""
