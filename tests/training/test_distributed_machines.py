"""The documented command for two machines works where each takes its own name for a loopback address.

The machines are network namespaces that are joined by a virtual cable. They vanish with their processes.
"""

import os
import re
import shlex
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from seqloom.run import Run

ROOT = Path(__file__).parent.parent.parent
NAMES = {"first": "10.77.0.1", "second": "10.77.0.2"}
LABELS = ("DET", "NOUN", "VERB", "NOUN")
MACHINE = """
set -euo pipefail
echo "$NAME" >/proc/sys/kernel/hostname
mount --bind "hosts.$NAME" /etc/hosts
ip link set lo up
echo ready
read -r
ip address add "$ADDRESS/24" dev eth0
ip link set eth0 up
exec "$@"
"""
NAMESPACES = ("unshare", "--net", "--mount", "--uts", "--pid", "--mount-proc", "--fork", "--kill-child")


def reason_to_skip() -> str:
    """Why two machines cannot be simulated here; empty if they can."""
    if missing := [tool for tool in ("unshare", "nsenter", "ip", "mount", "bash") if not shutil.which(tool)]:
        return f"needs {', '.join(missing)}"
    tried = subprocess.run([*NAMESPACES, "ip", "link", "add", "eth0", "type", "veth"], capture_output=True, text=True)  # noqa: PLW1510
    return f"needs root and network namespaces: {tried.stderr.strip()}" if tried.returncode else ""


def documented_command() -> list[str]:
    """The command for two machines in docs/training.md, with this Python and a short training."""
    text = (ROOT / "docs" / "training.md").read_text()
    (line,) = re.findall(r"^torchrun (.*--nnodes 2 .*-m seqloom train .*)$", text, re.MULTILINE)
    return [sys.executable, "-m", "torch.distributed.run", *shlex.split(line), "train.updates=3"]


@pytest.mark.exhaustive
def test_the_documented_command_trains_on_two_machines(tmp_path: Path) -> None:
    if reason := reason_to_skip():
        pytest.skip(reason)
    words = "".join(f"{number}\tword\t_\t{label}" + "\t_" * 6 + "\n" for number, label in enumerate(LABELS, start=1))
    (tmp_path / "train.conllu").write_text(f"{words}\n" * 8)
    (tmp_path / "tagger.toml").write_text('[task]\nname = "tag"\ntrain = "train.conllu"\ndev = "train.conllu"\n')
    machines = {}
    for name, address in NAMES.items():
        others = "".join(f"{other} {host}\n" for host, other in NAMES.items() if host != name)
        (tmp_path / f"hosts.{name}").write_text(f"127.0.0.1 localhost\n127.0.1.1 {name}\n{others}")
        machines[name] = subprocess.Popen(
            [*NAMESPACES, "bash", "-c", MACHINE, "machine", *documented_command()],
            cwd=tmp_path,
            env=os.environ | {"NAME": name, "ADDRESS": address, "OMP_NUM_THREADS": "1"},
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
        )
    try:
        assert [machine.stdout.readline() for machine in machines.values() if machine.stdout] == ["ready\n"] * 2
        one, other = (str(machine.pid) for machine in machines.values())
        cable = ["ip", "link", "add", "eth0", "type", "veth", "peer", "name", "eth0", "netns", other]
        subprocess.run(["nsenter", "--target", one, "--net", *cable], check=True)  # noqa: S607
        for machine in machines.values():
            assert machine.stdin is not None
            machine.stdin.write("\n")
            machine.stdin.flush()
        printed = [machine.communicate(timeout=240)[0] for machine in machines.values()]
    finally:
        for machine in machines.values():
            machine.kill()
    assert [machine.returncode for machine in machines.values()] == [0, 0], "\n".join(printed)
    (run,) = (tmp_path / "runs").iterdir()
    assert Run.open(run).rows()[-1]["update"] == 3
