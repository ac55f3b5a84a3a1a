"""Conductor's Python client, as it is released, at a server that it takes for Conductor's.

CONDUCTOR_SERVER_URL names the server (with /api). Prints one line per scene and ends with status 1 at the first thing
that is not as the client's users expect it. Needs conductor-python 2.0.0 and nothing else.
"""

import asyncio
import os
import sys
import time
import traceback
from typing import Union

from conductor.client.automator.task_handler import TaskHandler
from conductor.client.configuration.configuration import Configuration
from conductor.client.context.task_context import TaskInProgress, get_task_context
from conductor.client.exceptions.api_error import APIError
from conductor.client.http.api.task_resource_api import TaskResourceApi
from conductor.client.http.models import SaveScheduleRequest, StartWorkflowRequest, TaskDef, TaskResult, WorkflowDef
from conductor.client.http.models.signal_response import TaskStatus
from conductor.client.http.models.task_result_status import TaskResultStatus
from conductor.client.http.models.workflow_task import WorkflowTask
from conductor.client.http.rest import ApiException
from conductor.client.orkes_clients import OrkesClients
from conductor.client.worker.worker_task import worker_task
from conductor.client.workflow.conductor_workflow import ConductorWorkflow
from conductor.client.workflow.task.do_while_task import LoopTask
from conductor.client.workflow.task.simple_task import SimpleTask
from conductor.client.workflow.task.wait_task import WaitTask

PATIENCE_SECONDS = 30
OWNER = "ann@example.com"


# Workers. They run in processes of their own, so what they know comes back as output.


@worker_task(task_definition_name="py_greet", thread_count=2)
def greet(name: str) -> dict:
    context = get_task_context()
    context.add_log(f"greeting {name}")
    return {"greeting": f"hello {name}", "attempt": context.get_retry_count()}


@worker_task(task_definition_name="py_greet_async", thread_count=2)
async def greet_async(name: str) -> dict:
    await asyncio.sleep(0.01)
    return {"greeting": f"hello {name} from a coroutine"}


# Works for longer than a silent worker may, and says that it lives.
@worker_task(task_definition_name="py_long", lease_extend_enabled=True)
def long_work() -> dict:
    time.sleep(10)
    return {"attempt": get_task_context().get_retry_count()}


@worker_task(task_definition_name="py_pages")
def pages() -> Union[dict, TaskInProgress]:
    polls = get_task_context().get_poll_count()
    if polls < 3:
        return TaskInProgress(callback_after_seconds=1, output={"page": polls})
    return {"pages": polls}


@worker_task(task_definition_name="py_flaky")
def flaky() -> dict:
    attempt = get_task_context().get_retry_count()
    if attempt < 1:
        raise RuntimeError("not the first time")
    return {"attempt": attempt}


class Scenes:
    def __init__(self, configuration: Configuration):
        clients = OrkesClients(configuration=configuration)
        self.executor = clients.get_workflow_executor()
        self.workflows = clients.get_workflow_client()
        self.metadata = clients.get_metadata_client()
        self.tasks = clients.get_task_client()
        self.schedules = clients.get_scheduler_client()
        self.secrets = clients.get_secret_client()
        self.raw_tasks = TaskResourceApi(self.tasks.api_client)
        self.define("py_greet")
        self.workflow_of("py_waits", WaitTask(task_ref_name="wait_ref"))

    # What the scenes share.

    def define(self, name: str, **more) -> None:
        fields = {"retry_count": 1, "retry_delay_seconds": 0, "response_timeout_seconds": 30, "owner_email": OWNER}
        self.metadata.register_task_def(TaskDef(name=name, **{**fields, **more}))

    def workflow_of(self, name: str, *tasks, output=None) -> ConductorWorkflow:
        workflow = ConductorWorkflow(executor=self.executor, name=name, version=1).owner_email(OWNER)
        for task in tasks:
            workflow >> task
        if output:
            workflow.output_parameters(output)
        workflow.register(overwrite=True)
        return workflow

    def until(self, workflow_id: str, status: str):
        end = time.time() + PATIENCE_SECONDS
        while time.time() < end:
            found = self.workflows.get_workflow(workflow_id, include_tasks=True)
            if found.status == status:
                return found
            assert found.status in ("RUNNING", "PAUSED"), f"{found.status} instead of {status}: {found}"
            time.sleep(0.05)
        raise AssertionError(f"{workflow_id} does not get {status}: {found}")

    def refused(self, status: int, call, *arguments) -> str:
        try:
            answer = call(*arguments)
        except (ApiException, APIError) as error:
            assert error.status == status, f"{error.status} instead of {status}: {error}"
            return str(error)
        raise AssertionError(f"not refused: {answer}")

    # The scenes, in the order in which they are written.

    def metadata_is_kept(self):
        self.define("py_greet", description="says hello")
        kept = self.metadata.get_task_def("py_greet")
        assert kept.name == "py_greet" and kept.description == "says hello", kept
        assert kept.retry_count == 1 and kept.response_timeout_seconds == 30, kept
        self.metadata.update_task_def(TaskDef(name="py_greet", retry_count=2, retry_delay_seconds=0, owner_email=OWNER))
        assert self.metadata.get_task_def("py_greet").retry_count == 2
        assert "py_greet" in [task.name for task in self.metadata.get_all_task_defs()]
        self.define("py_gone")
        self.metadata.unregister_task_def("py_gone")
        self.refused(404, self.metadata.get_task_def, "py_gone")

        task = WorkflowTask(name="py_greet", task_reference_name="greet_ref", type="SIMPLE",
                            input_parameters={"name": "${workflow.input.name}"})
        definition = WorkflowDef(name="py_kept", version=1, tasks=[task], owner_email=OWNER,
                                 input_parameters=["name"], timeout_seconds=0)
        self.metadata.register_workflow_def(definition, overwrite=True)
        kept = self.metadata.get_workflow_def("py_kept")
        assert kept.version == 1 and kept.tasks[0].task_reference_name == "greet_ref", kept
        self.refused(409, self.metadata.register_workflow_def, definition, False)
        definition.version, definition.description = 2, "the second"
        self.metadata.update_workflow_def(definition, overwrite=True)
        assert self.metadata.get_workflow_def("py_kept").version == 2
        assert self.metadata.get_workflow_def("py_kept", version=1).description is None
        assert {"py_kept"} <= {one.name for one in self.metadata.get_all_workflow_defs()}
        self.metadata.unregister_workflow_def("py_kept", 2)
        assert self.metadata.get_workflow_def("py_kept").version == 1
        self.metadata.unregister_workflow_def("py_kept", 1)
        self.refused(404, self.metadata.get_workflow_def, "py_kept")

    def workers_do_what_the_workflow_says(self):
        self.define("py_greet_async")
        first = greet(task_ref_name="first_ref", name="${workflow.input.name}")
        second = greet_async(task_ref_name="second_ref", name="${workflow.input.name}")
        output = {"one": "${first_ref.output.greeting}", "two": "${second_ref.output.greeting}"}
        workflow = self.workflow_of("py_greetings", first, second, output=output)
        run = workflow.execute({"name": "Ada"}, wait_for_seconds=20)
        assert run.status == "COMPLETED", run
        assert run.output == {"one": "hello Ada", "two": "hello Ada from a coroutine"}, run.output
        ended = self.workflows.get_workflow(run.workflow_id, include_tasks=True)
        assert [task.status for task in ended.tasks] == ["COMPLETED", "COMPLETED"], ended.tasks
        assert all(task.worker_id for task in ended.tasks)
        lines = [line.log for line in self.tasks.get_task_logs(ended.tasks[0].task_id)]
        assert lines == ["greeting Ada"], lines
        # A loop is one task, and each round of what is in it another.
        loop = LoopTask(task_ref_name="loop_ref", iterations=2, tasks=greet(task_ref_name="in_ref", name="Cy"))
        run = self.workflow_of("py_loops", loop).execute({}, wait_for_seconds=20)
        shown = [task.reference_task_name for task in self.workflows.get_workflow(run.workflow_id, True).tasks]
        assert run.status == "COMPLETED" and sorted(shown) == ["in_ref__1", "in_ref__2", "loop_ref"], shown
        # Without a definition that was registered: the request brings its own.
        inline = ConductorWorkflow(executor=self.executor, name="py_inline", version=1).owner_email(OWNER)
        inline >> greet(task_ref_name="g", name="Bob")
        assert inline.execute({}, wait_for_seconds=20).output["greeting"] == "hello Bob"

    def a_key_is_one_workflow(self):
        request = StartWorkflowRequest(name="py_waits", version=1, input={"n": 1})
        request.idempotency_key, request.idempotency_strategy = "order-1", "FAIL"
        first = self.workflows.start_workflow(request)
        message = self.refused(409, self.workflows.start_workflow, request)
        assert "Workflow with the idempotency key order-1 already exists" in message, message
        request.idempotency_strategy = "RETURN_EXISTING"
        assert self.workflows.start_workflow(request) == first
        request.idempotency_strategy = "FAIL_ON_RUNNING"
        self.refused(409, self.workflows.start_workflow, request)
        # This client sends a strategy with every start; without a key it says nothing.
        plain = StartWorkflowRequest(name="py_waits", version=1)
        assert plain.idempotency_key is None
        ids = {self.workflows.start_workflow(plain) for _ in range(3)}
        assert len(ids) == 3 and first not in ids
        assert self.workflows.get_workflow(first).status == "RUNNING"
        self.refused(404, self.workflows.start_workflow, StartWorkflowRequest(name="py_nowhere", version=1))
        self.refused(404, self.workflows.get_workflow, "00000000-0000-0000-0000-000000000000")
        by_name = self.workflows.start_workflow_by_name("py_waits", {"n": 2}, version=1, correlationId="c-1", priority=7)
        shown = self.workflows.get_workflow(by_name)
        assert (shown.correlation_id, shown.priority, shown.input) == ("c-1", 7, {"n": 2}), shown

    def execute_returns_what_was_asked_for(self):
        request = StartWorkflowRequest(name="py_waits", version=1, input={"n": 1})
        run = self.workflows.execute_workflow(request, request_id="r-1", wait_for_seconds=5)
        assert run.status == "RUNNING" and run.request_id == "r-1", run
        assert run.tasks[0].reference_task_name == "wait_ref", run.tasks
        blocked = self.workflows.execute_workflow_with_return_strategy(request, wait_for_seconds=5,
                                                                       return_strategy="BLOCKING_TASK")
        assert blocked.response_type == "BLOCKING_TASK", blocked
        assert blocked.reference_task_name == "wait_ref" and blocked.status == TaskStatus.IN_PROGRESS, blocked
        assert blocked.create_time > 0 and blocked.is_blocking_task(), blocked

    def signals_answer_the_task_that_is_waited_at(self):
        waits = [WaitTask(task_ref_name="first_ref"), WaitTask(task_ref_name="second_ref")]
        self.workflow_of("py_signals", *waits, output={"a": "${first_ref.output.a}", "b": "${second_ref.output.b}"})
        started = StartWorkflowRequest(name="py_signals", version=1)
        workflow_id = self.workflows.start_workflow(started)
        self.until_blocked(workflow_id, "first_ref")
        answer = self.raw_tasks.signal_workflow_task_sync(workflow_id, "COMPLETED", {"a": 1},
                                                          return_strategy="BLOCKING_TASK")
        assert answer.reference_task_name == "second_ref", answer
        self.raw_tasks.signal_workflow_task_async(workflow_id, "COMPLETED", {"b": 2})
        assert self.until(workflow_id, "COMPLETED").output == {"a": 1, "b": 2}
        self.refused(404, self.raw_tasks.signal_workflow_task_sync, workflow_id, "COMPLETED", {})
        # By name, and with the workflow for an answer.
        workflow_id = self.workflows.start_workflow(started)
        self.until_blocked(workflow_id, "first_ref")
        after = self.tasks.update_task_sync(workflow_id, "first_ref", "COMPLETED", {"a": 3})
        assert after.workflow_id == workflow_id, after
        self.until_blocked(workflow_id, "second_ref")
        self.tasks.update_task_by_ref_name(workflow_id, "second_ref", "COMPLETED", {"b": 4})
        self.until(workflow_id, "COMPLETED")

    def until_blocked(self, workflow_id: str, reference: str):
        end = time.time() + PATIENCE_SECONDS
        while time.time() < end:
            tasks = self.workflows.get_workflow(workflow_id, include_tasks=True).tasks
            if any(task.reference_task_name == reference and task.status == "IN_PROGRESS" for task in tasks):
                return
            time.sleep(0.05)
        raise AssertionError(f"{workflow_id} does not wait at {reference}: {tasks}")

    def a_client_without_a_runner_takes_and_answers_tasks(self):
        self.define("py_manual")
        self.workflow_of("py_by_hand", SimpleTask("py_manual", "manual_ref"))
        workflow_id = self.workflows.start_workflow(StartWorkflowRequest(name="py_by_hand", version=1))
        end, task = time.time() + PATIENCE_SECONDS, None
        while task is None and time.time() < end:
            found = self.tasks.batch_poll_tasks("py_manual", worker_id="hand", count=5, timeout_in_millisecond=500)
            task = next(iter(found), None)
        assert task.workflow_instance_id == workflow_id and task.status == "IN_PROGRESS", task
        nothing = self.tasks.poll_task("py_manual", worker_id="other")
        assert nothing is None or nothing.task_id is None, nothing
        assert self.tasks.get_queue_size_for_task("py_manual") == 0
        self.tasks.add_task_log(task.task_id, 'it says "hello"')
        lines = [line.log for line in self.tasks.get_task_logs(task.task_id)]
        assert len(lines) == 1 and "hello" in lines[0], lines
        assert self.tasks.get_task(task.task_id).reference_task_name == "manual_ref"
        polled = self.tasks.get_task_poll_data("py_manual")
        assert [one.queue_name for one in polled] == ["py_manual"], polled
        result = TaskResult(task_id=task.task_id, workflow_instance_id=workflow_id, worker_id="hand",
                            status=TaskResultStatus.COMPLETED, output_data={"done": True})
        assert self.tasks.update_task(result) == task.task_id
        assert self.until(workflow_id, "COMPLETED").output == {"done": True}
        result.status, result.output_data = TaskResultStatus.FAILED, {"done": False}
        assert self.tasks.update_task(result) == task.task_id, "a repeat is answered like the first"
        assert self.workflows.get_workflow(workflow_id).output == {"done": True}, "and changes nothing"

    def slow_and_failing_workers(self):
        self.define("py_long", response_timeout_seconds=8, retry_count=0)
        self.define("py_pages")
        self.define("py_flaky", retry_count=2)
        names = {"py_long": "long_ref", "py_pages": "pages_ref", "py_flaky": "flaky_ref"}
        started = {}
        for task, reference in names.items():
            self.workflow_of(f"{task}_alone", SimpleTask(task, reference))
            started[task] = self.workflows.start_workflow(StartWorkflowRequest(name=f"{task}_alone", version=1))
        ended = {task: self.until(workflow_id, "COMPLETED") for task, workflow_id in started.items()}
        assert ended["py_long"].output == {"attempt": 0} and len(ended["py_long"].tasks) == 1, ended["py_long"]
        assert ended["py_pages"].output["pages"] == 3 and len(ended["py_pages"].tasks) == 1, ended["py_pages"]
        statuses = [task.status for task in ended["py_flaky"].tasks]
        assert statuses == ["FAILED", "COMPLETED"], statuses
        assert "not the first time" in ended["py_flaky"].tasks[0].reason_for_incompletion

    def workflows_are_controlled_and_found(self):
        request = StartWorkflowRequest(name="py_waits", version=1, correlation_id="found")
        request.idempotency_key = "to be found"
        workflow_id = self.workflows.start_workflow(request)
        self.workflows.pause_workflow(workflow_id)
        assert self.workflows.get_workflow_status(workflow_id).status == "PAUSED"
        self.workflows.resume_workflow(workflow_id)
        assert self.workflows.get_workflow_status(workflow_id).status == "RUNNING"
        found = self.workflows.search(query=f"workflowId = '{workflow_id}'")
        assert len(found.results) == 1 and found.results[0].workflow_id == workflow_id, found
        assert found.results[0].workflow_type == "py_waits", found
        # By its key, as the guide says; there are spaces in it.
        found = self.workflows.search(query="idempotencyKey IN ('to be found') AND status IN (RUNNING,PAUSED)")
        assert [one.workflow_id for one in found.results] == [workflow_id], found
        related = self.workflows.get_by_correlation_ids("py_waits", ["found", "nothing"], include_completed=True)
        assert [one.workflow_id for one in related["found"]] == [workflow_id] and not related.get("nothing"), related
        self.workflows.terminate_workflow(workflow_id, reason="enough")
        ended = self.workflows.get_workflow(workflow_id)
        assert ended.status == "TERMINATED" and ended.reason_for_incompletion == "enough", ended
        self.workflows.restart_workflow(workflow_id)
        assert self.until(workflow_id, "RUNNING").workflow_id == workflow_id
        self.workflows.terminate_workflow(workflow_id)
        self.refused(409, self.workflows.start_workflow, request)
        self.workflows.delete_workflow(workflow_id)
        self.refused(404, self.workflows.get_workflow, workflow_id)
        assert self.workflows.start_workflow(request) != workflow_id, "its key is free again"

    def schedules_are_kept(self):
        started = StartWorkflowRequest(name="py_waits", version=1, input={"by": "schedule"})
        started.idempotency_key, started.idempotency_strategy = "nightly", "FAIL_ON_RUNNING"
        request = SaveScheduleRequest(name="py_nightly", cron_expression="0 0 3 * * ?", zone_id="UTC",
                                      start_workflow_request=started)
        self.schedules.save_schedule(request)
        kept = self.schedules.get_schedule("py_nightly")
        assert (kept.name, kept.cron_expression) == ("py_nightly", "0 0 3 * * ?"), kept
        assert kept.start_workflow_request.name == "py_waits" and not kept.paused, kept
        assert kept.start_workflow_request.idempotency_key == "nightly", kept
        assert [one.name for one in self.schedules.get_all_schedules("py_waits")] == ["py_nightly"]
        times = self.schedules.get_next_few_schedule_execution_times("0 0 3 * * ?", limit=3)
        assert len(times) == 3 and [b - a for a, b in zip(times, times[1:])] == [86_400_000] * 2, times
        self.schedules.pause_schedule("py_nightly")
        assert self.schedules.get_schedule("py_nightly").paused
        self.schedules.resume_schedule("py_nightly")
        assert not self.schedules.get_schedule("py_nightly").paused
        self.schedules.delete_schedule("py_nightly")
        assert "not found" in self.refused(404, self.schedules.get_schedule, "py_nightly")

    def secrets_are_kept_and_used(self):
        self.secrets.put_secret("PY_SECRET", "a secret of the test")
        assert self.secrets.secret_exists("PY_SECRET")
        assert "PY_SECRET" in self.secrets.list_all_secret_names()
        self.workflow_of("py_secretive", greet(task_ref_name="g", name="${workflow.secrets.PY_SECRET}"))
        run = self.workflows.execute_workflow(StartWorkflowRequest(name="py_secretive", version=1), wait_for_seconds=20)
        assert run.output["greeting"] == "hello a secret of the test", run.output
        ended = self.workflows.get_workflow(run.workflow_id, include_tasks=True)
        assert "a secret of the test" not in str(ended.tasks[0].input_data), ended.tasks[0].input_data
        self.secrets.delete_secret("PY_SECRET")
        assert not self.secrets.secret_exists("PY_SECRET")


SCENES = [
    Scenes.metadata_is_kept,
    Scenes.a_key_is_one_workflow,
    Scenes.execute_returns_what_was_asked_for,
    Scenes.signals_answer_the_task_that_is_waited_at,
    Scenes.a_client_without_a_runner_takes_and_answers_tasks,
    Scenes.workers_do_what_the_workflow_says,
    Scenes.slow_and_failing_workers,
    Scenes.workflows_are_controlled_and_found,
    Scenes.schedules_are_kept,
    Scenes.secrets_are_kept_and_used,
]


def main() -> int:
    configuration = Configuration(server_api_url=os.environ["CONDUCTOR_SERVER_URL"])
    scenes = Scenes(configuration)
    workers = TaskHandler(workers=[], configuration=configuration, scan_for_annotated_workers=True)
    workers.start_processes()
    wanted, failed = sys.argv[1:], 0
    try:
        for scene in SCENES:
            if wanted and scene.__name__ not in wanted:
                continue
            began = time.time()
            try:
                scene(scenes)
            except Exception:  # Every scene is told of, not only the first that fails.
                failed += 1
                print(f"FAILED {scene.__name__}\n{traceback.format_exc()}", flush=True)
                continue
            print(f"passed {scene.__name__} in {time.time() - began:.1f} s", flush=True)
    finally:
        workers.stop_processes()
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
