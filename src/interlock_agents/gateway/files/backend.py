"""The file backend of DeepAgents on a scope."""

from __future__ import annotations

import base64
import io
from datetime import datetime
from pathlib import PurePosixPath

from deepagents.backends.protocol import (
    FILE_NOT_FOUND,
    INVALID_PATH,
    IS_DIRECTORY,
    BackendProtocol,
    DeleteResult,
    EditResult,
    FileData,
    FileDownloadResponse,
    FileInfo,
    FileUploadResponse,
    GlobResult,
    GrepMatch,
    GrepResult,
    LsResult,
    ReadResult,
    WriteResult,
)
from deepagents.backends.utils import check_empty_content, perform_string_replacement, slice_read_response

from interlock.errors import InputEncoding, InputTooLarge, InterlockError
from interlock_agents.gateway.files.paths import shown
from interlock_agents.gateway.files.scope import Entry, Scope
from interlock_agents.gateway.files.search import find_files, find_lines

__all__ = ["BINARY_SUFFIXES", "ScopedBackend"]

BINARY_SUFFIXES = frozenset(
    f".{suffix}"
    for suffix in (
        *("png", "jpeg", "jpg", "webp", "gif", "heic", "heif"),
        *("mp4", "mpeg", "mov", "avi", "flv", "mpg", "webm", "wmv", "3gpp", "mkv"),
        *("wav", "mp3", "aiff", "aac", "ogg", "flac"),
        *("pdf", "ppt", "pptx"),
    )
)
_CODES = {"missing": FILE_NOT_FOUND, "folder": IS_DIRECTORY, "file": INVALID_PATH}
_FAILURES = (InterlockError, OSError, ValueError, TypeError, AttributeError, RecursionError, MemoryError)


class ScopedBackend(BackendProtocol):
    """Does what `FilesystemBackend(virtual_mode=True)` does, confined to a scope.

    Every refusal is the `error` of a result and begins with a stable error code, so that the worker can react to it.
    Commands cannot be executed.
    """

    def __init__(self, scope: Scope) -> None:
        self._scope = scope

    def ls(self, path: str) -> LsResult:
        """List a folder."""
        try:
            infos = [_info(entry) for entry in self._scope.entries(path)]
            return LsResult(entries=sorted(infos, key=lambda info: info["path"]))
        except _FAILURES as error:
            return LsResult(error=_message(error, path, missing="Path {}: path_not_found", file="Path {}: not_a_directory"))

    def read(self, file_path: str, offset: int = 0, limit: int = 2000) -> ReadResult:
        """Read some lines of a text file, or a whole binary file."""
        try:
            data = self._scope.read(file_path)
            if PurePosixPath(file_path).suffix.lower() in BINARY_SUFFIXES:
                return ReadResult(file_data=FileData(content=base64.standard_b64encode(data).decode("ascii"), encoding="base64"))
            text = _text(data, file_path)
            if empty := check_empty_content(text):
                return ReadResult(file_data=FileData(content=empty, encoding="utf-8"))
            return slice_read_response(FileData(content=text, encoding="utf-8"), offset, limit)
        except _FAILURES as error:
            return ReadResult(error=_message(error, file_path, missing="File {} not found", folder="File {} not found"))

    def write(self, file_path: str, content: str) -> WriteResult:
        """Create or replace a file."""
        try:
            self._scope.write(file_path, _bytes(content, file_path))
            return WriteResult(path=file_path)
        except _FAILURES as error:
            return WriteResult(error=_message(error, file_path))

    def edit(
        self,
        file_path: str,
        old_string: str,
        new_string: str,
        replace_all: bool = False,  # noqa: FBT001, FBT002 - deepagents' signature
    ) -> EditResult:
        """Replace a text in a file."""
        missing = "Error: File {} not found"
        try:
            text = _text(self._scope.read(file_path), file_path)
            old, new = _one_kind_of_newline(old_string), _one_kind_of_newline(new_string)
            # Check before replacing: a megabyte of letters, each replaced by a megabyte, would not fit into memory.
            if old and replace_all and len(text) + text.count(old) * (len(new) - len(old)) > self._scope.max_bytes:
                raise InputTooLarge(f"The file {shown(file_path)} would be larger than {self._scope.max_bytes:,} bytes.")
            replaced = perform_string_replacement(text, old, new, replace_all)
            if isinstance(replaced, str):
                return EditResult(error=replaced)
            self._scope.write(file_path, _bytes(replaced[0], file_path))
            return EditResult(path=file_path, occurrences=replaced[1])
        except _FAILURES as error:
            return EditResult(error=_message(error, file_path, missing=missing, folder=missing))

    def delete(self, file_path: str) -> DeleteResult:
        """Delete a file, or a folder with its contents."""
        try:
            self._scope.delete(file_path)
            return DeleteResult(path=file_path)
        except _FAILURES as error:
            return DeleteResult(error=_message(error, file_path, missing="Error: {} not found"))

    def glob(self, pattern: str, path: str | None = None) -> GlobResult:
        """Find files by name."""
        try:
            files = find_files(self._scope, pattern, path or "/")
        except _FAILURES as error:
            return GlobResult(error=_message(error, path or "/"))
        reason = None if files.is_all else "budget"
        return GlobResult(matches=[_info(entry) for entry in files.entries], truncated=not files.is_all, truncation_reason=reason)

    def grep(self, pattern: str, path: str | None = None, glob: str | None = None, *, max_count: int | None = None) -> GrepResult:
        """Find lines that contain a literal text."""
        try:
            lines = find_lines(self._scope, pattern, path or "/", glob or None, max_count)
        except _FAILURES as error:
            return GrepResult(error=_message(error, path or "/"))
        half_read = "".join(f"\n- {file}" for file in lines.half_read)
        return GrepResult(
            error=f"Some files were searched only in part:{half_read}" if half_read else None,
            matches=[GrepMatch(path=line.path, line=line.number, text=line.text) for line in lines.lines],
            truncated=not lines.is_all,
        )

    def upload_files(self, files: list[tuple[str, bytes]]) -> list[FileUploadResponse]:
        """Write several files. Each has its own result."""
        return [self._upload(path, content) for path, content in files]

    def download_files(self, paths: list[str]) -> list[FileDownloadResponse]:
        """Read several files as bytes. Each has its own result."""
        return [self._download(path) for path in paths]

    def _upload(self, path: str, content: bytes) -> FileUploadResponse:
        try:
            self._scope.write(path, content)
            return FileUploadResponse(path=path)
        except _FAILURES as error:
            return FileUploadResponse(path=path, error=_message(error, path, **_CODES))

    def _download(self, path: str) -> FileDownloadResponse:
        try:
            return FileDownloadResponse(path=path, content=self._scope.read(path))
        except _FAILURES as error:
            return FileDownloadResponse(path=path, error=_message(error, path, **_CODES))


def _message(error: BaseException, path: str, *, missing: str | None = None, folder: str | None = None, file: str | None = None) -> str:
    """Return the message for a failure, so that the worker can continue.

    `missing`, `folder` and `file` are messages for a path that does not exist, is a folder, or leads through a file; `{}` is the path.
    """
    if isinstance(error, InterlockError):
        return f"{error.code}: {error}"
    wordings: dict[type[BaseException], str | None] = {
        FileNotFoundError: missing,
        IsADirectoryError: folder,
        NotADirectoryError: file or missing,
    }
    wording = wordings.get(type(error))
    if wording is not None:
        return wording.format(shown(path))
    if isinstance(error, OSError) and error.strerror:
        return f"tool_failed: {error.strerror}"
    return f"tool_input_invalid: What is asked of {shown(str(path))} cannot be done."


def _info(entry: Entry) -> FileInfo:
    modified = datetime.fromtimestamp(entry.modified).isoformat()  # noqa: DTZ006 - as deepagents' own backend tells it
    return FileInfo(path=f"{entry.path}/" if entry.is_folder else entry.path, is_dir=entry.is_folder, size=entry.size, modified_at=modified)


def _text(data: bytes, path: str) -> str:
    try:
        return io.TextIOWrapper(io.BytesIO(data), encoding="utf-8").read()
    except UnicodeDecodeError:
        raise InputEncoding(f"The file {shown(path)} is no text in UTF-8.") from None


def _bytes(text: str, path: str) -> bytes:
    try:
        return text.encode()
    except UnicodeEncodeError:
        raise InputEncoding(f"The text for {shown(path)} is not valid text.") from None


def _one_kind_of_newline(text: str) -> str:
    return text.replace("\r\n", "\n").replace("\r", "\n")
