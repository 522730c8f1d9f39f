from hack.messages import MESSAGES, render_messages


def test_the_list_of_messages_is_that_of_the_sources() -> None:
    assert MESSAGES.read_text() == render_messages(), "run .venv/bin/python -m hack.messages"
