"""Language models as planners: typed answers over any OpenAI-compatible server, metered, cached and bounded."""
