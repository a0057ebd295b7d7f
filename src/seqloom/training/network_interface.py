"""The network interface through which the machines of a training reach each other.

Gloo advertises the address that the host's own name resolves to. On many systems, Debian among them, that is a loopback
address, and no other machine can connect to it.
"""

import ctypes
import ipaddress
import os
import socket
import sys
from collections.abc import Mapping
from typing import Protocol

INTERFACE = "GLOO_SOCKET_IFNAME"
"""The environment variable that Gloo reads; what a user sets there is kept."""


class Store(Protocol):
    """What all processes share before they are a group: the part of ``torch.distributed.Store`` that is used here."""

    def set(self, key: str, value: str, /) -> None: ...

    def get(self, key: str, /) -> bytes:
        """The value of a key, as soon as a process has set it."""


def set_interface(store: Store, *, rank: int, size: int, master: str, port: int) -> None:
    """Make Gloo use the interface that ``choose_interface`` returns, unless the user has chosen one."""
    interface = choose_interface(store, rank=rank, size=size, master=master, port=port)
    if interface:
        os.environ.setdefault(INTERFACE, interface)


def choose_interface(store: Store, *, rank: int, size: int, master: str, port: int) -> str:
    """The interface that leads to the master; "" where the choice can be left to Gloo.

    On the master's machine its name may resolve to a loopback address. There, the address counts at which the other
    machines reach it; they publish it in the store.
    """
    source, reached = route(master, port)
    store.set(_key(rank), reached)
    if os.environ.get(INTERFACE):
        return ""
    if is_loopback(source):
        others = [store.get(_key(other)).decode() for other in range(size)]
        outside = [address for address in others if not is_loopback(address)]
        if not outside:  # all processes are on this machine
            return ""
        source = outside[0]
    interfaces = addresses()
    if interfaces and source not in interfaces:
        own = ", ".join(f"{address} ({name})" for address, name in interfaces.items() if not is_loopback(address))
        raise ValueError(
            f"other machines reach this one at {source}, which is not one of its own addresses: {own or 'none'}. "
            f"Set {INTERFACE} to the interface that leads to them"
        )
    return interfaces.get(source, "")


def _key(rank: int) -> str:
    return f"seqloom/master seen by rank {rank}"


def route(host: str, port: int) -> tuple[str, str]:
    """The own address from which packets to a host are sent, and the host's address. Nothing is sent."""
    failure: OSError | None = None
    for family, kind, protocol, _, address in socket.getaddrinfo(host, port, type=socket.SOCK_DGRAM):
        try:
            with socket.socket(family, kind, protocol) as probe:
                probe.connect(address)
                return _plain(probe.getsockname()[0]), _plain(str(address[0]))
        except OSError as error:
            failure = error
    raise ValueError(f"no route to {host} (MASTER_ADDR): {failure}")


def _plain(address: str) -> str:
    """An address without its zone: ``fe80::1`` of ``fe80::1%eth0``."""
    return address.partition("%")[0]


def is_loopback(address: str) -> bool:
    return ipaddress.ip_address(address).is_loopback


class _InterfaceAddress(ctypes.Structure):
    """``struct ifaddrs`` of Linux, macOS and the BSDs."""


_InterfaceAddress._fields_ = [
    ("next", ctypes.POINTER(_InterfaceAddress)),
    ("name", ctypes.c_char_p),
    ("flags", ctypes.c_uint),
    ("address", ctypes.c_void_p),
    ("netmask", ctypes.c_void_p),
    ("destination", ctypes.c_void_p),
    ("data", ctypes.c_void_p),
]


def addresses() -> Mapping[str, str]:
    """The interface of each address of this machine; empty where the system cannot list them (Windows)."""
    if sys.platform == "win32":
        return {}
    library = ctypes.CDLL(None, use_errno=True)
    first = ctypes.POINTER(_InterfaceAddress)()
    if library.getifaddrs(ctypes.byref(first)):
        raise OSError(ctypes.get_errno(), "cannot list the network interfaces")
    interfaces: dict[str, str] = {}
    try:
        entry = first
        while bool(entry):
            if address := _text(entry.contents.address):
                interfaces.setdefault(address, entry.contents.name.decode())
            entry = entry.contents.next
    finally:
        library.freeifaddrs(first)
    return interfaces


def _text(pointer: int | None) -> str:
    """The address in a ``struct sockaddr``; "" if it is not one of the Internet protocol."""
    if not pointer:
        return ""
    head = ctypes.string_at(pointer, 2)
    # Linux starts with a family of two bytes, the others with a length and a family of one byte each.
    family = int.from_bytes(head, sys.byteorder) if sys.platform == "linux" else head[1]
    if family == socket.AF_INET:
        return socket.inet_ntop(socket.AF_INET, ctypes.string_at(pointer + 4, 4))
    if family == socket.AF_INET6:
        return socket.inet_ntop(socket.AF_INET6, ctypes.string_at(pointer + 8, 16))
    return ""
