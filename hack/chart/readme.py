"""The table of values in the README of the chart."""

from pathlib import Path

from hack.chart.values import Value, read_values

START, END = "<!-- values -->\n", "<!-- /values -->\n"


def fill_readme(readme: str, values_file: Path) -> str:
    """Return a README with a new table between its two marks."""
    before, mark, rest = readme.partition(START)
    _, closing, after = rest.partition(END)
    if not mark or not closing:
        raise SystemExit(f"the chart's README lacks {START.strip()} or {END.strip()}")
    return f"{before}{START}{render_table(read_values(values_file))}{END}{after}"


def render_table(values: list[Value]) -> str:
    """Return a Markdown table of values."""
    rows = ["| Value | Default | |", "|---|---|---|"]
    for value in values:
        comment = value.comment.replace("|", "\\|")
        rows.append(f"| `{value.path}` | `{value.default}` | {comment} |")
    return "\n".join(rows) + "\n"
