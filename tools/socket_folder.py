"""A private folder for a server's socket; in the temporary directory, since a socket's path has at most 107 bytes."""

from __future__ import annotations

import os

from memory.errors import ServerError
from tools import private_folder
from tools.private_folder import PrivateFolder

PREFIX = "tunewright-server-"
LONGEST_PATH = 107
"""Bytes; the address structure of unix(7) holds 108 with the closing zero."""


class SocketFolder(PrivateFolder):
    """A private folder with room for the socket."""

    def __init__(self) -> None:
        super().__init__(PREFIX)
        self.socket = self.path / "s"
        if len(os.fsencode(self.socket)) > LONGEST_PATH:
            self.remove()
            raise ServerError(f"the path {self.socket} is too long for a socket", "Set TMPDIR to a short folder")


def remove_abandoned() -> None:
    """Remove this user's socket folders whose owner is gone."""
    private_folder.remove_abandoned(PREFIX)
