from __future__ import annotations

from interlock import Settings


def test_passwords_and_what_is_handed_to_tool_servers_are_keys():
    given = {
        "session_url": "redis://user:open-sesame@127.0.0.1/0",
        "memory_url": "postgresql://user:abracadabra@127.0.0.1/db",
        "tool_servers": {"shop": {"url": "http://127.0.0.1", "headers": {"Authorization": "Token hunter2"}, "env": {"DEBUG": "1"}}},
    }
    assert Settings.model_validate(given).keys == ("open-sesame", "abracadabra", "Token hunter2")
