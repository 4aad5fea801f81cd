"""Scoring with lighteval: `worker.py` answers requests, `task.py` makes a lighteval task of a benchmark,
`served_model.py` asks the vLLM server."""
