"""Code that lies in a bucket: the driver of a job fetches it, and every worker imports it."""

import json
from pathlib import Path

import pytest

from tests.app.ray_head import start_cluster
from tests.app.ray_run import trainshed
from tests.builders import make_document
from tests.s3 import S3Server
from trainshed.digits import write_digits
from trainshed.planning.code_archive import pack
from trainshed.storage.bucket import Bucket
from trainshed_api.names import ENV_HOME, ENV_SPEC, EXIT_SUCCEEDED

pytestmark = [pytest.mark.ray, pytest.mark.timeout(600)]

# Says where it runs, and reports as a plain function of Ray Train does.
PROGRAM = """
import ray.train
from width_of_mine import width

def train():
    rank = ray.train.get_context().get_world_rank()
    print(f"rank {rank} has a width of {width}")
    ray.train.report({"loss": 1.0 / width})
"""


def test_a_job_s_workers_import_what_its_driver_fetched(
    s3: S3Server, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name, value in s3.environment.items():
        monkeypatch.setenv(name, value)
    home = Bucket(f"s3://{s3.make_bucket()}", "home")
    write_digits(home)
    (tmp_path / "src").mkdir()
    (tmp_path / "src" / "mine.py").write_text(PROGRAM)
    (tmp_path / "src" / "width_of_mine.py").write_text("width = 4\n")
    packed = pack(tmp_path / "src")
    (home / "code").write(packed.name, packed.content)
    address = f"{home / 'code'}/{packed.name}"
    spec = make_document(
        train="mine:train",
        code={"workingDir": address},
        workers={"count": 2, "resources": {"cpu": 1}},
        data={
            "cpus": 1,
            "datasets": {
                "train": {
                    "read": {"format": "parquet", "path": "digits/train", "columns": ["label"]}
                }
            },
        },
    )

    with start_cluster(tmp_path, {"cpu": 3}, s3.environment) as head:
        environment = {**head.inside, ENV_HOME: str(home), ENV_SPEC: json.dumps(spec)}
        done = trainshed("run", environment=environment)

    assert done.code == EXIT_SUCCEEDED, done.stderr
    assert done.finished.metrics["loss"] == 0.25
    (run,) = ((home / "runs/local") / name for name in (home / "runs/local").names())
    # Not in the driver's log: Ray forwards there what workers say, and is late for one that ends.
    workers = run / "attempts/1/workers"
    for rank in range(2):
        assert f"rank {rank} has a width of 4" in "".join(workers.lines(f"{rank}.log"))
