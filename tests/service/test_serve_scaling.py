"""The files for other tools that the page shows, as far as they can be checked without these tools."""

import ast
import contextlib
import io
import re
import sys
from pathlib import Path
from types import ModuleType, SimpleNamespace
from typing import Any

import numpy as np
import onnxruntime
import pytest
import yaml
from tests.service.running import KEPT
from tests.service.test_serve import PAGE
from typer.testing import CliRunner

import seqloom_runtime
from seqloom.cli.main import app
from seqloom.model import load

TYPES = {"tensor(int64)": "INT64", "tensor(float)": "FP32"}


def block(kind: str, part: str) -> str:
    """The block of the page that contains a text."""
    blocks = re.findall(rf"^```{kind}\n(.*?)^```$", PAGE.read_text(), re.MULTILINE | re.DOTALL)
    (found,) = [block for block in blocks if part in block]
    return str(found)


@pytest.fixture
def tagger(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    load(KEPT / "tag").export(tmp_path / "tagger.onnx", check=["the Anna"])
    monkeypatch.chdir(tmp_path)
    return tmp_path / "tagger.onnx"


def test_the_manifest_of_kserve_starts_a_service(monkeypatch: pytest.MonkeyPatch) -> None:
    manifest = yaml.safe_load(block("yaml", "InferenceService"))
    (container,) = manifest["spec"]["predictor"]["containers"]
    served: list[Any] = []
    monkeypatch.setattr(
        "seqloom.service.serve.serve_runs", lambda paths, settings, **_: served.append((paths, settings))
    )
    monkeypatch.setenv("SEQLOOM_TOKEN", "a-token-for-tests-only")
    assert CliRunner().invoke(app, container["args"]).exit_code == 0
    ((paths, settings),) = served
    settings.check()
    assert settings.port == container["ports"][0]["containerPort"] == container["readinessProbe"]["httpGet"]["port"]
    (mount,) = container["volumeMounts"]
    assert [path.parent for path in paths] == [Path(mount["mountPath"])]
    assert [volume["name"] for volume in manifest["spec"]["predictor"]["volumes"]] == [mount["name"]]
    assert "SEQLOOM_TOKEN" in {variable["name"] for variable in container["env"]}


def test_the_configuration_of_triton_is_that_of_the_file(tagger: Path) -> None:
    config = block("proto", "onnxruntime_onnx")
    session = onnxruntime.InferenceSession(tagger)
    for kind, ports in (("input", session.get_inputs()), ("output", session.get_outputs())):
        (listed,) = re.findall(rf"^{kind} \[\n(.*?)^\]", config, re.MULTILINE | re.DOTALL)
        described = re.findall(r'name: "(\w+)" data_type: TYPE_(\w+) dims: \[ (.*?) \]', listed)
        expected = [
            (port.name, TYPES[port.type], ", ".join(str(size if isinstance(size, int) else -1) for size in port.shape))
            for port in ports
        ]
        assert described == expected


def test_the_client_of_triton_gives_the_answers_of_the_file(tagger: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    session = onnxruntime.InferenceSession(tagger)

    class Tensor:
        def __init__(self, name: str, shape: tuple[int, ...], datatype: str) -> None:
            self.name, self.shape, self.datatype = name, shape, datatype

        def set_data_from_numpy(self, array: Any) -> None:
            assert (array.shape, self.datatype) == (self.shape, "INT64")
            self.array = array

    class Client:
        def __init__(self, address: str) -> None:
            assert address == "127.0.0.1:8000"

        def infer(self, _: str, tensors: list[Tensor]) -> Any:
            names = [port.name for port in session.get_outputs()]
            outputs = session.run(names, {tensor.name: tensor.array for tensor in tensors})
            return SimpleNamespace(as_numpy=dict(zip(names, outputs, strict=True)).__getitem__)

    http, utils = ModuleType("tritonclient.http"), ModuleType("tritonclient.utils")
    http.InferenceServerClient, http.InferInput = Client, Tensor  # type: ignore[attr-defined]
    utils.np_to_triton_dtype = lambda dtype: {np.dtype(np.int64): "INT64"}[dtype]  # type: ignore[attr-defined]
    package = ModuleType("tritonclient")
    package.http = http  # type: ignore[attr-defined]
    for module in (package, http, utils):
        monkeypatch.setitem(sys.modules, module.__name__, module)
    printed = io.StringIO()
    with contextlib.redirect_stdout(printed):
        exec(block("py", "np_to_triton_dtype"), {})  # noqa: S102  our own page
    assert ast.literal_eval(printed.getvalue()) == seqloom_runtime.load(tagger).predict(["for name in names :"])


def test_the_program_for_ray_serve_answers_as_the_file(tagger: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    serve = ModuleType("ray.serve")

    class Deployment:
        def __init__(self, kind: type) -> None:
            self.kind = kind

        def bind(self, *arguments: Any) -> Any:
            return self.kind(*arguments)

    serve.deployment = lambda **_: Deployment  # type: ignore[attr-defined]
    serve.batch = lambda **_: lambda function: function  # type: ignore[attr-defined]
    ray = ModuleType("ray")
    ray.serve = serve  # type: ignore[attr-defined]
    for module in (ray, serve):
        monkeypatch.setitem(sys.modules, module.__name__, module)
    names: dict[str, Any] = {"__name__": "ray_serve"}
    exec(block("py", "serve.deployment"), names)  # noqa: S102  our own page
    assert names["app"].model.predict(["the Anna"]) == seqloom_runtime.load(tagger).predict(["the Anna"])
