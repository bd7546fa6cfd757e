import { defineConfig } from "vitest/config";

// Each file of stories runs against a `deckhand up` of its own, one story after
// another: integration/console starts it and sets in the environment where it is.
export default defineConfig({
  test: {
    include: ["e2e/*.e2e.ts"],
    environment: "node",
    fileParallelism: false,
    // A story may look at every page: it gets longer on a slow or busy machine.
    testTimeout: 480_000 * Math.max(1, Number(process.env.DECKHAND_TEST_WAIT_FACTOR) || 1),
    hookTimeout: 120_000,
    // One that failed leaves the next nothing to stand on.
    bail: 1,
  },
});
