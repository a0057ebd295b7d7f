"""What the service counts, in the text format of Prometheus, and its log: one JSON object per line."""

import json
import logging
import math
import sys
import time
from bisect import bisect_left
from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from datetime import UTC, datetime

LATENCIES = (0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0)  # upper bounds in seconds
BATCHES = (1, 2, 4, 8, 16, 32, 64)  # upper bounds in inputs
Labels = tuple[tuple[str, str], ...]


class Histogram:
    """Counts of values below given bounds, for each set of labels."""

    def __init__(self, bounds: Sequence[float]) -> None:
        self.bounds = tuple(bounds)
        self.counts: dict[Labels, list[int]] = defaultdict(lambda: [0] * (len(self.bounds) + 1))
        self.sums: dict[Labels, float] = defaultdict(float)

    def observe(self, value: float, **labels: str) -> None:
        key = tuple(sorted(labels.items()))
        self.counts[key][bisect_left(self.bounds, value)] += 1
        self.sums[key] += value

    def lines(self, name: str) -> Iterator[str]:
        for labels, counts in sorted(self.counts.items()):
            total = 0
            for bound, count in zip((*self.bounds, math.inf), counts, strict=True):
                total += count
                limit = "+Inf" if math.isinf(bound) else f"{bound:g}"
                yield f"{name}_bucket{_labels((*labels, ('le', limit)))} {total}"
            yield f"{name}_sum{_labels(labels)} {self.sums[labels]:.6g}"
            yield f"{name}_count{_labels(labels)} {total}"


class Telemetry:
    """Requests, their duration, and the size of batches since the start."""

    def __init__(self) -> None:
        self.started = time.time()
        self.requests: Counter[Labels] = Counter()
        self.seconds = Histogram(LATENCIES)
        self.batches = Histogram(BATCHES)
        self.reloads: Counter[Labels] = Counter()

    def count_request(self, *, route: str, method: str, status: int, seconds: float) -> None:
        self.requests[("method", method), ("route", route), ("status", str(status))] += 1
        self.seconds.observe(seconds, route=route)

    def text(self, waiting: Mapping[str, int], versions: Mapping[str, str]) -> str:
        """All figures; ``waiting`` has the inputs that wait for each model, ``versions`` the checkpoints."""
        lines = [
            *_described("seqloom_requests_total", "counter", "Requests by route and status."),
            *(f"seqloom_requests_total{_labels(labels)} {count}" for labels, count in sorted(self.requests.items())),
            *_described("seqloom_request_seconds", "histogram", "Time from the request to the end of its answer."),
            *self.seconds.lines("seqloom_request_seconds"),
            *_described("seqloom_batch_size", "histogram", "Inputs that were computed together."),
            *self.batches.lines("seqloom_batch_size"),
            *_described("seqloom_waiting_inputs", "gauge", "Inputs that wait for a model."),
            *_values("seqloom_waiting_inputs", "model", waiting.items()),
            *_described("seqloom_model_info", "gauge", "Version of each model."),
            *(
                f"seqloom_model_info{_labels((('model', name), ('version', version)))} 1"
                for name, version in versions.items()
            ),
            *_described("process_start_time_seconds", "gauge", "Start of the service, in Unix time."),
            f"process_start_time_seconds {self.started:.3f}",
        ]
        resident = _resident_bytes()
        if resident:
            lines += [
                *_described("process_resident_memory_bytes", "gauge", "Resident memory."),
                f"process_resident_memory_bytes {resident}",
            ]
        return "\n".join(lines) + "\n"


def _described(name: str, kind: str, text: str) -> tuple[str, str]:
    return f"# HELP {name} {text}", f"# TYPE {name} {kind}"


def _values(name: str, label: str, values: Iterable[tuple[str, float]]) -> Iterator[str]:
    for key, value in values:
        yield f"{name}{_labels(((label, key),))} {value:g}"


def _labels(labels: Labels) -> str:
    if not labels:
        return ""
    pairs = (f'{name}="{_escaped(value)}"' for name, value in labels)
    return "{" + ",".join(pairs) + "}"


def _escaped(value: str) -> str:
    return value.replace("\\", r"\\").replace('"', r"\"").replace("\n", r"\n")


def _resident_bytes() -> int:
    """The resident memory of this process; 0 where the system does not say."""
    try:
        with open("/proc/self/statm", encoding="ascii") as file:  # noqa: PTH123  not a file of a user
            return int(file.read().split()[1]) * 4096
    except OSError:
        return 0


class JsonFormatter(logging.Formatter):
    """A log record as one line of JSON: time, level, message, and the fields of a request."""

    def format(self, record: logging.LogRecord) -> str:
        entry = {
            "time": datetime.fromtimestamp(record.created, UTC).isoformat(timespec="milliseconds"),
            "level": record.levelname.lower(),
            "message": record.getMessage(),
            **getattr(record, "fields", {}),
        }
        if record.exc_info:
            entry["error"] = self.formatException(record.exc_info)
        return json.dumps(entry)


def configure_logging(*, requests: bool = True) -> None:
    """Send the log of the service and of its server to standard error; without requests, only what went wrong."""
    handler = logging.StreamHandler(sys.stderr)
    handler.setFormatter(JsonFormatter())
    for name, level in (
        ("seqloom.service", logging.INFO if requests else logging.WARNING),
        ("uvicorn.error", logging.WARNING),
    ):
        logger = logging.getLogger(name)
        logger.handlers, logger.propagate = [handler], False
        logger.setLevel(level)
