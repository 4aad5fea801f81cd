"""The dojo: ways to plan, compared at one wall-clock budget on tasks that were fixed before. `python -m graph.dojo`."""
