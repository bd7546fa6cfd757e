import { defineConfig } from "vitest/config";

export default defineConfig({
  test: {
    environment: "node",
    pool: "threads",
    isolate: false,
    include: ["src/**/*.test.ts"],
    // As long as a slow machine may take: nothing here is about time.
    testTimeout: 60_000,
    retry: process.env.CI ? 1 : 0, // which is told
  },
});
