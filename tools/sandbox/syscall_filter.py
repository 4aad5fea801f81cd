"""The seccomp filter of the sandbox: what a child can never ask the kernel for, with or without bubblewrap.

No processes, threads or programs, no sockets, no signals to anybody, no look into other processes, no namespaces or
mounts. Reading, writing and computing stay. The limit on processes of setrlimit(2) does not bind root; this does.
"""

from __future__ import annotations

import platform
import struct

from memory.errors import SetupError

_PERMISSION_DENIED = 1
_LOAD, _JUMP_IF_EQUAL, _JUMP_IF_AT_LEAST, _RETURN = 0x20, 0x15, 0x35, 0x06
_KILL, _ALLOW, _ERROR = 0x8000_0000, 0x7FFF_0000, 0x0005_0000
_NUMBER, _ARCHITECTURE = 0, 4
"""Offsets in struct seccomp_data."""
_X32 = 0x4000_0000
"""On x86-64 the calls of the x32 interface carry this bit; they would go round the numbers below."""

_ARCHITECTURES = {"x86_64": 0xC000_003E, "aarch64": 0xC000_00B7}
_FORBIDDEN: dict[str, tuple[int | None, int | None]] = {
    # name: its number on x86-64, and on arm64 (where fork and vfork do not exist)
    "fork": (57, None),
    "vfork": (58, None),
    "clone": (56, 220),
    "clone3": (435, 435),
    "execve": (59, 221),
    "execveat": (322, 281),
    "socket": (41, 198),
    "connect": (42, 203),
    "bind": (49, 200),
    "listen": (50, 201),
    "kill": (62, 129),
    "tkill": (200, 130),
    "tgkill": (234, 131),
    "rt_sigqueueinfo": (129, 138),
    "rt_tgsigqueueinfo": (297, 240),
    "pidfd_send_signal": (424, 424),
    "pidfd_getfd": (438, 438),
    "ptrace": (101, 117),
    "process_vm_readv": (310, 270),
    "process_vm_writev": (311, 271),
    "unshare": (272, 97),
    "setns": (308, 268),
    "mount": (165, 40),
    "umount2": (166, 39),
    "open_tree": (428, 428),
    "move_mount": (429, 429),
    "fsopen": (430, 430),
    "pivot_root": (155, 41),
    "chroot": (161, 51),
    "bpf": (321, 280),
    "perf_event_open": (298, 241),
    "userfaultfd": (323, 282),
    "add_key": (248, 217),
    "request_key": (249, 218),
    "keyctl": (250, 219),
    "open_by_handle_at": (304, 265),
    # io_uring makes sockets and files without passing this filter
    "io_uring_setup": (425, 425),
    "io_uring_enter": (426, 426),
    "io_uring_register": (427, 427),
}


def program(machine: str | None = None) -> bytes:
    """The filter as an array of struct sock_filter, eight bytes each.

    A forbidden call fails with EPERM; a call through the interface of another architecture ends the process. Raises
    SetupError for a machine whose numbers are not here.
    """
    machine = machine or platform.machine()
    if machine not in _ARCHITECTURES:
        raise SetupError(f"the sandbox does not know the system calls of {machine}", "Run it on x86-64 or arm64")
    column = list(_ARCHITECTURES).index(machine)
    code = [
        _instruction(_LOAD, _ARCHITECTURE),
        _instruction(_JUMP_IF_EQUAL, _ARCHITECTURES[machine], 1, 0),
        _instruction(_RETURN, _KILL),
        _instruction(_LOAD, _NUMBER),
        _instruction(_JUMP_IF_AT_LEAST, _X32, 0, 1),
        _instruction(_RETURN, _ERROR | _PERMISSION_DENIED),
    ]
    for numbers in _FORBIDDEN.values():
        number = numbers[column]
        if number is not None:
            code.append(_instruction(_JUMP_IF_EQUAL, number, 0, 1))
            code.append(_instruction(_RETURN, _ERROR | _PERMISSION_DENIED))
    return b"".join([*code, _instruction(_RETURN, _ALLOW)])


def _instruction(code: int, operand: int, if_true: int = 0, if_false: int = 0) -> bytes:
    return struct.pack("=HBBI", code, if_true, if_false, operand)
