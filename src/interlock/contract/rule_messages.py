"""The messages of the rules of a graph: for each rule what is wrong and how to fix it, with the details in braces.

Where a rule can be broken in several places, the key names the place after a colon.
"""

from __future__ import annotations

__all__ = ["MESSAGES"]

_NOT_A_FIELD = "which is not a field of"
_IMPORT_IT = "import the type at module level, outside any TYPE_CHECKING block."

MESSAGES: dict[str, tuple[str, str]] = {
    # The state
    "bad_name": ("'{name}' is not a valid name for a graph.", "use letters, digits, '_', '-' and '.'."),
    "not_a_state": ("state '{state}' is not a state class.", "pass a TypedDict, a dataclass or a pydantic model."),
    "unresolved_annotation": ("{where} annotation {reason}.", _IMPORT_IT),
    "not_a_field": (
        "state '{state}' annotates it, but it is not a field of the dataclass.",
        "decorate the class with @dataclass, or remove the annotation.",
    ),
    "state_validators": (
        "state '{state}' has validators, which do not run when a node writes one field.",
        "put the rule into the field's type: Annotated[..., AfterValidator(...)].",
    ),
    "not_data": ("type '{type}' is not plain data ({reason}).", "keep plain data in the state; make clients and callables capabilities."),
    "bad_default": ("its default is not of its type '{type}': {reason}.", "change the default or the type."),
    "two_reducers": ("it has more than one reducer.", "keep one."),
    "reducer_default": (
        "a field with a reducer starts with the empty value of its type, so its default is never used.",
        "remove the default.",
    ),
    "open_control": ("it is labelled Control but its type '{type}' is open.", "make it a Literal."),
    "name_taken:field": ("LangGraph reserves this name.", "rename the field."),
    # A row
    "name_taken:node": ("a node cannot have the name of a state field, or a name that is reserved.", "rename the function."),
    "duplicate_node": ("two rows have this name.", "rename one function or remove one row."),
    "not_async": (
        "it is not an async function.",
        "write it as 'async def' at module level: a method or a partial hides what it depends on.",
    ),
    "open_signature": ("'*{field}' hides what it reads or is granted.", "name each parameter."),
    "no_annotation": ("the parameter has no annotation.", "annotate it with the type of the state field, or of the capability."),
    "parameter_default": ("the parameter has a default, which would never be used.", "give the state field a default instead."),
    "unknown_field": (f"it {{verb}} '{{field}}', {_NOT_A_FIELD} {{state}}.", "{suggestion}"),
    "differing_type:read": (
        "it reads '{field}' as '{type}', but the state has '{declared}'.",
        "declare the parameter as '{declared}'.",
    ),
    "differing_type:write": (
        "outcome '{outcome}' writes '{field}' as '{type}', but the state has '{declared}'.",
        "declare it as '{declared}' or a part of that.",
    ),
    "outcome_field": (f"outcome '{{outcome}}' writes '{{field}}', {_NOT_A_FIELD} state '{{state}}'.", "{suggestion}"),
    "unknown_capability:node": (
        "it asks for '{field}: {type}', which is not a capability.",
        "annotate it with a Protocol that inherits from interlock.Capability, or make it positional to read a field.",
    ),
    "bad_capability": ("method '{method}' of capability '{capability}' {problem}", "{solution}"),
    "forbidden_capability": (
        "it asks for '{capability}', which this graph forbids.",
        "remove the parameter, or take the capability out of 'forbids'.",
    ),
    "no_outcome": (
        "its return annotation is not a union of Outcome classes.",
        "annotate what can have happened: '-> Answered | Refused'.",
    ),
    "stranger_outcome": (
        "its row routes '{outcome}', which the node does not return.",
        "remove it from 'goes', or add it to the return annotation.",
    ),
    "unrouted_outcome": ("outcome '{outcome}' leads nowhere.", "add '{outcome}: ...' to 'goes'."),
    "stranger_target": (
        "outcome '{outcome}' leads to '{target}', which is not a node of this graph.",
        "add a row for it, or lead to a node that is here, or to END.",
    ),
    # The graph as a whole
    "entry_not_a_node": ("the entry '{entry}' is not a node of this graph.", "pass the function of one of the rows."),
    "unreachable_node": ("no path from the entry leads to it.", "lead an outcome to it, or remove its row."),
    "no_way_out": ("no path leads from it to END.", "lead one of its outcomes towards END."),
    "step_budget": ("a budget of {max_steps} steps cannot reach END, which is {needed} steps away.", "declare max_steps={needed} or more."),
    "read_before_write": (
        "it reads '{field}', which {path}.",
        "write the field on every path to this node, give it a default, name it in 'takes', or allow None for the parameter.",
    ),
    "taken_twice": ("'{field}' is in 'takes' and in 'takes_from_parent'.", "remove it from one of them."),
    "unknown_capability:graph": (
        "it forbids '{capability}', which is not a capability.",
        "name a Protocol that inherits from interlock.Capability.",
    ),
}
