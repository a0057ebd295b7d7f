"""The settings of the service, and the limits that protect it."""

import ipaddress
from dataclasses import dataclass

MEGABYTE = 1 << 20


@dataclass(frozen=True)
class ServiceSettings:
    """Where to listen, who may ask, and how much."""

    host: str = "127.0.0.1"
    port: int = 8000  # 0: any free port
    token: str = ""  # that clients have to send; empty: none
    allow_hosts: tuple[str, ...] = ()  # further names in the Host header
    allow_origins: tuple[str, ...] = ()  # web pages of other origins that may ask
    max_batch: int = 32  # inputs that are computed together
    max_wait: float = 0.002  # seconds that an input waits for others
    max_queue: int = 256  # inputs that wait for a model; further ones are refused
    max_inputs: int = 64  # of one request
    max_length: int = 100_000  # characters or numbers of one input
    max_tokens: int = 4096  # of one completion
    max_body: int = 32 * MEGABYTE  # bytes of a request with a file
    max_json: int = 2 * MEGABYTE  # bytes of a request in JSON
    max_connections: int = 1000
    max_streams: int = 8  # live transcriptions at a time
    receive_timeout: float = 8.0  # seconds within which a request has to arrive
    send_timeout: float = 30.0  # seconds within which a client has to take the next part of an answer
    idle_timeout: float = 30.0  # seconds without audio, after which a live transcription ends
    drain_timeout: float = 8.0  # seconds that answers in progress get when the service is stopped
    reload_seconds: float = 0.0  # how often to look for a new best checkpoint; 0: never

    @property
    def is_local(self) -> bool:
        """Whether only programs on this machine can reach the service."""
        return is_loopback(self.host)

    def check(self) -> None:
        """Raise ValueError for settings that would let anyone in."""
        if not self.is_local and not self.token:
            raise ValueError(
                f"--host {self.host} can be reached from other machines: set a token "
                "(--token, or the environment variable SEQLOOM_TOKEN) that clients have to send"
            )
        if self.token and (len(self.token) < 16 or not self.token.isascii() or not self.token.isprintable()):
            raise ValueError("--token: expected at least 16 printable ASCII characters")


def is_loopback(host: str) -> bool:
    """Whether a host name or address belongs to this machine only."""
    name = host.strip("[]").lower()
    if name == "localhost" or name.endswith(".localhost"):
        return True
    try:
        return ipaddress.ip_address(name).is_loopback
    except ValueError:
        return False
