"""LitServe with the same model, and batches of the same size and waiting time. ``python -m … RUN PORT``."""

import sys
from typing import Any

import litserve
import torch

import seqloom


class Predictions(litserve.LitAPI):  # type: ignore[misc]  # its types are not installed where types are checked
    """Answers with predictions. LitServe starts it in a process of its own."""

    def __init__(self, run: str, **options: Any) -> None:
        super().__init__(**options)
        self.run = run

    def setup(self, device: str) -> None:  # noqa: ARG002  the signature that LitServe calls
        torch.set_num_threads(1)
        self.model = seqloom.load(self.run)

    def decode_request(self, request: dict[str, Any]) -> str:
        return str(request["inputs"][0])

    def predict(self, texts: list[str]) -> list[Any]:
        return [self.model.task.to_json(answer) for answer in self.model.predict(texts)]

    def encode_response(self, answer: Any) -> dict[str, Any]:
        return {"predictions": [answer]}


def main(run: str, port: str) -> None:
    api = Predictions(run, max_batch_size=32, batch_timeout=0.002, api_path="/v1/predict")
    server = litserve.LitServer(api, accelerator="cpu", workers_per_device=1)
    server.run(host="127.0.0.1", port=int(port), log_level="warning", generate_client_file=False)


if __name__ == "__main__":
    main(*sys.argv[1:])
