// suite.test.mjs -- the suite itself, as vitest runs it: run.mjs starts what it needs.

import { runConformanceTests } from "@durable-streams/server-conformance-tests";

runConformanceTests({ baseUrl: process.env.STREAMS_URL, longPollTimeoutMs: 25000 });
