"""HTTP over the server's Unix socket; used by the app and by the lighteval worker alike, so it needs no HTTP library.

A fault of the connection is tried again a few times while the server still accepts connections: an idle connection may
have been closed by it. An answer that says no is never tried again.
"""

from __future__ import annotations

import http.client
import json
import socket
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from memory.errors import ServerError

ATTEMPTS = 3
"""Connections tried for one request."""


class UnixConnection(http.client.HTTPConnection):
    """An HTTP connection whose other end is a socket file; `timeout` in seconds."""

    def __init__(self, path: Path, timeout: float) -> None:
        super().__init__("localhost", timeout=timeout)
        self.path = path

    def connect(self) -> None:
        """Connect to the socket file. Raises OSError."""
        self.sock = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        self.sock.settimeout(self.timeout)
        self.sock.connect(str(self.path))


class Client:
    """Requests to one server over one kept connection; not for several threads at once."""

    def __init__(self, path: Path, timeout_s: float = 600.0) -> None:
        self.path = path
        self.connection = UnixConnection(path, timeout_s)

    def get(self, route: str) -> bytes:
        """The body of GET `route`. Raises ServerError."""
        return self._request("GET", route, None)

    def post(self, route: str, body: dict[str, Any] | None = None) -> dict[str, Any]:
        """The JSON object that POST `route` answers; {} where it answers nothing. Raises ServerError."""
        answer = self._request("POST", route, body or {})
        try:
            value = json.loads(answer) if answer.strip() else {}
        except ValueError:
            value = None
        if not isinstance(value, dict):
            raise ServerError(f"the vLLM server's answer to {route} is no JSON object: {answer[:100]!r}")
        return value

    def stream(self, route: str, body: dict[str, Any]) -> Iterator[dict[str, Any]]:
        """The JSON objects of an answer that comes bit by bit, as server-sent events; the server stops working on it
        when the caller stops asking for more. Raises ServerError, also where the answer breaks off."""
        try:
            self.connection.request("POST", route, json.dumps(body).encode(), {"Content-Type": "application/json"})
            response = self.connection.getresponse()
            if response.status >= 400:
                raise ServerError(f"the vLLM server refused {route} with {response.status}: {_reason(response.read())}")
            for line in response:
                name, _, said = line.strip().partition(b":")
                if name == b"data" and said.strip() == b"[DONE]":
                    return
                if name == b"data":
                    yield _event(said, route)
            raise ServerError(f"the vLLM server broke its answer to {route} off")
        except TimeoutError as error:
            raise ServerError(f"no answer to {route} within {self.connection.timeout} s") from error
        except (OSError, http.client.HTTPException) as error:
            raise ServerError(f"the vLLM server is gone ({type(error).__name__} at {route})") from error
        finally:
            self.close()  # an answer that was left early would stand in the way of the next one

    def close(self) -> None:
        """Close the connection; the next request opens a new one."""
        self.connection.close()

    def _request(self, method: str, route: str, body: dict[str, Any] | None) -> bytes:
        data = None if body is None else json.dumps(body).encode()
        for attempt in range(1, ATTEMPTS + 1):
            try:
                self.connection.request(method, route, data, {"Content-Type": "application/json"})
                response = self.connection.getresponse()
                answer = response.read()
            except TimeoutError as error:
                self.close()
                raise ServerError(f"no answer to {route} within {self.connection.timeout} s") from error
            except (OSError, http.client.HTTPException) as error:
                self.close()
                if attempt == ATTEMPTS or not self._listening():
                    raise ServerError(f"the vLLM server is gone ({type(error).__name__} at {route})") from error
                continue
            if response.status >= 400:
                raise ServerError(f"the vLLM server refused {route} with {response.status}: {_reason(answer)}")
            return answer
        raise AssertionError("unreachable")

    def _listening(self) -> bool:
        try:
            self.connection.connect()
        except OSError:
            return False
        finally:
            self.close()
        return True


def _event(said: bytes, route: str) -> dict[str, Any]:
    """One event of an answer. Raises ServerError where it is no JSON object, or is an error."""
    try:
        value = json.loads(said)
    except ValueError:
        value = None
    if not isinstance(value, dict):
        raise ServerError(f"the vLLM server's answer to {route} holds no JSON object: {said[:100]!r}")
    if "error" in value:
        raise ServerError(f"the vLLM server failed in its answer to {route}: {_reason(said)}")
    return value


def _reason(answer: bytes) -> str:
    """What an error's body says, in one line."""
    try:
        value = json.loads(answer)
        text = str(value["error"]["message"] if "error" in value else value["detail"])
    except (ValueError, KeyError, TypeError):
        text = answer.decode(errors="replace")
    return " ".join(text.split())[:300]
