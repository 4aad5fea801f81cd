"""Serving with vLLM: `worker.py` starts the server, `client.py` talks to it over its Unix socket."""
