"""Writes what is generated from the chart again; `tests/chart` fails when it is out of date."""

from hack.chart.helm import CHART, ROOT
from hack.chart.manifest import render_manifest
from hack.chart.readme import fill_readme
from trainshed_api.crd import crd_text

if __name__ == "__main__":
    readme = CHART / "README.md"
    readme.write_text(fill_readme(readme.read_text(), CHART / "values.yaml"))
    (CHART / "files" / "trainingruns.yaml").write_text(crd_text())
    (ROOT / "manifests" / "install.yaml").write_text(render_manifest())
