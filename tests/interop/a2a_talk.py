"""Talks to agents by the A2A project's own client; writes what it heard as JSON. Run as a script by the tests."""

# The client is in an environment of its own.
# pyright: basic, reportMissingImports=false

from __future__ import annotations

import asyncio
import json
import sys
from typing import Any

import httpx
from a2a.client import A2ACardResolver, ClientConfig, ClientFactory
from a2a.helpers.proto_helpers import new_text_message
from a2a.types import a2a_pb2 as types
from a2a.utils.errors import A2AError
from google.protobuf.json_format import MessageToDict

SAYS = {
    "sam": "Good morning",
    "desk": "I want to buy two laptops",
    "analyst": "What was the revenue in 2024?",
    "gateway/admin": "list the files",
    "gateway/user": "list my documents",
    "puntini": "Add a person called Ada",
}
GOALS = ["Add a task Design", "Add a person Design", "Set the priority of Design to 3"]


class Talk:
    """The clients of one server."""

    def __init__(self, url: str, http: httpx.AsyncClient) -> None:
        self._url = url
        self._http = http

    async def client(self, path: str, *, streaming: bool = True, polling: bool = False) -> Any:
        card = await A2ACardResolver(self._http, f"{self._url}{path}").get_agent_card()
        return ClientFactory(ClientConfig(streaming=streaming, polling=polling, httpx_client=self._http)).create(card)

    async def say(self, client: Any, text: str, **ids: str) -> list[dict[str, Any]]:
        """Return what comes of a message."""
        request = types.SendMessageRequest(message=new_text_message(text, role=types.Role.ROLE_USER, **ids))
        return [MessageToDict(one) async for one in client.send_message(request)]

    async def failure(self, work: Any) -> str:
        """Return the class of the error that a call ends with."""
        try:
            await work
        except A2AError as error:
            return type(error).__name__
        return ""

    async def replies(self) -> dict[str, Any]:
        """Return the card of each agent, and the reply to a message as a stream and whole."""
        found: dict[str, Any] = {}
        for name, text in SAYS.items():
            streaming, whole = await self.client(f"/a2a/{name}"), await self.client(f"/a2a/{name}", streaming=False)
            card = await streaming.get_extended_agent_card(types.GetExtendedAgentCardRequest())
            found[name] = {"card": MessageToDict(card), "stream": await self.say(streaming, text), "whole": await self.say(whole, text)}
        return found

    async def conversation(self) -> list[list[dict[str, Any]]]:
        """Return a conversation in which an agent asks back, and is answered by the id of the task."""
        client = await self.client("/a2a/puntini")
        heard = [await self.say(client, text, context_id="talk") for text in GOALS]
        return [*heard, await self.say(client, "Task Design", context_id="talk", task_id=heard[-1][0]["task"]["id"])]

    async def tasks(self) -> dict[str, Any]:
        """Return what happens to a task that is asked for, followed and cancelled."""
        client = await self.client("/a2a/parcels", streaming=False, polling=True)
        begun = (await self.say(client, "wait 60"))[0]["task"]
        id_ = begun["id"]
        following = (await self.client("/a2a/parcels")).subscribe(types.SubscribeToTaskRequest(id=id_))
        followed = [MessageToDict(await anext(following))]
        cancelled = MessageToDict(await client.cancel_task(types.CancelTaskRequest(id=id_)))
        followed += [MessageToDict(one) async for one in following]
        return {
            "begun": begun,
            "followed": followed,
            "cancelled": cancelled,
            "got": MessageToDict(await client.get_task(types.GetTaskRequest(id=id_))),
            "failures": [
                await self.failure(client.cancel_task(types.CancelTaskRequest(id=id_))),
                await self.failure(client.get_task(types.GetTaskRequest(id="none"))),
                await self.failure(self.say(client, "more", task_id=id_)),
                await self.failure(self.say(client, " ")),
                await self.failure(client.list_tasks(types.ListTasksRequest())),
            ],
        }


async def main(url: str, key: str) -> None:
    async with httpx.AsyncClient(headers={"authorization": f"Bearer {key}"}, timeout=60, trust_env=False) as http:
        talk = Talk(url, http)
        first = MessageToDict(await A2ACardResolver(http, url).get_agent_card())
        heard = {"first": first, "replies": await talk.replies(), "conversation": await talk.conversation(), "tasks": await talk.tasks()}
    print(json.dumps(heard))  # noqa: T201 - for the test


if __name__ == "__main__":
    asyncio.run(main(*sys.argv[1:]))
