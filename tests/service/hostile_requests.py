"""Requests that a service has to refuse."""

import json

FOREIGN_HOSTS = (
    "evil.example",
    "127.0.0.1.evil.example",
    "evil.example:80",
    "localhost.evil.example",
    "localhost@evil.example",
    "127.0.0.1/x",
    "[::2]",
    "a b",
    "",
)
FOREIGN_ORIGINS = ("https://evil.example", "null", "http://127.0.0.1.evil.example", "http://127.0.0.1:1", "file://")
"""Of a service that is not at port 1."""
OTHER_PATHS = (
    "/../etc/passwd",
    "/../../../../etc/passwd",
    "/%2e%2e/etc/passwd",
    "/%2e%2e%2fetc%2fpasswd",
    "/..%2f..%2fetc/passwd",
    "/%252e%252e/etc/passwd",
    "/..;/etc/passwd",
    "/....//etc/passwd",
    "/..%5c..%5cetc%5cpasswd",
    "/..\\..\\etc\\passwd",
    "/%c0%ae%c0%ae/etc/passwd",
    "/%e0%80%ae/etc/passwd",
    "//etc/passwd",
    "///etc/passwd",
    "/./etc/passwd",
    "/.%2e/etc/passwd",
    "/%2e./etc/passwd",
    "/v1/../etc/passwd",
    "/v1/models/../../etc/passwd",
    "/v1/models/..%2f..%2fetc%2fpasswd",
    "/v1/models/%2e%2e",
    "/v1/models/%00",
    "/v1/models/x%00.json",
    "/v2/models/../../x",
    "/v2/models/%2e%2e/ready",
    "/v2/models/..%2f../ready",
    "/v1/models/%2fetc%2fpasswd",
    "/file:///etc/passwd",
    "/static/../config.toml",
    "/.git/config",
    "/runs/tag/config.toml",
    "/config.toml",
)
"""Spellings of paths that lead to files of the machine where a server joins them to a folder."""


def hostile_bodies() -> dict[str, bytes]:
    """Bodies for /v1/predict that are deep, long or both, with their descriptions."""
    deep = 10_000
    return {
        "lists, 10,000 deep": b'{"inputs": ' + b"[" * deep + b"]" * deep + b"}",
        "objects, 10,000 deep": b'{"a": ' * deep + b"1" + b"}" * deep,
        "unclosed lists": b"[" * 1_000_000,
        "1,000,000 tokens": json.dumps({"inputs": ["a " * 1_000_000]}).encode(),
        "1,000,000 inputs": b'{"inputs": [' + b"0," * 999_999 + b"0]}",
        "150,000 keys": b"{" + b",".join(b'"%d":0' % number for number in range(150_000)) + b"}",
        "a number of 1,000,000 digits": b'{"inputs": [' + b"9" * 1_000_000 + b"]}",
        "3 MB": json.dumps({"inputs": ["a " * 1_500_000]}).encode(),
    }
