// mcp_conformance.test.mjs -- runs the suite for both revisions, and holds the face to the known results.

import assert from "node:assert/strict";
import { test } from "node:test";
import { KNOWN } from "./known.mjs";
import { checksOf } from "./run.mjs";

const LEAST = { "2025-11-25": 44, "2026-07-28": 135 };
const known = new Set(Object.values(KNOWN).flat());

for (const revision of Object.keys(LEAST))
  test(`the conformance suite of MCP passes for ${revision}, but for what is known`, async (t) => {
    const checks = await checksOf("--requirements", revision);
    const passed = checks.filter(({ status }) => status === "SUCCESS").length;
    const failed = checks.filter(({ status }) => status === "FAILURE");
    t.diagnostic(`${passed} of ${passed + failed.length} checks`);
    const news = failed.filter(({ scenario, id }) => !known.has(scenario) && !known.has(`${scenario}/${id}`));
    assert.deepEqual(news, []);
    assert.ok(passed >= LEAST[revision], "nothing was left out");
  });
