import { defineConfig } from "vitest/config";

// The stories are told to a real `deckhand up`, one after another, by
// integration/console_test.go, which says in the environment where it is.
export default defineConfig({
  test: {
    include: ["e2e/*.e2e.ts"],
    environment: "node",
    fileParallelism: false,
    testTimeout: 240_000,
    hookTimeout: 120_000,
    // One that failed leaves the next nothing to stand on.
    bail: 1,
  },
});
