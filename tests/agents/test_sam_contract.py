from __future__ import annotations

from typing import Any

import pytest

from interlock import Interlock
from interlock.contract.render import as_data
from interlock.discovery import load_agent
from interlock_agents.sam.graph import sam

IDENTITY = {"conversation_id", "trace_id", "created_at"}
EMPTIED = {"preprocessing_result", "model_response", "model_metadata", "final_output", "error_type", "response", "command"}

# node: reads, uses, writes, goes
TABLE: dict[str, tuple[set[str], set[str], set[str], dict[str, str]]] = {
    "router_node": ({"raw_input"}, set(), {"input_type"}, {"Routed": "state_init_node"}),
    "state_init_node": (
        {"conversation_id", "trace_id"},
        {"Clock", "Ids"},
        IDENTITY | EMPTIED,
        {"Initialised": "decision_logic_node"},
    ),
    "decision_logic_node": (
        {"command", "preprocessing_result?", "final_output?"},
        set(),
        {"command"},
        {
            "Preprocess": "task_preprocessing_node",
            "CallModel": "model_call_node",
            "Success": "format_response_node",
            "Failure": "error_router_node",
        },
    ),
    "task_preprocessing_node": (
        {"input_type", "raw_input"},
        {"Transcriber", "Images"},
        {"preprocessing_result"},
        {"Preprocessed": "decision_logic_node"},
    ),
    "model_call_node": (
        {"preprocessing_result", "input_type", "trace_id"},
        {"ModelBackend"},
        {"model_response"},
        {"Answered": "result_handling_node", "Refused": "error_router_node"},
    ),
    "result_handling_node": (
        {"model_response"},
        set(),
        {"final_output", "model_metadata"},
        {"Handled": "decision_logic_node"},
    ),
    "error_router_node": (
        {"model_response", "preprocessing_result"},
        set(),
        {"error_type", "final_output"},
        {"Classified": "format_response_node"},
    ),
    "format_response_node": (
        {"conversation_id", "trace_id", "final_output", "error_type", "model_metadata"},
        set(),
        {"response"},
        {"Formatted": "END"},
    ),
}
CAPABILITIES = {"Clock", "Ids", "Transcriber", "Images", "ModelBackend", "Memory"}
BRANCHING = {"decision_logic_node", "model_call_node"}

# field: type, labels
STATE: dict[str, tuple[str, list[str]]] = {
    "conversation_id": ("str", ["Untrusted"]),
    "trace_id": ("str", ["Untrusted"]),
    "created_at": ("str", ["Trusted"]),
    "input_type": ("Literal['text', 'audio', 'image']", ["Control"]),
    "raw_input": ("str | TextWithFile", ["Untrusted"]),
    "preprocessing_result": ("PreprocessingResult | None", ["Untrusted"]),
    "model_response": ("ModelResponse | None", ["Untrusted"]),
    "model_metadata": ("dict[str, list[JsonValue] | dict[str, JsonValue] | str | bool | int | float | None] | None", ["Untrusted"]),
    "final_output": ("str | None", ["Untrusted"]),
    "response": ("Response | None", ["Untrusted"]),
    "command": ("Literal['preprocess', 'call_model', 'success', 'failure'] | None", ["Control"]),
}


def shown() -> dict[str, dict[str, Any]]:
    return {node["name"]: node for node in as_data(sam)["nodes"]}


def test_sam_has_exactly_its_eight_nodes_in_the_order_of_the_table():
    assert list(shown()) == list(TABLE)
    assert as_data(sam)["entry"] == "router_node"


@pytest.mark.parametrize("name", TABLE)
def test_every_contract_is_as_in_the_table(name: str):
    reads, uses, writes, goes = TABLE[name]
    node = shown()[name]
    assert set(node["reads"]) == reads
    assert set(node["uses"]) == uses
    assert set(node["writes"]) == writes
    assert node["goes"] == goes
    for column in ("reads", "uses", "writes", "may_not"):
        assert len(set(node[column])) == len(node[column])


@pytest.mark.parametrize("name", TABLE)
def test_every_prohibition_is_as_in_the_table(name: str):
    expected = CAPABILITIES - TABLE[name][1] | (set[str]() if name in BRANCHING else {"branch"})
    assert set(shown()[name]["may_not"]) == expected


def test_the_state_has_the_twelve_fields_of_the_document_and_the_response():
    fields = as_data(sam)["state"]
    error_type = fields.pop("error_type")
    assert {name: (field["type"], field["labels"]) for name, field in fields.items()} == STATE
    assert error_type["labels"] == ["Control"]
    for code in ("timeout", "backend_unavailable", "invalid_output", "unsupported_media", "media_malformed", "media_bomb"):
        assert repr(code) in error_type["type"]


def test_a_caller_may_set_the_input_and_the_ids_and_gets_the_response():
    assert sam.state.takes == ("raw_input", "conversation_id", "trace_id")
    assert sam.gives == "response"


def test_the_longest_turns_fit_into_the_step_limit():
    assert sam.max_steps == 10


def test_sam_is_found_by_its_name():
    assert Interlock().graph("sam") is sam
    assert load_agent("sam").graphs == (sam,)
