import json
from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest
from tests.service.running import KEPT, Client, serving


@pytest.fixture(scope="module")
def client() -> Iterator[Client]:
    with serving([KEPT / "tag", KEPT / "forecast"]) as running:
        yield running


def tensor(**changes: Any) -> dict[str, Any]:
    return {"name": "input", "shape": [2], "datatype": "BYTES", "data": ["a b", "c"], **changes}


def test_texts_are_tensors_of_bytes(client: Client) -> None:
    answer = client.post("/v2/models/tag/infer", {"id": "7", "inputs": [tensor()], "outputs": [{"name": "prediction"}]})
    received = answer.json()
    (output,) = received["outputs"]
    expected = client.post("/v1/predict", {"model": "tag", "inputs": ["a b", "c"]}).json()
    assert [json.loads(text) for text in output["data"]] == expected["predictions"]
    assert (output["shape"], output["datatype"]) == ([2], "BYTES")
    assert (received["id"], received["model_version"]) == ("7", expected["version"])


@pytest.mark.parametrize("flat", [False, True])
def test_numbers_are_tensors_of_three_dimensions(client: Client, *, flat: bool) -> None:
    rows = [[[1.0, 2.0], [2.0, 3.0], [3.0, 4.0], [4.0, 5.0], [5.0, 6.0]]]
    data = [value for row in rows[0] for value in row] if flat else rows
    body = {"inputs": [tensor(shape=[1, 5, 2], datatype="FP32", data=data)]}
    (output,) = client.post("/v2/models/forecast/infer", body).json()["outputs"]
    expected = client.post("/v1/predict", {"model": "forecast", "inputs": rows}).json()["predictions"]
    assert [json.loads(text) for text in output["data"]] == expected


def test_metadata_and_health(client: Client) -> None:
    assert client.get("/v2").json()["name"] == "seqloom"
    assert client.get("/v2/health/live").json() == {"live": True}
    assert client.get("/v2/health/ready").json() == {"ready": True}
    assert client.get("/v2/models/tag/ready").json() == {"name": "tag", "ready": True}
    assert client.get("/v2/models/tag").json()["inputs"] == [{"name": "input", "datatype": "BYTES", "shape": [-1]}]
    assert client.get("/v2/models/forecast").json()["inputs"][0]["datatype"] == "FP32"
    missing = client.get("/v2/models/none/ready")
    assert (missing.status, isinstance(missing.json()["error"], str)) == (404, True)


@pytest.mark.parametrize(
    ("inputs", "message"),
    [
        (tensor(name="x"), "unknown input 'x'; there is: input"),
        (tensor(shape=[3]), "expected 3 texts"),
        (tensor(data=["a", 1]), "expected 2 texts"),
        (tensor(datatype="FP32", data=[1, 2]), "expected a shape (inputs, time)"),
        (tensor(datatype="FP32", shape=[1, 3], data=[1, 2]), "do not have the shape [1, 3]"),
        (tensor(datatype="UINT8"), "datatype"),
    ],
)
def test_wrong_tensors_are_named(client: Client, inputs: dict[str, Any], message: str) -> None:
    answer = client.post("/v2/models/tag/infer", {"inputs": [inputs]})
    assert answer.status == 422
    assert message in answer.message


def binary(content: bytes, **changes: Any) -> tuple[bytes, dict[str, str]]:
    """A request whose tensor follows its JSON, and its headers."""
    size = {"binary_data_size": len(content)}
    without = {name: value for name, value in tensor(parameters=size, **changes).items() if name != "data"}
    head = json.dumps({"inputs": [without], "parameters": {"binary_data_output": True}}).encode()
    return head + content, {"Inference_Header_Content_Length": str(len(head))}


def test_tensors_may_be_bytes(client: Client) -> None:
    content, headers = binary(b"\x03\0\0\0a b\x01\0\0\0c")
    answer = client.post("/v2/models/tag/infer", content, **headers)
    length = int(answer.headers["inference-header-content-length"])
    (output,) = json.loads(answer.body[:length])["outputs"]
    tail = answer.body[length:]
    assert output["parameters"] == {"binary_data_size": len(tail)}
    expected = client.post("/v1/predict", {"model": "tag", "inputs": ["a b", "c"]}).json()["predictions"]
    for prediction in expected:
        size = int.from_bytes(tail[:4], "little")
        assert json.loads(tail[4 : 4 + size]) == prediction
        tail = tail[4 + size :]
    rows = np.arange(10, dtype="<f4").reshape(1, 5, 2)
    content, headers = binary(rows.tobytes(), datatype="FP32", shape=[1, 5, 2])
    answer = client.post("/v2/models/forecast/infer", content, **headers)
    by_numbers = client.post("/v1/predict", {"model": "forecast", "inputs": rows.tolist()}).json()["predictions"]
    tail = answer.body[int(answer.headers["inference-header-content-length"]) :]
    assert json.loads(tail[4:]) == by_numbers[0]


@pytest.mark.parametrize(
    ("content", "changes", "message"),
    [
        (b"\x09\0\0\0a", {}, "end within a text"),
        (b"\x09\0", {}, "end within a text"),
        (b"\x01\0\0\0\xff", {}, "not UTF-8"),
        (b"abc", {"datatype": "FP32"}, "no whole number"),
    ],
)
def test_damaged_bytes_are_named(client: Client, content: bytes, changes: dict[str, Any], message: str) -> None:
    body, headers = binary(content, **changes)
    answer = client.post("/v2/models/tag/infer", body, **headers)
    assert answer.status == 422
    assert message in answer.message
    for length in ("x", str(len(body) + 1), "-1"):
        assert client.post("/v2/models/tag/infer", body, Inference_Header_Content_Length=length).status == 400
    assert client.post("/v2/models/tag/infer", {"inputs": [tensor(data=None)]}).status == 422


def test_a_path_may_name_the_version(client: Client) -> None:
    (version,) = client.get("/v2/models/tag").json()["versions"]
    assert client.get(f"/v2/models/tag/versions/{version}/ready").status == 200
    assert client.post(f"/v2/models/tag/versions/{version}/infer", {"inputs": [tensor()]}).status == 200
    missing = client.get("/v2/models/tag/versions/1")
    assert (missing.status, missing.message) == (404, f"no version '1' of the model tag; there is: {version}")
