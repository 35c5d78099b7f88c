// known.mjs -- which checks of the suite do not pass, and why. Whatever else fails is a fault.

/** For both revisions: a scenario, or a scenario and its check. */
export const KNOWN = {
  "the gateway has agents as tools, and neither prompts, resources, completion, logging nor sampling": [
    "caching/sep-2549-prompts-list-caching-hints",
    "caching/sep-2549-resources-list-caching-hints",
    "caching/sep-2549-resources-templates-list-caching-hints",
    "completion-complete",
    "input-required-result-basic-list-roots",
    "input-required-result-basic-sampling",
    "input-required-result-capability-check",
    "input-required-result-multiple-input-requests",
    "input-required-result-non-tool-request",
    "logging-set-level",
    "prompts-get-embedded-resource",
    "prompts-get-simple",
    "prompts-get-with-args",
    "prompts-get-with-image",
    "prompts-list",
    "resources-list",
    "resources-read-binary",
    "resources-read-text",
    "resources-subscribe",
    "resources-templates-read",
    "resources-unsubscribe",
    "server-stateless/sep-2575-server-no-log-without-loglevel",
    "tools-call-sampling",
    "tools-call-with-logging",
  ],
  "an answer is text, and an object of the agent's": [
    "tools-call-audio",
    "tools-call-embedded-resource",
    "tools-call-image",
    "tools-call-mixed-content",
  ],
  "a tool has one argument, message, and no schema of its own": [
    "http-custom-header-server-validation",
    "json-schema-2020-12",
  ],
  "a question is a text or a yes, with a key of ours": [
    "elicitation-sep1034-defaults",
    "elicitation-sep1330-enums",
    "input-required-result-basic-elicitation",
  ],
  "a client that takes no questions leaves them to others": [
    "server-stateless/sep-2575-missing-capability-http-400",
    "server-stateless/sep-2575-server-rejects-undeclared-capability",
  ],
  "each call is a task where the client takes tasks, and none needs to be": [
    "tasks-dispatch-and-envelope/sep-2663-legacy-task-param-ignored",
    "tasks-dispatch-and-envelope/tasks-result-type-complete-on-non-task-responses",
    "tasks-lifecycle/tasks-sync-tool-call",
    "tasks-mrtr-composition",
    "tasks-request-headers/tasks-headers-tolerate-mcp-method-on-tools-call",
    "tasks-required-task-error",
  ],
  "a task that fails is a result that is an error": ["tasks-lifecycle/sep-2663-tasks-get-status-failed"],
};
