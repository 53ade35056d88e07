"""The workflow of a session: it runs the session's turns one after the other, each as an activity.

Only ids and statuses are in its history; what a turn says and does is in the turn store. It ends when no turn is open, and a later
turn starts it again. This module imports nothing of Interlock: the workflow stays the same when agents change.
"""

from datetime import timedelta
from typing import Any

from temporalio import workflow
from temporalio.common import RetryPolicy
from temporalio.exceptions import ActivityError

__all__ = ["SILENCE", "SessionWorkflow"]

SILENCE = timedelta(seconds=3)
"""How long a worker may be silent before its turn is given to another one."""

_OPTIONS: dict[str, Any] = {
    "heartbeat_timeout": SILENCE,
    # Of one attempt. The deadline of a turn is kept by the worker that runs it.
    "start_to_close_timeout": timedelta(days=1),
    "retry_policy": RetryPolicy(initial_interval=timedelta(seconds=0.2), maximum_interval=timedelta(seconds=5)),
    "cancellation_type": workflow.ActivityCancellationType.WAIT_CANCELLATION_COMPLETED,
}


@workflow.defn(name="session", sandboxed=False)
class SessionWorkflow:
    """Runs turns in the order of their signals. Each is given by its id and the task queue of the workers that have its graph."""

    @workflow.init
    def __init__(self, turns: dict[str, str]) -> None:
        self._turns = turns
        self._waiting: dict[str, str] = {}
        self._signals = 0
        self._running: tuple[str, workflow.ActivityHandle[Any]] | None = None

    @workflow.run
    async def run(self, turns: dict[str, str]) -> str:  # noqa: ARG002 - those of `__init__`
        """Run turns until none is open; return the status of the last one."""
        status = ""
        while self._turns or self._waiting:
            await workflow.wait_condition(lambda: bool(self._turns))
            if workflow.info().is_continue_as_new_suggested():
                workflow.continue_as_new(self._turns | self._waiting)
            turn, signals = next(iter(self._turns)), self._signals
            queue = self._turns.pop(turn)
            workflow.upsert_memo({"turn": turn, "status": "running"})
            activity = workflow.start_activity("run_turn", turn, result_type=str, task_queue=queue, summary=turn, **_OPTIONS)
            self._running = (turn, activity)
            try:
                status = await activity
            except ActivityError as error:
                # The code of the error with which a worker refused it.
                status = str(getattr(error.cause, "type", "cancelled"))
            workflow.upsert_memo({"status": status})
            if status == "waiting":
                # A signal since then may have changed the turn, so it is looked at again.
                (self._waiting if signals == self._signals else self._turns)[turn] = queue
        return status

    @workflow.signal
    def submit(self, turn: str, queue: str) -> None:
        """Run a turn after those before it. Turns that wait are looked at again: the new one may have cancelled them."""
        self._turns |= {turn: queue, **self._waiting}
        self._waiting = {}
        self._signals += 1

    @workflow.signal
    def answer(self, turn: str, queue: str) -> None:
        """Resume a turn whose answer is in the turn store."""
        self.submit(turn, queue)

    @workflow.signal
    def cancel(self, turn: str, queue: str) -> None:
        """End a turn that is to end by the turn store. It is looked at again, for it may be between two workers."""
        if self._running is not None and self._running[0] == turn:
            self._running[1].cancel()
        self.submit(turn, queue)
