import { create } from "@bufbuild/protobuf";
import { describe, expect, it } from "vitest";
import { CredentialSettingsSchema } from "@/gen/deckhand/v1/credential_pb";
import { emptyDraft, problemsOf, requestOf, valueOf } from "./draft";

describe("the form of a credential", () => {
  it("asks for what its kind has, and for nothing of another kind", () => {
    const draft = {
      ...emptyDraft,
      kind: "github_app" as const,
      name: "github",
      agents: "coder, writer",
      appId: "1234",
      repositories: "acme/web acme/docs",
      permissions: "contents=write, pull_requests=read",
      tokenUrl: "https://left.over.example",
      ports: "8443",
    };
    expect(problemsOf(draft)).toEqual({});
    const request = requestOf(draft, valueOf({ privateKey: "pem" }));
    expect(request.settings).toEqual(
      create(CredentialSettingsSchema, { appId: "1234", repositories: ["acme/web", "acme/docs"], permissions: { contents: "write", pull_requests: "read" } }),
    );
    expect(request.agents).toEqual(["coder", "writer"]);
    expect(request.ports).toEqual([8443]);
    expect(request.value?.privateKey).toBe("pem");
  });
  it("says what the hub would not take", () => {
    expect(Object.keys(problemsOf({ ...emptyDraft, name: "Not So", ports: "0", paths: "v1" }))).toEqual(["name", "hosts", "ports", "paths"]);
    expect(Object.keys(problemsOf({ ...emptyDraft, name: "a", kind: "github_app", permissions: "contents", installationId: "x" }))).toEqual([
      "appId",
      "repositories",
      "permissions",
      "installationId",
    ]);
    expect(problemsOf({ ...emptyDraft, name: "a", kind: "oauth2_client", hosts: "a.example", clientId: "c", tokenUrl: "http://a.example" })).toEqual({
      tokenUrl: "Enter an https URL.",
    });
  });
});
