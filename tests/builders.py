"""The only place where TrainingRuns for tests are born; names of fields are those of the file."""

from pydantic import JsonValue

from trainshed_api.loading import Document
from trainshed_api.names import API_VERSION, KIND
from trainshed_api.v1alpha1 import TrainingRunResource
from trainshed_api.validation import validate_document


def make_document(**spec: JsonValue) -> Document:
    """Return a small right document, not yet validated; `entrypoint` takes the place of `train`."""
    program: Document = {} if "entrypoint" in spec else {"train": "my_module:train"}
    return {
        "apiVersion": API_VERSION,
        "kind": KIND,
        "metadata": {"name": "digits"},
        "spec": program | spec,
    }


def make_run(**spec: JsonValue) -> TrainingRunResource:
    """Return a TrainingRun, such as make_run(batchSize=32, data=make_data())."""
    return validate_document(make_document(**spec), "test")


def make_dataset(**fields: JsonValue) -> Document:
    """Return a dataset that reads parquet, such as make_dataset(cache="none")."""
    read: Document = {"format": "parquet", "path": "rows"}
    return {"read": read, **fields}


def make_data(train: Document | None = None, **fields: JsonValue) -> Document:
    """Return a data section with the one dataset `train`."""
    datasets: Document = {"train": train or make_dataset()}
    return {"datasets": datasets, **fields}
