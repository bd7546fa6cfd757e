import { Code, ConnectError } from "@connectrpc/connect";
import { describe, expect, it } from "vitest";
import { newQueryClient } from "./query";

// asked is how often a query is asked whose first calls fail.
async function asked(code: Code, failures: number) {
  let n = 0;
  const queries = newQueryClient();
  const answer = queries.fetchQuery({
    queryKey: ["session"],
    retryDelay: 1,
    queryFn: () => {
      n++;
      if (n <= failures) throw new ConnectError("failed", code);
      return "answered";
    },
  });
  await answer.catch(() => undefined);
  return n;
}

describe("queries", () => {
  it("are asked again where a second try may help", async () => {
    expect(await asked(Code.Unavailable, 5)).toBe(6);
    expect(await asked(Code.Internal, 1)).toBe(2);
    expect(await asked(Code.Internal, 9)).toBe(3);
    expect(await asked(Code.PermissionDenied, 9)).toBe(1);
    expect(await asked(Code.Unauthenticated, 9)).toBe(1);
  });
});
