"""Every error Tunewright raises on purpose: one clear line for the person, and the way out.

An error is raised where it happens and caught once: by the graph's node wrapper, which turns a `TrialError` into a
failed trial, or by a front door, which prints the line. Anything else is a bug and keeps its traceback.
"""

from memory.records import Failure, FailureKind, ModelFault, NodeName


class TunewrightError(Exception):
    """An expected failure: `message` is one line; `way_out` says what the person can do about it."""

    exit_code = 1

    def __init__(self, message: str, way_out: str = "") -> None:
        super().__init__(message)
        self.message = message
        self.way_out = way_out

    def __str__(self) -> str:
        return f"{self.message}. {self.way_out}" if self.way_out else self.message


class InputError(TunewrightError):
    """What the person asked for cannot be done: unknown name, unreadable file, budget too small, no space."""

    exit_code = 2


class RunBusyError(InputError):
    """Another process holds the run."""


class StoppedError(TunewrightError):
    """A person asked the run to stop. It can go on."""

    exit_code = 130


class StorageError(TunewrightError):
    """The run's folder or database cannot be read or written: disk full, corrupt log, newer schema."""


class SetupError(TunewrightError):
    """An engine environment or a base model could not be prepared."""


class ServerError(TunewrightError):
    """The vLLM server did not start, died, or answered a request with an error; the evaluation it served is void."""


class ModelError(TunewrightError):
    """A language model could not be asked, or gave no answer, after all that may be tried again was tried."""

    def __init__(self, fault: ModelFault, message: str, way_out: str = "") -> None:
        super().__init__(message, way_out)
        self.fault: ModelFault = fault


class CatalogueError(TunewrightError):
    """A public catalogue of data sets, models or papers gave no usable answer."""


class NotReproducedError(TunewrightError):
    """An export does not answer as the run did. It was not kept."""


class TrialError(TunewrightError):
    """A typed failure of one trial: the planner sees it and plans around it."""

    def __init__(self, kind: FailureKind, message: str, way_out: str = "") -> None:
        super().__init__(message, way_out)
        self.kind: FailureKind = kind

    def failure(self, node: NodeName) -> Failure:
        """The same failure as a record, named after the node in which it happened."""
        return Failure(kind=self.kind, node=node, message=self.message, way_out=self.way_out)


class EngineError(TrialError):
    """An engine process failed, timed out, or left no valid result; `log` is its run.log."""

    def __init__(self, kind: FailureKind, message: str, way_out: str = "", log: str = "") -> None:
        super().__init__(kind, message, way_out)
        self.log = log
