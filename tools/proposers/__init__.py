"""Proposers: each reads a `Brief` and answers with the next `Plan`, or with a `Stop` and its reason."""
