from hack.commands import COMMANDS, render_commands
from hack.json_output import JSON_OUTPUT, render_json_output


def test_the_page_of_commands_is_that_of_the_command_line() -> None:
    assert COMMANDS.read_text() == render_commands(), "run .venv/bin/python -m hack.commands"


def test_the_page_of_json_output_is_that_of_the_models() -> None:
    want = "run .venv/bin/python -m hack.json_output"
    assert JSON_OUTPUT.read_text() == render_json_output(), want
