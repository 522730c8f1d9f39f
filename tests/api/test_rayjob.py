"""The RayJob of an attempt, as who reads its YAML with another reader understands it."""

import pytest

from tests.builders import make_run
from trainshed_api.kubeyaml import parse_yaml
from trainshed_api.rayjob import AttemptIdentity, SharedCluster, render_rayjob

# All are right names of namespaces; unquoted each is something else to one reader or the other.
NAMES = ["y", "n", "on", "off", "1e3", "123", "0x1f", "0o17", "017", "1-2", "null", "true"]


@pytest.mark.parametrize("name", NAMES)
def test_a_driver_is_told_its_namespace_as_it_is_spelt(name: str) -> None:
    run = make_run(code={"pip": ["einops==0.8"]})
    job = render_rayjob(run, AttemptIdentity(name, "digits", name, 1), SharedCluster("trainshed"))
    assert isinstance(job["spec"], dict)

    [read] = parse_yaml(str(job["spec"]["runtimeEnvYAML"]), "RayJob")

    assert isinstance(read, dict)
    assert isinstance(read["env_vars"], dict)
    assert read["env_vars"]["TRAINSHED_NAMESPACE"] == name
    assert read["env_vars"]["TRAINSHED_UID"] == name
    assert read["pip"] == ["einops==0.8"]
    assert all(isinstance(value, str) for value in read["env_vars"].values())
