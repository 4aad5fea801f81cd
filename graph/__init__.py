"""The plan: which node follows which, the command line, and runs that can be stopped, resumed and forked."""

import os

# LangGraph reads this when it is imported, so it must come first: a checkpoint may revive our records and nothing else.
os.environ.setdefault("LANGGRAPH_STRICT_MSGPACK", "true")
