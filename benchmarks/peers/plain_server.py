"""The server that one writes first: one request at a time, each computed alone. ``python -m … RUN PORT``."""

import json
import sys
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from threading import Lock

import torch

import seqloom


def main(run: str, port: str) -> None:
    torch.set_num_threads(1)
    model = seqloom.load(run)
    turn = Lock()

    class Handler(BaseHTTPRequestHandler):
        """Answers with predictions."""

        protocol_version = "HTTP/1.1"

        def do_POST(self) -> None:
            inputs = json.loads(self.rfile.read(int(self.headers["Content-Length"])))["inputs"]
            with turn:
                answers = [model.task.to_json(answer) for answer in model.predict(inputs)]
            body = json.dumps({"predictions": answers}).encode()
            head = f"HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nContent-Length: {len(body)}\r\n\r\n"
            self.wfile.write(head.encode() + body)

        def log_message(self, *arguments: object) -> None:
            """Log nothing."""

    ThreadingHTTPServer(("127.0.0.1", int(port)), Handler).serve_forever()


if __name__ == "__main__":
    main(*sys.argv[1:])
