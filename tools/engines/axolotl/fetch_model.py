"""Downloads a hub model into the hub's own cache: the only step that needs the network, and only for a hub id.

Runs in the train environment under the engine contract. What is in the cache already is not asked for again.
"""

import sys
from pathlib import Path

from huggingface_hub import snapshot_download
from huggingface_hub.errors import GatedRepoError, HfHubHTTPError, LocalEntryNotFoundError, RepositoryNotFoundError

from tools.engines import worker_io

PATTERNS = ["*.safetensors", "*.safetensors.index.json", "*.json", "*.jinja", "*.model", "*.txt", "README.md"]


def has_weights(folder: str) -> bool:
    """True where the cached copy holds weights: an interrupted download leaves a folder without them."""
    return any(Path(folder).glob("*.safetensors"))


def main() -> None:
    """fetch_model.py FOLDER: request {"name"}, result {"path"}."""
    folder = sys.argv[1]
    with worker_io.reporting(folder):
        name = worker_io.read_request(folder)["name"]
        try:
            path = snapshot_download(name, allow_patterns=PATTERNS)
        except GatedRepoError:
            raise worker_io.WorkerFailure("ENV", f"{name} is gated: accept its licence on the hub first") from None
        except RepositoryNotFoundError:
            raise worker_io.WorkerFailure("ENV", f"the hub has no model {name}, or it is private") from None
        except (LocalEntryNotFoundError, HfHubHTTPError, OSError) as error:
            reason = f"the model hub could not be reached for {name} ({type(error).__name__})"
            raise worker_io.WorkerFailure("ENV", reason) from error
        if not has_weights(path):
            raise worker_io.WorkerFailure("ENV", f"{name} has no *.safetensors weights")
        worker_io.finish(folder, {"path": path})


if __name__ == "__main__":
    main()
