"""The people: five nodes, one decision each; every one is a plain function `(state, deps) -> changes`."""
