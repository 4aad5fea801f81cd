"""The hands: processes, engines, serving, benchmarks, data, statistics and proposers; no node and no graph in here."""
