"""The files that a benchmark writes."""

import json
from pathlib import Path

from benchmarks.measure import Figure, Options, Samples, Target, publish


def test_figures_are_written_as_json_and_as_markdown_rows(tmp_path: Path) -> None:
    other = [10.0, 20.0]
    figures = [
        Figure("plain", "s", other),
        Figure("ours", "s", [9.0, 22.0], ("plain", other), Target("ratio", "<=", 2)),
    ]
    samples = Samples({"plain": [{"seconds": 10.0}, {"seconds": 20.0}]})

    options = Options(repeats=2, quick=False, cache=tmp_path)
    publish("whole_job", figures, samples, options, tmp_path)

    (written,) = tmp_path.glob("whole_job-*.json")
    document = json.loads(written.read_text())
    assert [figure["median"] for figure in document["figures"]] == [15.0, 15.5]
    assert document["figures"][1]["met"] is True
    assert document["samples"]["plain"][1] == {"seconds": 20.0}
    assert document["machine"]["cores"] >= 1
    assert written.with_suffix(".md").read_text().splitlines() == [
        "| whole_job | plain | 15 s | 10 - 20 |  |  |  |  |",
        "| whole_job | ours | 15.5 s | 9 - 22 | 1.00 | plain | ratio <= 2 | yes |",
    ]
