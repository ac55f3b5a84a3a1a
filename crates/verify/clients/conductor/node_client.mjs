// Conductor's JavaScript client, as it is released, at a server that it takes for Conductor's.
//
// SEMEL_SERVER_URL names the server (the client has a variable of its own, which would win over what it is told),
// SEMEL_LINE_URL the same one behind a line that loses the answers of the first starts, SEMEL_NODE_CLIENTS the directory
// with the client's packages. Ends with status 1 at the first thing that is not as the client's users expect it.

import assert from "node:assert/strict";
import { createRequire } from "node:module";
import path from "node:path";

const packages = createRequire(path.join(path.resolve(process.env.SEMEL_NODE_CLIENTS), "package.json"));
const { MetadataClient, TaskManager, WorkflowExecutor, orkesConductorClient } = packages("@io-orkes/conductor-javascript");

const PATIENCE_MS = 30_000;
const OWNER = "ann@example.com";

async function connected(serverUrl) {
  const client = await orkesConductorClient({ serverUrl });
  return { client, executor: new WorkflowExecutor(client), metadata: new MetadataClient(client) };
}

async function until(executor, id, status) {
  const end = Date.now() + PATIENCE_MS;
  let found;
  while (Date.now() < end) {
    found = await executor.getWorkflow(id, true);
    if (found.status === status) return found;
    await new Promise((resolve) => setTimeout(resolve, 50));
  }
  assert.fail(`${id} does not get ${status}: ${JSON.stringify(found)}`);
}

async function refused(message, call) {
  try {
    await call();
  } catch (error) {
    assert.match(`${error.message}`, message);
    return;
  }
  assert.fail("not refused");
}

const simple = (name, taskReferenceName) => ({
  name,
  taskReferenceName,
  type: "SIMPLE",
  inputParameters: { name: "${workflow.input.name}" },
});

async function register({ metadata, executor }) {
  await metadata.registerTask({
    name: "js_greet",
    retryCount: 2,
    retryDelaySeconds: 0,
    responseTimeoutSeconds: 30,
    timeoutSeconds: 0,
    ownerEmail: OWNER,
  });
  assert.equal((await metadata.getTask("js_greet")).retryCount, 2);
  const definition = (name, tasks, outputParameters) => ({
    name,
    version: 1,
    schemaVersion: 2,
    ownerEmail: OWNER,
    timeoutSeconds: 0,
    inputParameters: ["name"],
    tasks,
    outputParameters,
  });
  const greets = [simple("js_greet", "first_ref"), simple("js_greet", "second_ref")];
  await executor.registerWorkflow(true, definition("js_greetings", greets, { said: "${second_ref.output.said}" }));
  await executor.registerWorkflow(true, definition("js_waits", [{ name: "wait", taskReferenceName: "wait_ref", type: "WAIT" }], {}));
}

async function workersDoWhatTheWorkflowSays({ client, executor }) {
  let failed = false;
  const worker = {
    taskDefName: "js_greet",
    pollInterval: 100,
    concurrency: 2,
    execute: async (task) => {
      // The first attempt of the first task fails, once.
      if (task.referenceTaskName === "first_ref" && !failed) {
        failed = true;
        return { status: "FAILED", reasonForIncompletion: "not the first time", outputData: {} };
      }
      assert.ok(task.idempotencyKey, "a key for the effects of the task");
      return { status: "COMPLETED", outputData: { said: `hello ${task.inputData.name}`, attempt: task.retryCount } };
    },
  };
  const manager = new TaskManager(client, [worker], { options: { pollInterval: 100, concurrency: 2 } });
  manager.startPolling();
  try {
    const id = await executor.startWorkflow({ name: "js_greetings", version: 1, input: { name: "Ada" }, correlationId: "c-1" });
    assert.match(id, /^[0-9a-f-]{36}$/);
    const ended = await until(executor, id, "COMPLETED");
    assert.deepEqual(ended.output, { said: "hello Ada" });
    assert.deepEqual(
      ended.tasks.map((task) => [task.referenceTaskName, task.status, task.retryCount]),
      [["first_ref", "FAILED", 0], ["first_ref", "COMPLETED", 1], ["second_ref", "COMPLETED", 0]],
    );
    assert.equal(ended.correlationId, "c-1");
    const run = await executor.executeWorkflow({ name: "js_greetings", version: 1, input: { name: "Bob" } }, "js_greetings", 1, "r-1");
    assert.equal(run.status, "COMPLETED");
    assert.deepEqual(run.output, { said: "hello Bob" });
  } finally {
    await manager.stopPolling();
  }
}

async function aKeyIsOneWorkflow({ executor }) {
  const request = { name: "js_waits", version: 1, input: {}, idempotencyKey: "order-1", idempotencyStrategy: "FAIL" };
  const first = await executor.startWorkflow(request);
  await refused(/Workflow with the idempotency key order-1 already exists/, () => executor.startWorkflow(request));
  assert.equal(await executor.startWorkflow({ ...request, idempotencyStrategy: "RETURN_EXISTING" }), first);
  const shown = await executor.getWorkflow(first, false);
  assert.equal(shown.idempotencyKey, "order-1");
  const blocked = await executor.executeWorkflow(
    { ...request, idempotencyStrategy: "RETURN_EXISTING" }, "js_waits", 1, "r-2", "", 5, "DURABLE", "BLOCKING_TASK");
  assert.equal(blocked.referenceTaskName, "wait_ref");
  assert.equal(blocked.workflowId, first);
  await executor.signal(first, "COMPLETED", { by: "signal" });
  assert.deepEqual((await until(executor, first, "COMPLETED")).output, { by: "signal" });
  await refused(/No such workflow found by name: js_nowhere/, () => executor.startWorkflow({ name: "js_nowhere", version: 1 }));
}

// The client sends a start again whose answer is lost, without being asked and without telling. It is the key that makes
// one workflow of it.
async function aStartThatIsSentFourTimesIsOneWorkflow({ executor }, line) {
  const through = await connected(line);
  const request = { name: "js_waits", version: 1, input: { through: "the line" }, correlationId: "line" };
  const keyed = { ...request, idempotencyKey: "line-1", idempotencyStrategy: "RETURN_EXISTING" };
  const id = await through.executor.startWorkflow(keyed);
  assert.equal((await executor.getWorkflow(id, false)).idempotencyKey, "line-1");
  console.log(`started ${id}`);
}

const near = await connected(process.env.SEMEL_SERVER_URL);
const line = process.env.SEMEL_LINE_URL;
const scenes = [register, workersDoWhatTheWorkflowSays, aKeyIsOneWorkflow];
for (const scene of scenes) {
  await scene(near);
  console.log(`passed ${scene.name}`);
}
await aStartThatIsSentFourTimesIsOneWorkflow(near, line);
console.log(`passed ${aStartThatIsSentFourTimesIsOneWorkflow.name}`);
// Nothing of the client's keeps the process alive once all is said.
process.exit(0);
