"""interlock keys: who may call the server."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from datetime import UTC, datetime
from typing import Annotated, TypeVar

import typer

from interlock.cli.screen import print_error, print_json, print_line, safe
from interlock.settings import read_settings
from interlock.stores.keys import KeyStore, create_key, open_keys

__all__ = ["keys"]

T = TypeVar("T")

keys = typer.Typer(help="Add, list and revoke API keys of the server.", rich_markup_mode=None, add_completion=False, no_args_is_help=True)


@keys.command(name="add")
def add_key(
    name: Annotated[str, typer.Argument(help="Who calls by the key.")],
    tenant: Annotated[str, typer.Option(help="The tenant of the key: it sees its own sessions and turns only.")] = "",
    role: Annotated[
        list[str] | None, typer.Option(help="A role of the caller; may be given several times. 'operator' reads records.")
    ] = None,
    turns_at_once: Annotated[int | None, typer.Option(min=1, help="How many turns may be open at a time.")] = None,
    turns_a_minute: Annotated[int | None, typer.Option(min=1, help="How many turns may be submitted in a minute.")] = None,
    tokens_a_day: Annotated[
        int | None, typer.Option(min=1, help="How many tokens the turns of 24 hours may take before new ones are refused.")
    ] = None,
    body_bytes: Annotated[int | None, typer.Option(min=1, help="How large a request may be.")] = None,
) -> None:
    """Create an API key and print it. It is stored as a hash, so it cannot be shown again."""
    limits = {
        "turns_at_once": turns_at_once,
        "turns_a_minute": turns_a_minute,
        "tokens_a_day": tokens_a_day,
        "body_bytes": body_bytes,
    }
    text, key = create_key(name, tenant=tenant, roles=tuple(dict.fromkeys(role or ())), **limits)
    _run(lambda store: store.add(key))
    print_line(text)
    print_error(f"Key '{key.id}' is stored as a hash: keep the line above. A server that runs accepts it within 2 seconds.")


@keys.command(name="list")
def list_keys(as_json: Annotated[bool, typer.Option("--json", help="Print JSON.")] = False) -> None:
    """List the API keys: id, name, tenant, roles, when it was created, and whether it was revoked."""
    found = _run(lambda store: store.all())
    if as_json:
        print_json([{name: value for name, value in vars(key).items() if name != "hash"} for key in found], indent=2)
        return
    for key in found:
        created = datetime.fromtimestamp(key.created, UTC).isoformat(timespec="seconds").replace("+00:00", "Z")
        cells = (key.id, key.name, key.tenant or "-", ",".join(key.roles) or "-", created, "revoked" if key.is_revoked else "valid")
        print_line("\t".join(map(safe, cells)))
    if not found:
        print_error("There are no keys: the server accepts connections of this machine only.")


@keys.command(name="revoke")
def revoke_key(key: Annotated[str, typer.Argument(help="The id of the key, as 'keys list' prints it.")]) -> None:
    """Make an API key invalid. A server that runs refuses it within 2 seconds."""
    _run(lambda store: store.revoke(key))
    print_line(f"Key '{safe(key)}' is revoked.")


def _run(work: Callable[[KeyStore], Awaitable[T]]) -> T:
    settings = read_settings()
    store = open_keys(None if settings.turn_url is None else settings.turn_url.get_secret_value(), settings.folder)

    async def run() -> T:
        try:
            return await work(store)
        finally:
            await store.aclose()

    return asyncio.run(run())
