"""`trainshed logs` of a run's folder: what is left when the cluster that ran it is gone."""

import pytest

from tests.app.cli_here import trainshed_here
from trainshed.storage import segmented_log
from trainshed.storage.bucket import Bucket
from trainshed.storage.folder import Folder
from trainshed.storage.run_folder import CLAIM, LOG, RunFolder
from trainshed_api.names import EXIT_INVALID, EXIT_SUCCEEDED


def keep(attempt: Folder, driver: str, **workers: str) -> None:
    """Write what the driver of an attempt printed, and its workers, w0, w1, and so on."""
    with_log = {LOG: (attempt, driver)}
    with_log |= {f"{name[1:]}.log": (attempt / "workers", text) for name, text in workers.items()}
    for name, (folder, text) in with_log.items():
        log = folder.append(name)
        log.write(text)
        log.close()


def test_the_last_attempt_is_shown_its_driver_first(place: Folder) -> None:
    run = RunFolder(place / "digits")
    keep(run.attempt(9), "earlier\n")
    keep(run.attempt(10), "begins\nends\n", w10="ten", w2="two\n", w0="nought\n")

    said = trainshed_here("logs", str(run.at))

    assert (said.code, said.stderr) == (EXIT_SUCCEEDED, "")
    assert said.stdout.splitlines() == [
        "begins",
        "ends",
        "==> workers/0.log <==",
        "nought",
        "==> workers/2.log <==",
        "two",
        "==> workers/10.log <==",
        "ten",
    ]


def test_another_attempt_and_the_last_lines_may_be_asked_for(place: Folder) -> None:
    run = RunFolder(place / "digits")
    keep(run.attempt(1), "one\ntwo\nthree\n", w0="a\nb\nc")
    keep(run.attempt(2), "later\n")

    said = trainshed_here("logs", str(run.at), "--attempt", "1", "--tail", "2")

    assert said.stdout.splitlines() == ["two", "three", "==> workers/0.log <==", "b", "c"]


def test_logs_that_still_grow_in_a_bucket_are_shown(in_bucket: Bucket) -> None:
    attempt = RunFolder(in_bucket).attempt(1)
    for folder, name in ((attempt, LOG), (attempt / "workers", "0.log")):
        (folder / f"{name}{segmented_log.PARTS}").write("000000", f"of {name}\n".encode())

    said = trainshed_here("logs", str(in_bucket))

    assert said.stdout.splitlines() == ["of driver.log", "==> workers/0.log <==", "of 0.log"]


def test_of_an_attempt_that_printed_nothing_it_says_where_to_look(place: Folder) -> None:
    RunFolder(place).attempt(1).write(CLAIM, b"{}")

    said = trainshed_here("logs", str(place))

    assert (said.code, said.stderr) == (EXIT_SUCCEEDED, "")
    assert said.stdout.startswith("Attempt 1 has printed nothing. What happened is in ")
    assert said.stdout.endswith(f"trainshed report {place}\n")


@pytest.mark.parametrize(
    ("words", "want"),
    [
        (["{folder}", "--attempt", "3"], "Invalid value for --attempt: 3 is none of 1, 2"),
        (["{folder}", "--attempt", "0"], "Invalid value for '--attempt': 0 is not in the range"),
        (["{folder}", "--tail", "0"], "Invalid value for '--tail': 0 is not in the range"),
        (["{folder}", "--follow"], "--follow: got {folder}, a run on this machine or a folder"),
        (["{folder}/attempts/1"], "is not the folder of a run: it has no attempts"),
        (["hdfs://server/digits"], "hdfs://server/digits is not a path, file://, or a bucket's"),
        (["digits-1", "--tail", "3"], "are for a run's folder, digits-1 is none"),
        (["digits-1", "--attempt", "3"], "are for a run's folder, digits-1 is none"),
    ],
)
def test_wrong_words_are_said_as_such(place: Folder, words: list[str], want: str) -> None:
    run = RunFolder(place / "digits")
    for number in (1, 2):
        keep(run.attempt(number), "something\n")

    said = trainshed_here("logs", *(word.format(folder=run.at) for word in words))

    assert said.code == EXIT_INVALID
    assert want.format(folder=run.at) in said.stderr
    assert said.stdout == ""


def test_credentials_that_do_not_allow_it_are_named(in_bucket: Bucket) -> None:
    said = trainshed_here("logs", str(in_bucket), environment={"AWS_SECRET_ACCESS_KEY": "wrong"})

    assert said.code == EXIT_INVALID
    assert f"{in_bucket}/attempts: access was denied" in said.stderr
