import { describe, expect, it, vi } from "vitest";
import { proven } from "./prove";
import { whatIsMissing } from "./Passkeys";

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
