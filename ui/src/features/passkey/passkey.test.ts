import { describe, expect, it, vi } from "vitest";
import { proven } from "./prove";
import { create } from "@bufbuild/protobuf";
import { timestampFromMs } from "@bufbuild/protobuf/wkt";
import { SessionSchema } from "@/gen/deckhand/v1/session_pb";
import { justSignedIn, whatIsMissing } from "./Passkeys";

describe("what is missing for passkeys", () => {
  const here = location.origin;

  it("is what the hub says", () => {
    expect(whatIsMissing({ passkeys: false, passkeysMissing: "Give --public-url.", publicUrl: "" })).toContain("Give --public-url.");
  });

  it("is another address, where the console was opened by one", () => {
    expect(whatIsMissing({ passkeys: true, passkeysMissing: "", publicUrl: "https://deck.example.com" })).toContain("Open the console at https://deck.example.com");
  });

  it("is nothing where the browser has them too", () => {
    vi.stubGlobal("isSecureContext", true);
    vi.stubGlobal("PublicKeyCredential", function () {});
    expect(whatIsMissing({ passkeys: true, passkeysMissing: "", publicUrl: here })).toBeUndefined();
    vi.unstubAllGlobals();
  });
});

describe("a sign-in", () => {
  const at = (ms?: number) => create(SessionSchema, ms === undefined ? {} : { signedInAt: timestampFromMs(ms) });

  it("lasts for ten minutes, and a session of a token has none", () => {
    const now = 1_800_000_000_000;
    expect(justSignedIn(at(now - 9 * 60_000), now)).toBe(true);
    expect(justSignedIn(at(now - 11 * 60_000), now)).toBe(false);
    expect(justSignedIn(at(), now)).toBe(false);
  });
});

describe("the proof of an answer", () => {
  it("is not asked for where none is needed", async () => {
    const approve = { itemId: "inbox_1", answer: { case: "approve" as const, value: {} } };
    expect(await proven(approve, false)).toBe(approve);
    const reject = { itemId: "inbox_1", answer: { case: "reject" as const, value: {} } };
    expect(await proven(reject, true)).toBe(reject);
  });

  it("is missing where this page cannot use a passkey, and nothing is approved", async () => {
    await expect(proven({ itemId: "inbox_1", answer: { case: "approve", value: {} } }, true)).rejects.toThrow("HTTPS");
    await expect(proven({ itemId: "inbox_1", answer: { case: "accept", value: {} } }, true)).rejects.toThrow("HTTPS");
  });
});
