import { defineConfig } from "vitest/config";

export default defineConfig({
  test: {
    include: ["tests/unit/**/*.test.ts"],
    pool: "threads",
    maxWorkers: 1,
    testTimeout: 30_000, // a machine may be busy; no test waits for a time
  },
});
