import { create } from "@bufbuild/protobuf";
import { describe, expect, it } from "vitest";
import { DestinationSchema } from "@/gen/deckhand/v1/destination_pb";
import { draftOf, problemsOf, specOf } from "./draft";

describe("the form of a destination", () => {
  it("returns what there is", () => {
    const email = { host: "mail.example.com", port: 465, security: "tls", username: "deck", from: "a@example.com", to: ["b@example.com", "c@example.com"] };
    const d = create(DestinationSchema, { name: "mail", kind: "email", spec: { events: ["failures", "task.*"], agents: ["coder"], to: { case: "email", value: email } } });
    const draft = draftOf(d);
    expect(problemsOf(draft)).toEqual({});
    expect(specOf(draft)).toEqual(d.spec);
  });
  it("says what the hub would not take", () => {
    expect(problemsOf({ ...draftOf(undefined), name: "Not So", url: "hooks" })).toEqual({
      name: "Use lower-case letters, digits and dashes.",
      url: "Enter a complete URL, such as https://hooks.example.com/deckhand.",
    });
    expect(Object.keys(problemsOf({ ...draftOf(undefined), name: "mail", kind: "email", port: "99999" }))).toEqual(["host", "port", "from", "to"]);
    expect(problemsOf({ ...draftOf(undefined), name: "bus", kind: "nats" })).toEqual({});
  });
});
