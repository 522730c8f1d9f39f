"""Workers of a job inherit its code and the spec's variables, and not what is the driver's."""

import json

from trainshed.ray_train.ray_cluster import JOB_CONFIG, for_workers, with_working_dir

JOB = {
    "metadata": {"job_submission_id": "digits-1"},
    "runtime_env": {
        "working_dir": "gcs://code.zip",
        "env_vars": {
            "TRAINSHED_PROGRESS_TOKEN": "secret",
            "RAY_JOB_STOP_WAIT_TIME_S": "75",
            "THEIRS": "1",
        },
    },
}


def test_what_is_the_driver_s_alone_is_left_out() -> None:
    handed = for_workers({JOB_CONFIG: json.dumps(JOB)}, {"NCCL_DEBUG": "WARN"})

    assert json.loads(handed[JOB_CONFIG]) == {
        "metadata": {"job_submission_id": "digits-1"},
        "runtime_env": {
            "working_dir": "gcs://code.zip",
            "env_vars": {"THEIRS": "1", "NCCL_DEBUG": "WARN"},
        },
    }


def test_the_spec_wins_over_who_sent_the_job() -> None:
    handed = for_workers({JOB_CONFIG: json.dumps(JOB)}, {"THEIRS": "2"})

    assert json.loads(handed[JOB_CONFIG])["runtime_env"]["env_vars"] == {"THEIRS": "2"}


def test_workers_without_variables_need_no_processes_of_their_own() -> None:
    job = {"runtime_env": {"env_vars": {"TRAINSHED_SPEC": "{}"}}}

    handed = for_workers({JOB_CONFIG: json.dumps(job)}, {})

    assert json.loads(handed[JOB_CONFIG]) == {"runtime_env": {}}


def test_a_driver_that_is_no_job_hands_on_the_spec_s() -> None:
    assert json.loads(for_workers({}, {"A": "1"})[JOB_CONFIG]) == {
        "runtime_env": {"env_vars": {"A": "1"}}
    }


def test_a_script_that_starts_ray_itself_has_the_code_that_the_driver_sent() -> None:
    handed = with_working_dir({JOB_CONFIG: json.dumps(JOB)}, "gcs://sent.zip")

    assert json.loads(handed[JOB_CONFIG])["runtime_env"]["working_dir"] == "gcs://sent.zip"
    assert json.loads(handed[JOB_CONFIG])["metadata"] == JOB["metadata"]
