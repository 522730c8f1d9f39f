"""What is generated from the chart: its README and the manifest for people without Helm.

`python -m hack.chart` writes both; `make generate` runs it.
"""
