import { defineConfig } from "vitest/config";

export default defineConfig({
  test: {
    include: ["tests/unit/**/*.test.{ts,tsx}"],
    pool: "threads",
    maxWorkers: 2,
    restoreMocks: true,
    unstubGlobals: true,
  },
});
