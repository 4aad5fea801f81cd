"""Public catalogues of data sets, models and papers: searched on request, never downloaded from."""
