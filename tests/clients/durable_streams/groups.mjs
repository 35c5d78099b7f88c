// groups.mjs -- which groups of the suite are not run, which tests fail, and why. Whatever else fails is a fault.

/** Groups that ask for what the face does not have: our streams are tasks, which an agent writes. */
export const LEFT_OUT = {
  "TTL and Expiry Validation": "a task's life is the operator's affair (retention), not a PUT's",
  "TTL and Expiry Edge Cases": "the same",
  "TTL Expiration Behavior": "the same",
  "Idempotent Producer Operations": "the agent is the only producer",
  "Idempotent Producers with Stream Closure": "the same",
  "Fork - ": "a task has no forks",
};

/** Tests of the other groups that fail, by their full names. */
export const FAILING = {
  "HEAD Metadata Edge Cases should return TTL metadata if configured": "a task has no TTL",
  "Stream Closure Edge Cases close-with-different-body-dedup: Retry close with different body deduplicates to original":
    "it writes as an idempotent producer",
};
