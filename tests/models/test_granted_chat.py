"""A LangChain chat model, granted as it is."""

from __future__ import annotations

from dataclasses import dataclass

from langchain_core.language_models import FakeListChatModel
from langchain_core.language_models.fake_chat_models import GenericFakeChatModel
from langchain_core.messages import AIMessage

from interlock import Interlock, Settings
from interlock.capabilities import Message, Model
from interlock.contract import END, Graph, Outcome, node
from interlock.engine import EngineName
from interlock.runtime.targets import Composed
from tests.unit.test_bad_grants import Teller


async def test_sam_runs_with_a_langchain_chat_model(engine: EngineName):
    chat = FakeListChatModel(responses=["Good morning to you."])
    app = Interlock(Settings(engine=engine), grants={Model: chat})
    result = await app.run("sam", "Good morning")
    assert (result.status, result.output) == ("success", "Good morning to you.")
    assert result.metadata["backend"] == "FakeListChatModel"


async def test_a_failing_chat_model_is_a_typed_failure():
    chat = GenericFakeChatModel(messages=iter([AIMessage("")]))
    result = await Interlock(grants={Model: chat}).run("sam", "Good morning")
    assert result.error is not None
    assert result.error.code == "invalid_output"


@dataclass
class Talk:
    said: str
    told: str = ""


class Told(Outcome):
    told: str


class Asking:
    async def tell(self, text: str, *, model: Model) -> str:
        return (await model.reply([Message(role="user", text=text)])).text


async def pass_on(said: str, *, teller: Teller) -> Told:
    return Told(told=await teller.tell(said))


talk = Graph("talk", state=Talk, entry=pass_on, takes=("said",), gives="told", nodes=[node(pass_on, goes={Told: END})])


async def test_a_chat_model_can_be_a_part_of_an_adapter(engine: EngineName):
    granted = Composed(Asking(), parts={Model: FakeListChatModel(responses=["Told."])})
    result = await Interlock(Settings(engine=engine), grants={Teller: granted}).run(talk, "Tell it.")
    assert result.output == "Told."
