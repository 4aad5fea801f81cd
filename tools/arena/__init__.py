"""A task as an environment for anybody's agent: look at data, make training files, train, score on validation, learn
from the errors; the test stays sealed."""
