"""What a customer sees of the desk on the terminal: who asks for a person is not shut out, and their words are no answer."""

from __future__ import annotations

import subprocess
from collections.abc import Callable

Command = Callable[..., subprocess.CompletedProcess[str]]


def test_a_chat_continues_after_a_request_for_a_person(interlock: Command):
    ran = interlock("chat", "desk", "--session", "s", stdin=b"Can I talk to a person?\nhow much is the steel desk lamp dimmable?\n")
    assert ran.returncode == 0, ran.stderr
    assert "This question is for a colleague. Answer with: interlock run desk --session s --answer 'your answer'" in ran.stdout
    assert "46.90 EUR" in ran.stdout
    assert "A colleague says" not in ran.stdout
    assert "No colleague has answered yet" in ran.stderr


def test_a_colleague_answers_from_another_terminal(interlock: Command):
    interlock("run", "desk", "Can I talk to a person?", "--session", "s")
    answered = interlock("run", "desk", "--answer", "I call you at five.", "--session", "s")
    assert "A colleague says: I call you at five." in answered.stdout


def test_a_new_input_ends_the_question_and_shows_no_command_that_would_come_too_late(interlock: Command):
    interlock("run", "desk", "Can I talk to a person?", "--session", "s")
    ran = interlock("run", "desk", "how much is the steel desk lamp dimmable?", "--session", "s")
    assert "46.90 EUR" in ran.stdout
    assert "The input does not answer this question, and ends it:" in ran.stderr
    assert "--answer" not in ran.stdout + ran.stderr
    assert interlock("run", "desk", "--answer", "I call you.", "--session", "s").returncode == 2
