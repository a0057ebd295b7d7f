"""The promises of the service, with a short load; scripts/load measures the figures."""

import argparse
import asyncio
import sys
from pathlib import Path

import pytest
from tests.service import load_testing
from tests.service.running import KEPT

from seqloom.model import load

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="needs /proc")


def test_the_promises_hold_but_for_their_times(tmp_path: Path) -> None:
    path = tmp_path / "tag.onnx"
    load(KEPT / "tag").export(path, check=["the Anna"])
    options = argparse.Namespace(seconds=0.2, requests=100, slow=0, warm_up=100, repetitions=1)
    found = asyncio.run(load_testing.findings(path, options, tmp_path / "log"))
    assert len(found) > 20
    assert not [finding for finding in found if not finding.kept and not finding.is_timing]
