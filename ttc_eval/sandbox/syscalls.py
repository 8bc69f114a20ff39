"""A seccomp filter: system calls that a program of plain computation never makes, and that would lead out of its limits.

Namespaces and resource limits leave gaps: a nested user namespace brings capabilities and file systems without a size; shared memory
segments, memory files, extended attributes, and what waits in connections that nobody accepted, are counted by no limit of a process; VSOCK
and other socket families know no network namespace, key rings none at all; asynchronous I/O has one limit for the whole machine. The filter
closes them, and much of the kernel's attack surface with them. Pairs of connected sockets (`socketpair`) stay: event loops need them.
Numbers: arch/x86/entry/syscalls/syscall_64.tbl and include/uapi/asm-generic/unistd.h; layout: linux/seccomp.h, linux/filter.h.
"""

from __future__ import annotations

import errno
import platform
import struct
from dataclasses import dataclass

_LOAD, _EQUAL, _AT_LEAST, _ANY_BIT, _RETURN = 0x20, 0x15, 0x35, 0x45, 0x06
_NUMBER, _ARCH, _FIRST_ARGUMENT = 0, 4, 16
_ALLOW, _KILL, _ERRNO = 0x7FFF0000, 0x80000000, 0x00050000
_NEW_NAMESPACES = 0x7E020000

# name: (x86_64, aarch64); None where the architecture has no such call.
_DENIED: dict[str, tuple[int | None, int | None]] = {
    "acct": (163, 89), "add_key": (248, 217), "adjtimex": (159, 171), "bpf": (321, 280), "chroot": (161, 51), "clock_adjtime": (305, 266),
    "clock_settime": (227, 112), "delete_module": (176, 106), "fanotify_init": (300, 262), "finit_module": (313, 273),
    "fsconfig": (431, 431), "fsetxattr": (190, 7), "fsmount": (432, 432), "fsopen": (430, 430), "fspick": (433, 433),
    "init_module": (175, 105), "io_setup": (206, 0), "io_uring_enter": (426, 426), "io_uring_register": (427, 427),
    "io_uring_setup": (425, 425), "ioperm": (173, None), "iopl": (172, None), "kcmp": (312, 272), "kexec_file_load": (320, 294),
    "kexec_load": (246, 104), "keyctl": (250, 219), "listmount": (458, 458), "lookup_dcookie": (212, 18), "lsetxattr": (189, 6),
    "mbind": (237, 235), "memfd_create": (319, 279), "memfd_secret": (447, 447), "migrate_pages": (256, 238), "modify_ldt": (154, None),
    "mount": (165, 40), "mount_setattr": (442, 442), "move_mount": (429, 429), "move_pages": (279, 239), "mq_open": (240, 180),
    "mq_unlink": (241, 181), "msgctl": (71, 187), "msgget": (68, 186), "msgrcv": (70, 188), "msgsnd": (69, 189),
    "name_to_handle_at": (303, 264), "nfsservctl": (180, 42), "open_by_handle_at": (304, 265), "open_tree": (428, 428),
    "open_tree_attr": (467, 467), "perf_event_open": (298, 241), "personality": (135, 92), "pidfd_getfd": (438, 438),
    "pivot_root": (155, 41), "process_madvise": (440, 440), "process_vm_readv": (310, 270), "process_vm_writev": (311, 271),
    "ptrace": (101, 117), "quotactl": (179, 60), "quotactl_fd": (443, 443), "reboot": (169, 142), "request_key": (249, 218),
    "semctl": (66, 191), "semget": (64, 190), "semop": (65, 193), "semtimedop": (220, 192), "set_mempolicy": (238, 237),
    "setns": (308, 268), "settimeofday": (164, 170), "setxattr": (188, 5), "setxattrat": (463, 463), "shmat": (30, 196),
    "shmctl": (31, 195), "shmdt": (67, 197), "shmget": (29, 194), "socket": (41, 198), "statmount": (457, 457), "swapoff": (168, 225),
    "swapon": (167, 224), "syslog": (103, 116), "umount2": (166, 39), "unshare": (272, 97), "uselib": (134, None),
    "userfaultfd": (323, 282), "vhangup": (153, 58), "vmsplice": (278, 75),
}  # fmt: skip


@dataclass(frozen=True, slots=True)
class _Architecture:
    place: int
    audit: int
    clone: int
    clone3: int
    first_foreign: int | None


_ARCHITECTURES = {
    "x86_64": _Architecture(0, 0xC000003E, 56, 435, 0x40000000),
    "aarch64": _Architecture(1, 0xC00000B7, 220, 435, None),
}


def program(machine: str | None = None) -> bytes | None:
    """The filter as a BPF program; None for an architecture whose numbers are not known here. `machine` is this one by default."""
    architecture = _ARCHITECTURES.get(machine or platform.machine())
    if architecture is None:
        return None
    denied = sorted(number for numbers in _DENIED.values() if (number := numbers[architecture.place]) is not None)
    refuse = _step(_RETURN, _ERRNO | errno.EPERM)
    steps = [
        _step(_LOAD, _ARCH),
        _step(_EQUAL, architecture.audit, 1, 0),
        _step(_RETURN, _KILL),
        _step(_LOAD, _NUMBER),
    ]
    if architecture.first_foreign is not None:
        steps += [_step(_AT_LEAST, architecture.first_foreign, 0, 1), _step(_RETURN, _ERRNO | errno.ENOSYS)]
    for number in denied:
        steps += [_step(_EQUAL, number, 0, 1), refuse]
    # The C library falls back to clone, whose flags a filter can read.
    steps += [_step(_EQUAL, architecture.clone3, 0, 1), _step(_RETURN, _ERRNO | errno.ENOSYS)]
    steps += [
        _step(_EQUAL, architecture.clone, 0, 3),
        _step(_LOAD, _FIRST_ARGUMENT),
        _step(_ANY_BIT, _NEW_NAMESPACES, 0, 1),
        refuse,
        _step(_RETURN, _ALLOW),
    ]
    return b"".join(steps)


def _step(code: int, value: int, if_true: int = 0, if_false: int = 0) -> bytes:
    return struct.pack("=HBBI", code, if_true, if_false, value)
