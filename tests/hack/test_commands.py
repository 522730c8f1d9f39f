from hack.commands import COMMANDS, render_commands


def test_the_page_of_commands_is_that_of_the_command_line() -> None:
    assert COMMANDS.read_text() == render_commands(), "run .venv/bin/python -m hack.commands"
