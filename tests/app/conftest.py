"""The Ray that tests of the app share."""

from collections.abc import Iterator

import pytest

from tests.app.builders_rows import write_rows
from tests.app.ray_head import Head, start_cluster
from trainshed.digits import write_digits


@pytest.fixture(scope="session")
def head(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Head]:
    """Run a cluster with a group of nodes for each kind of work; its home holds digits and rows.

    A driver that joins it costs half of one that starts a Ray: variants of runs are made here.
    """
    home = tmp_path_factory.mktemp("home")
    write_digits(home)
    write_rows(home / "rows", 240)
    with start_cluster(home, {"gpu": 2, "cpu": 2}) as running:
        yield running
