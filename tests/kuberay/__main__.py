"""`python -m tests.kuberay`: the stand-in beside a control plane, or in a Pod of its own."""

import argparse
import asyncio
import logging
import signal
from pathlib import Path

from tests.kuberay.api import KubeApi
from tests.kuberay.operator import run_operator
from tests.kuberay.settings import Settings


def main() -> None:
    """Run until SIGTERM or SIGINT."""
    defaults = Settings()
    parser = argparse.ArgumentParser(prog="python -m tests.kuberay", description=__doc__)
    parser.add_argument("--kubeconfig", type=Path, help="default: this Pod's service account")
    parser.add_argument("--namespace", help="watch this one alone; default: all")
    parser.add_argument("--dashboard-url-template", default=defaults.dashboard_url)
    parser.add_argument("--poll-seconds", type=float, default=defaults.poll_seconds)
    parser.add_argument(
        "--status-check-timeout-seconds", type=float, default=defaults.status_check_timeout_seconds
    )
    parser.add_argument("--reconcile-concurrency", type=int, default=defaults.concurrency)
    given = parser.parse_args()
    if given.kubeconfig is not None and not given.kubeconfig.is_file():
        parser.error(f"argument --kubeconfig: no file {given.kubeconfig}")
    logging.basicConfig(level=logging.INFO, format="%(asctime)s %(name)s %(message)s")
    settings = Settings(
        namespace=given.namespace,
        dashboard_url=given.dashboard_url_template,
        poll_seconds=given.poll_seconds,
        status_check_timeout_seconds=given.status_check_timeout_seconds,
        concurrency=given.reconcile_concurrency,
    )
    asyncio.run(_serve(given.kubeconfig, settings))


async def _serve(kubeconfig: Path | None, settings: Settings) -> None:
    async with await KubeApi.connect(kubeconfig) as api:
        operator = asyncio.create_task(run_operator(api, settings))
        for number in (signal.SIGTERM, signal.SIGINT):
            asyncio.get_running_loop().add_signal_handler(number, operator.cancel)
        try:
            await operator
        except asyncio.CancelledError:
            logging.getLogger(__name__).info("stopped")


if __name__ == "__main__":
    main()
