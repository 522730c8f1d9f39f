"""The stand-in as a process of its own, with the rights that its chart gives it."""

import asyncio
import subprocess
import sys
from pathlib import Path

from tests.control_plane.plugin import ROOT, ControlPlane
from tests.kuberay.api import CLUSTERS, JOBS, KubeApi
from tests.kuberay.builders import make_cluster, make_cluster_spec, make_job
from tests.kuberay.chart import CHART, CRD_FILES, place_chart
from tests.kuberay.dashboards import Dashboards
from tests.kuberay.drivers import finish
from tests.kuberay.jobs_api import Driver, Submission
from tests.kuberay.kubelet import Kubelet
from tests.kuberay.settings import Settings
from tests.kuberay.stage import Stage


def _succeed(submission: Submission) -> Driver:
    return finish("trained")


async def test_the_rights_of_the_chart_are_enough_for_a_job_from_end_to_end(
    control_plane: ControlPlane, namespace: str, kuberay_crds: tuple[str, ...], tmp_path: Path
) -> None:
    install = ("install", "kuberay", str(CHART), "-n", namespace)
    control_plane.helm(*install, "--set=singleNamespaceInstall=true")
    account = f"system:serviceaccount:{namespace}:kuberay-operator"
    own = control_plane.user_kubeconfig(account, groups=["system:serviceaccounts"])
    async with (
        await KubeApi.connect(control_plane.kubeconfig) as api,
        Dashboards(_succeed) as dashboards,
    ):
        kubelet = Kubelet(api, namespace, dashboards)
        tasks = [asyncio.create_task(kubelet.watch()), asyncio.create_task(kubelet.work())]
        log = tmp_path / "operator.log"
        with log.open("wb") as output:
            operator = await asyncio.create_subprocess_exec(
                *(sys.executable, "-m", "tests.kuberay", f"--kubeconfig={own}"),
                *(f"--namespace={namespace}", "--poll-seconds=0.2"),
                f"--dashboard-url-template={dashboards.url_template}",
                cwd=ROOT,
                stdout=output,
                stderr=output,
            )
        stage = Stage(api, namespace, dashboards, kubelet, Settings())
        try:
            spec = make_cluster_spec(authOptions={"mode": "token"})
            own_cluster = make_job("digits-1", None, rayClusterSpec=spec)
            await stage.create(JOBS, own_cluster)
            await stage.create(CLUSTERS, make_cluster())
            await stage.job("digits-1", lambda job: job.status.job_status == "SUCCEEDED")
            await stage.cluster("shared", lambda found: found.status.state == "ready")
            await stage.gone(CLUSTERS, (await stage.job("digits-1")).status.ray_cluster_name)
            await stage.api.delete(JOBS, namespace, "digits-1")
            await stage.gone(JOBS, "digits-1")
        finally:
            operator.terminate()
            status = await asyncio.wait_for(operator.wait(), 20)
            for task in tasks:
                task.cancel()
            await asyncio.gather(*tasks, return_exceptions=True)
    assert status == 0, log.read_text()
    assert "403" not in log.read_text()


def test_the_chart_takes_the_place_of_the_real_one(tmp_path: Path) -> None:
    crds = tmp_path / "crds"
    crds.mkdir()
    for name in CRD_FILES:
        (crds / name).write_text("{}")
    for _ in range(2):
        placed = place_chart(tmp_path / "parent", crds)
    assert placed == tmp_path / "parent" / "charts" / "kuberay-operator"
    text = (placed / "Chart.yaml").read_text()
    assert "name: kuberay-operator\n" in text
    assert "version: 1.7.0\n" in text
    assert sorted(path.name for path in (placed / "crds").iterdir()) == sorted(CRD_FILES)
    assert not (place_chart(tmp_path / "parent", None) / "crds").exists()


def test_a_kubeconfig_that_is_not_there_is_one_clear_line() -> None:
    ended = subprocess.run(
        [sys.executable, "-m", "tests.kuberay", "--kubeconfig=/nowhere/config"],
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=False,
        timeout=60,
    )
    assert ended.returncode == 2
    assert ended.stderr.splitlines()[-1].endswith("no file /nowhere/config")
