"""Demo files for the workers, created on first use if no folder is configured: an admin's folder and documents for customers."""

from __future__ import annotations

import secrets
import shutil
import tempfile
from pathlib import Path

from interlock.errors import SettingsInvalid, StoreUnavailable

__all__ = ["open_base"]

_PAGES = Path(__file__).with_name("demo_pages")


def open_base(configured: Path | None, *, folder: Path) -> Path:
    """Return the folder with `admin` and `docs`: the configured one, which has to have them, or `folder` with demo files."""
    if configured is not None:
        base = configured.expanduser()
        for side in ("admin", "docs"):
            if not (base / side).is_dir():
                raise SettingsInvalid(f"'gateway_path' has no folder '{side}'. Fix: make one, or leave the setting out for demo files.")
        return base
    if not folder.exists():
        try:
            _create(folder)
        except OSError as error:
            raise StoreUnavailable(f"The demo files cannot be made: {error.strerror}. Fix: set 'data_dir' or 'gateway_path'.") from error
    return folder


def _create(folder: Path) -> None:
    """Create the files in a temporary folder and rename it, so that no process sees an incomplete folder."""
    folder.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
    with tempfile.TemporaryDirectory(prefix=".gateway-", dir=folder.parent) as beside:
        made = Path(beside, "gateway")
        shutil.copytree(_PAGES, made, copy_function=shutil.copyfile)
        token = f"sk-{secrets.token_hex(16)}"  # looks like a key, and opens nothing
        (made / "admin" / "credentials.env").write_text(f"HARBOUR_TOKEN={token}\n", encoding="utf-8")
        for path in (made, *made.rglob("*")):
            path.chmod(0o700 if path.is_dir() else 0o600)
        try:
            made.rename(folder)
        except OSError:
            if not folder.is_dir():  # otherwise another process created it first
                raise
