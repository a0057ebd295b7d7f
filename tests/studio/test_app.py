import base64
import http.client
import json
import os
import shutil
import signal
import struct
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from tests.service.running import KEPT, Client, running
from tests.test_workflow import settings as tiny_settings

from seqloom import lab, workflow
from seqloom.data.readers.midi import LOWEST, parse_midi
from seqloom.decoding.tokens.sample import Sample
from seqloom.diagnosis.run_doctor import doctor_run
from seqloom.insight import trace_gates
from seqloom.layers.recurrent.two_dimensional import TwoDimensionalLSTM
from seqloom.model import load
from seqloom.run import Run
from seqloom.run_config import find_layer
from seqloom.service.settings import ServiceSettings
from seqloom.studio.app import PAGES, build_app
from seqloom.studio.model_pages import _pack_traces


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("studio")
    for path in KEPT.iterdir():
        shutil.copytree(path, folder / "runs" / path.name)
    return folder / "runs"


@pytest.fixture(scope="module")
def client(folder: Path) -> Iterator[Client]:
    settings = ServiceSettings(port=0)
    with running(build_app(folder, settings), settings) as port:
        yield Client(port)


def question(name: str) -> Any:
    return json.loads((KEPT / name / "answers.json").read_text())["inputs"][0]


def test_every_page_is_the_application_with_a_strict_policy(client: Client) -> None:
    for path in PAGES:
        answer = client.get(path)
        assert answer.status == 200
        assert b"/static/app.js" in answer.body
        policy = answer.headers["content-security-policy"]
        assert "unsafe" not in policy
        assert "default-src 'none'; script-src 'self'" in policy


def test_all_modules_that_pages_import_exist(client: Client) -> None:
    seen, waiting = set(), ["app.js"]
    while waiting:
        name = waiting.pop()
        answer = client.get(f"/static/{name}")
        assert answer.status == 200, name
        assert answer.headers["content-type"].startswith("text/javascript")
        seen.add(name)
        for line in answer.body.decode().splitlines():
            if line.startswith("import ") and '"' in line:
                target = os.path.normpath(os.path.join(os.path.dirname(name), line.split('"')[1]))  # noqa: PTH118, PTH120
                waiting += [target] * (target not in seen)
    assert {"pages/runs.js", "pages/inside.js", "chart.js"} <= seen


@pytest.mark.parametrize("path", ["../app.py", "..%2fapp.py", "%2e%2e/catalog.py", "nothing.js", "", "pages"])
def test_only_files_of_the_application_are_served(client: Client, path: str) -> None:
    assert client.get(f"/static/{path}").status == 404


def test_runs_are_listed_and_described(client: Client, folder: Path) -> None:
    runs = client.get("/api/runs").json()
    assert runs["folder"] == str(folder)
    assert {run["id"] for run in runs["runs"]} == {path.name for path in KEPT.iterdir()}
    data = client.get("/api/run?run=tag").json()
    run = Run.open(folder / "tag")
    assert data["rows"] == run.rows()
    assert data["config"] == run.config
    assert data["run"]["id"] == "tag"
    assert "there is no run" in client.get("/api/run?run=../x").message


def test_notes_are_kept_in_the_run(client: Client, folder: Path) -> None:
    assert client.post("/api/note", {"run": "tag", "text": "baseline"}).status == 200
    assert (folder / "tag" / "note.txt").read_text() == "baseline"
    assert client.post("/api/note", {"run": "../tag", "text": "x"}).status == 404
    assert client.post("/api/note", {"run": "tag", "text": "x" * 10_001}).status == 422


def test_a_note_follows_no_link(client: Client, folder: Path, tmp_path: Path) -> None:
    precious = tmp_path / "precious.txt"
    precious.write_text("keep")
    (folder / "embed" / "note.txt").symlink_to(precious)
    client.post("/api/note", {"run": "embed", "text": "overwritten"})
    assert precious.read_text() == "keep"


@pytest.mark.parametrize("name", ["classify", "tag", "forecast", "language_model", "translate", "transcribe"])
def test_predictions_and_the_inside_are_those_of_the_model(client: Client, folder: Path, name: str) -> None:
    model, value = load(folder / name), question(name)
    (expected,) = [model.task.to_json(prediction) for prediction in model.predict([value])]
    answer = client.post("/api/predict", {"run": name, "input": value})
    assert answer.json()["prediction"] == json.loads(json.dumps(expected))

    packed = client.post("/api/inside", {"run": name, "input": value})
    assert packed.status == 200, packed.body
    (length,) = struct.unpack_from("<I", packed.body)
    content = json.loads(packed.body[4 : 4 + length])
    values = np.frombuffer(packed.body[4 + length :], np.float32)
    (example,) = model.read([value])
    with torch.no_grad():
        traces = model.task.trace_gates(model.module, example)
    assert [layer["name"] for layer in content["layers"]] == [trace.name for trace, _ in traces]
    for layer, (trace, _) in zip(content["layers"], traces, strict=True):
        for part in layer["parts"]:
            tensor = (trace.gates | trace.states)[part["name"]][0]
            size = part["units"] * layer["steps"]
            shown = values[part["start"] : part["start"] + size].reshape(part["units"], layer["steps"])
            np.testing.assert_array_equal(shown, tensor.T.numpy())
    prediction = json.loads(json.dumps(model.task.to_json(model.predict([value])[0])))
    assert set(content["explanation"]["prediction"]) == set(prediction)


def test_units_of_a_layer_over_images_are_sent_with_their_rows() -> None:
    torch.manual_seed(1)
    _, traces = trace_gates(TwoDimensionalLSTM(3, 4), torch.randn(1, 5, 7, 3))
    layers, values = _pack_traces([(trace, []) for trace in traces], [np.zeros(2)])
    assert [(layer["steps"], layer["rows"]) for layer in layers] == [(7, 5)] * 4
    for layer, trace in zip(layers, traces, strict=True):
        for part in layer["parts"]:
            tensor = (trace.gates | trace.states)[part["name"]][0]  # (columns, rows, units)
            shown = values[part["start"] :][: part["units"] * 7].reshape(4, 5, 7)
            np.testing.assert_array_equal(shown, np.moveaxis(tensor.detach().numpy(), (2, 1, 0), (0, 1, 2)))


@pytest.mark.parametrize(
    ("name", "place"),
    [
        ("tag", ("words",)),
        ("classify", ("text", "vocabulary")),
        ("language_model", ("text", "vocabulary")),
        ("translate", ("source", "vocabulary")),
    ],
)
def test_words_outside_of_the_vocabulary_are_named(
    client: Client, folder: Path, name: str, place: tuple[str, ...]
) -> None:
    vocabulary = json.loads((folder / name / "learned.json").read_text())
    for part in place:
        vocabulary = vocabulary[part]
    known = next(token for token in vocabulary["tokens"] if token.isalpha())
    answer = client.post("/api/predict", {"run": name, "input": f"zzz {known} yyy zzz"}).json()
    assert answer["unknown"]["words"] == ["zzz", "yyy"]
    assert client.post("/api/predict", {"run": name, "input": known}).json()["unknown"]["words"] == []


@pytest.mark.parametrize("name", ["classify", "tag", "forecast", "language_model", "translate"])
def test_how_far_back_outputs_see(client: Client, name: str) -> None:
    value = question(name)
    reach = client.post("/api/reach", {"run": name, "input": value})
    assert reach.status == (422 if name == "forecast" else 200), reach.body
    for layer in reach.json().get("layers", []):
        assert np.isfinite(layer["norms"]).all()
        assert len(layer["norms"]) == len(layer["outputs"])


def test_a_continuation_is_that_of_the_model(client: Client, folder: Path) -> None:
    body = {"run": "language_model", "text": "a", "length": 5, "temperature": 0.7, "seed": 3}
    tokens = client.post("/api/generate", body).json()["tokens"]
    model = load(folder / "language_model")
    expected = list(model.generate_tokens("a", length=5, sample=Sample(temperature=0.7, seed=3), alternatives=3))
    assert [token["text"] for token in tokens] == [token.text for token in expected]
    assert np.log([token["probability"] for token in tokens]) == pytest.approx(
        [token.log_probability for token in expected], rel=1e-4
    )
    assert "generates" in client.post("/api/generate", {"run": "tag"}).message


def test_a_composition_is_that_of_the_model_and_its_midi_file_has_the_same_notes(client: Client, folder: Path) -> None:
    body = {"run": "music", "length": 12, "temperature": 1.0, "seed": 3}
    answer = client.post("/api/generate", body).json()
    (roll,) = load(folder / "music").compose(length=12, temperature=1.0, seed=3)
    np.testing.assert_array_equal(answer["frames"], roll.frames)
    assert answer["seconds"] == pytest.approx(roll.seconds)
    song = parse_midi(base64.b64decode(answer["midi"]))
    ticks = song.division // roll.frames_per_beat
    notes = {(note.pitch, note.start // ticks, note.end // ticks) for note in song.notes}
    assert notes == {(note.key + LOWEST, note.start, note.end) for note in roll.notes()}
    assert notes


def test_looking_inside_changes_nothing(client: Client) -> None:
    body = {"run": "translate", "input": question("translate")}
    before = client.post("/api/predict", body).json()
    client.post("/api/inside", body | {"beam": True})
    assert client.post("/api/predict", body).json() == before


def test_files_of_this_machine_are_not_opened(client: Client) -> None:
    for name in ("caption", "transcribe"):
        assert "reads files" in client.post("/api/predict", {"run": name, "input": "/etc/passwd"}).message
        assert client.post("/api/inside", {"run": name, "input": "/etc/passwd"}).status == 422


def events(client: Client, path: str) -> Iterator[tuple[str, Any]]:
    connection = http.client.HTTPConnection("127.0.0.1", client.port, timeout=30)
    connection.request("GET", path)
    stream, name = connection.getresponse(), ""
    try:
        for raw in stream:
            line = raw.decode().rstrip("\n")
            if line.startswith("event: "):
                name = line[7:]
            elif line.startswith("data: "):
                yield name, json.loads(line[6:])
    finally:
        connection.close()


def test_new_rows_and_the_state_are_sent_while_a_run_trains(client: Client, folder: Path) -> None:
    run = Run.open(folder / "forecast")
    known = len(run.rows())
    stream = events(client, f"/api/watch?run=forecast&from={known}")
    assert next(stream) == ("state", {"training": False})
    run.record({"update": 1000, "epoch": 5.0, "loss": 0.125})
    assert next(stream) == ("rows", {"from": known, "rows": [{"update": 1000, "epoch": 5.0, "loss": 0.125}]})
    with run.lock():
        assert next(stream) == ("state", {"training": True})
    assert next(stream) == ("state", {"training": False})
    stream.close()  # type: ignore[attr-defined]  # a generator


def test_a_training_is_stopped_by_its_process(client: Client, folder: Path) -> None:
    assert "is not being trained" in client.post("/api/stop", {"run": "tag"}).message
    code = (
        "import sys, time; from seqloom.run import Run\n"
        "with Run.open(sys.argv[1]).lock():\n    print('locked', flush=True); time.sleep(60)"
    )
    process = subprocess.Popen(
        [sys.executable, "-c", code, str(folder / "tag")],
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        preexec_fn=lambda: signal.signal(signal.SIGINT, signal.default_int_handler),  # noqa: PLW1509
    )
    assert process.stdout is not None
    assert process.stdout.readline() == b"locked\n"
    assert "already" in client.post("/api/resume", {"run": "tag"}).message
    assert client.post("/api/stop", {"run": "tag"}).json() == {"stopped": process.pid}
    process.wait(30)
    process.stdout.close()
    assert Run.training_process(folder / "tag") is None


def test_a_run_that_cannot_be_resumed_says_why(client: Client, folder: Path) -> None:
    (folder / "classify" / "learned.json").write_text("{}")
    answer = client.post("/api/resume", {"run": "classify"})
    assert answer.status == 409
    assert "learned.json: damaged" in answer.message


def test_the_doctor_says_what_it_says_on_the_command_line(client: Client, folder: Path) -> None:
    answer = client.post("/api/doctor", {"run": "translate"})
    assert answer.status == 200, answer.body
    assert answer.json() == json.loads(doctor_run(folder / "translate").to_json())
    assert client.post("/api/doctor", {"run": "../x"}).status == 404


def test_experiments_are_listed_and_run(client: Client) -> None:
    listed = client.get("/api/lab").json()["experiments"]
    assert {each["name"] for each in listed} == set(lab.names())
    assert client.get("/api/lab/figure?name=vanishing").status == 404
    result = client.post("/api/lab/run", {"name": "vanishing", "preset": "quick"}).json()
    assert result["preset"] == "quick"
    assert result["verdict"]["status"] in ("holds", "does not hold here", "not decided")
    assert client.get("/api/lab/figure?name=vanishing").body.lstrip().startswith(b"<?xml")
    assert client.post("/api/lab/run", {"name": "nothing"}).status == 404


def test_a_run_with_a_custom_cell_is_opened_with_it(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "studio_cell.py").write_text("from seqloom.cells import Elman\n\n\nclass Mine(Elman):\n    pass\n")
    monkeypatch.chdir(tmp_path)
    layer = find_layer("studio_cell:Mine")
    workflow.train(
        tiny_settings(tmp_path, "tag", updates=1), output=tmp_path / "runs" / "own", layer=layer, plots=False
    )
    for given, status in (((), 422), (("studio_cell:Mine",), 200)):
        settings = ServiceSettings(port=0)
        with running(build_app(tmp_path / "runs", settings, given), settings) as port:
            answer = Client(port).post("/api/inside", {"run": "own", "input": "the Anna"})
        assert answer.status == status, answer.body
        if not given:
            assert "own was trained with the custom layer Mine: start the studio with --layer" in answer.message
