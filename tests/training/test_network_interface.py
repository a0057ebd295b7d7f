"""Gloo gets the interface that leads to the other machines, whatever the host's own name resolves to."""

import os
import socket
import sys
from collections.abc import Mapping

import pytest

from seqloom.training import network_interface


class DictStore(dict[str, bytes]):
    """A store of one process."""

    def set(self, key: str, value: str) -> None:
        self[key] = value.encode()

    def get(self, key: str) -> bytes:  # type: ignore[override]
        return self[key]


CARDS = {"127.0.0.1": "lo", "::1": "lo", "10.0.0.1": "eth0", "192.168.7.4": "wlan0"}


@pytest.fixture(autouse=True)
def no_choice(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv(network_interface.INTERFACE, raising=False)
    monkeypatch.setattr(network_interface, "addresses", lambda: CARDS)


def choose(
    monkeypatch: pytest.MonkeyPatch, source: str, reached: str, *, others: Mapping[int, str] | None = None
) -> str:
    """The choice of rank 0, where the route to the master is this and other ranks reach the master at ``others``."""
    store = DictStore()
    for rank, address in (others or {}).items():
        store.set(network_interface._key(rank), address)
    monkeypatch.setattr(network_interface, "route", lambda *_: (source, reached))
    return network_interface.choose_interface(store, rank=0, size=1 + len(others or {}), master="first", port=29500)


def test_the_interface_with_the_route_to_the_master(monkeypatch: pytest.MonkeyPatch) -> None:
    assert choose(monkeypatch, "10.0.0.1", "10.0.0.2") == "eth0"
    assert choose(monkeypatch, "192.168.7.4", "192.168.7.9") == "wlan0"


def test_a_master_that_takes_itself_for_loopback_asks_the_others(monkeypatch: pytest.MonkeyPatch) -> None:
    assert choose(monkeypatch, "127.0.0.1", "127.0.1.1", others={1: "10.0.0.1"}) == "eth0"
    assert choose(monkeypatch, "::1", "::1", others={1: "127.0.1.1", 2: "192.168.7.4"}) == "wlan0"


def test_processes_of_one_machine_leave_the_choice_to_gloo(monkeypatch: pytest.MonkeyPatch) -> None:
    assert choose(monkeypatch, "127.0.0.1", "127.0.0.1", others={1: "127.0.0.1"}) == ""


def test_an_address_of_another_machine_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(
        ValueError, match=r"at 203\.0\.113\.5, .*: 10\.0\.0\.1 \(eth0\), 192\.168\.7\.4 \(wlan0\)\. Set"
    ):
        choose(monkeypatch, "127.0.0.1", "127.0.0.1", others={1: "203.0.113.5"})


def test_the_choice_of_the_user_is_kept(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(network_interface.INTERFACE, "ib0")
    monkeypatch.setattr(network_interface, "route", lambda *_: ("10.0.0.1", "10.0.0.2"))
    store = DictStore()
    network_interface.set_interface(store, rank=0, size=1, master="first", port=29500)
    assert os.environ[network_interface.INTERFACE] == "ib0"
    assert store.get(network_interface._key(0)) == b"10.0.0.2"  # others may need it all the same


def test_addresses_that_cannot_be_listed_leave_the_choice_to_gloo(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(network_interface, "addresses", dict)
    assert choose(monkeypatch, "10.0.0.1", "10.0.0.2") == ""


def test_a_route_has_addresses_of_both_ends() -> None:
    assert network_interface.route("127.0.0.1", 29500) == ("127.0.0.1", "127.0.0.1")


def test_an_unknown_master_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    def unreachable(*_: object) -> None:
        raise OSError("network is unreachable")

    monkeypatch.setattr(socket.socket, "connect", unreachable)
    with pytest.raises(ValueError, match=r"no route to 127\.0\.0\.1 \(MASTER_ADDR\): network is unreachable"):
        network_interface.route("127.0.0.1", 29500)


@pytest.mark.skipif(sys.platform == "win32", reason="Windows does not list its interfaces this way")
def test_every_address_of_this_machine_has_its_interface(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.undo()
    interfaces = network_interface.addresses()
    assert interfaces["127.0.0.1"] in {"lo", "lo0"}
    assert set(interfaces.values()) <= {name for _, name in socket.if_nameindex()}
