"""MLflow: a run in the experiment that is named after the task, in ``mlflow.db`` or where MLFLOW_TRACKING_URI says."""

import logging
import os
import time
from collections.abc import Mapping

from seqloom.loggers.logger import Logger, flat_config, store_identifier, stored_identifier
from seqloom.run import Run

MAX_VALUE = 500  # characters of a parameter
MAX_PARAMETERS = 100  # in one call


class MlflowLogger(Logger):
    """Writes metrics and, as parameters, the configuration."""

    def __init__(self, run: Run, *, update: int) -> None:  # noqa: ARG002
        os.environ.setdefault("MLFLOW_DISABLE_TELEMETRY", "true")  # nothing leaves the machine unasked
        from mlflow.entities import Param
        from mlflow.tracking import MlflowClient

        for name in ("mlflow", "alembic"):
            logging.getLogger(name).setLevel(logging.WARNING)
        self.client = MlflowClient(os.environ.get("MLFLOW_TRACKING_URI", "sqlite:///mlflow.db"))
        self.status = "KILLED"
        self.identifier = stored_identifier(run, "mlflow")
        if self.identifier:
            self.client.update_run(self.identifier, status="RUNNING")
            return
        config = flat_config(run)
        task = str(config["task.name"])
        experiment = self.client.get_experiment_by_name(task)
        number = experiment.experiment_id if experiment else self.client.create_experiment(task)
        self.identifier = self.client.create_run(number, run_name=run.path.name).info.run_id
        parameters = [Param(name, str(value)[:MAX_VALUE]) for name, value in config.items()]
        for start in range(0, len(parameters), MAX_PARAMETERS):
            self.client.log_batch(self.identifier, params=parameters[start : start + MAX_PARAMETERS])
        self.client.set_tag(self.identifier, "run", str(run.path))
        store_identifier(run, "mlflow", self.identifier)

    def log(self, values: Mapping[str, float], *, update: int) -> None:
        from mlflow.entities import Metric

        now = round(time.time() * 1000)
        self.client.log_batch(self.identifier, [Metric(name, value, now, update) for name, value in values.items()])

    def finish(self, best: Mapping[str, float]) -> None:
        self.log({f"best/{name}": value for name, value in best.items()}, update=0)
        self.status = "FINISHED"

    def close(self) -> None:
        self.client.set_terminated(self.identifier, self.status)
