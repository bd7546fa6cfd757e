import { create } from "@bufbuild/protobuf";
import { screen, waitFor, within } from "@testing-library/react";
import userEvent from "@testing-library/user-event";
import axe from "axe-core";
import { toast } from "sonner";
import { describe, expect, it, vi } from "vitest";
import { MemoryService, MemorySourceKind, MemoryType } from "@/gen/deckhand/v1/memory_pb";
import { ScopeKind, ScopeSchema } from "@/gen/deckhand/v1/scope_pb";
import { showPage } from "@/test/page";
import { memoryRoutes } from "./route";
import { parseMemorySearch, valueOf } from "./search";

const entry = (id: string, key: string, more: object = {}) => ({
  id,
  key,
  type: MemoryType.FACT,
  scope: create(ScopeSchema, { kind: ScopeKind.USER, id: "user_1" }),
  scopeName: "ann",
  value: { kind: { case: "stringValue" as const, value: `value of ${key}` } },
  source: { kind: MemorySourceKind.PERSON, user: "ann" },
  confirmedBy: "ann",
  version: 3,
  writable: true,
  ...more,
});

const services =
  (calls = vi.fn()): Parameters<typeof showPage>[2] =>
  (r) =>
    r.service(MemoryService, {
      listMemories: (req) => {
        calls("list", req.query, req.types, req.unconfirmed);
        return {
          memories: [
            entry("memory_1", "staging database"),
            entry("memory_2", "login button", {
              source: { kind: MemorySourceKind.AGENT, user: "ann", agentName: "shopper", taskId: "task_1" },
              confirmedBy: "",
              untrusted: true,
            }),
          ],
        };
      },
      setMemory: (req) => (calls("set", req.scope?.kind, req.type, req.key, req.value?.kind, req.expectedVersion), { memory: entry("memory_1", req.key) }),
      deleteMemories: (req) => (calls("delete", req.memoryIds), { memoryIds: req.memoryIds }),
      restoreMemories: (req) => (calls("restore", req.memoryIds, req.version), {}),
      confirmMemories: (req) => (calls("confirm", req.memoryIds, req.versions), {}),
      listMemoryVersions: () => ({
        versions: [
          { version: 3, value: { kind: { case: "stringValue", value: "new" } }, source: { kind: MemorySourceKind.PERSON, user: "ann" } },
          { version: 2, value: { kind: { case: "stringValue", value: "old" } }, source: { kind: MemorySourceKind.PERSON, user: "bob" } },
        ],
      }),
    });

describe("the memory", () => {
  it("teaches what to write down when there is nothing", async () => {
    showPage("/memory", memoryRoutes, (r) => r.service(MemoryService, { listMemories: () => ({}) }));
    expect(await screen.findByText("Nothing is remembered yet")).toBeTruthy();
    expect(screen.getByText(/deckhand memory set instruction/)).toBeTruthy();
  });

  it("shows where entries are from, and deletes many with a way back", async () => {
    const calls = vi.fn();
    const said = vi.spyOn(toast, "success");
    const { container } = showPage("/memory", memoryRoutes, services(calls));
    const user = userEvent.setup();
    expect(await screen.findByRole("link", { name: "Agent shopper, for ann" })).toBeTruthy();
    expect(screen.getByText("untrusted: told to no run")).toBeTruthy();
    expect((await axe.run(container)).violations.map((v) => v.id)).toEqual([]);
    await user.click(screen.getByRole("checkbox", { name: "Choose staging database" }));
    await user.click(screen.getByRole("checkbox", { name: "Choose login button" }));
    await user.click(within(screen.getByRole("toolbar")).getByRole("button", { name: "Delete chosen" }));
    await waitFor(() => expect(calls).toHaveBeenCalledWith("delete", ["memory_1", "memory_2"]));
    await waitFor(() => expect(said).toHaveBeenCalledWith("2 entries deleted.", expect.objectContaining({ action: expect.objectContaining({ label: "Undo" }) as unknown })));
    (said.mock.calls[0]![1]!.action as unknown as { onClick: () => void }).onClick();
    await waitFor(() => expect(calls).toHaveBeenCalledWith("restore", ["memory_1", "memory_2"], 0));
    await user.click(screen.getByRole("button", { name: "Confirm login button" }));
    await waitFor(() => expect(calls).toHaveBeenCalledWith("confirm", ["memory_2"], [3]));
    said.mockRestore();
  });

  it("keeps the filter in the address", async () => {
    const calls = vi.fn();
    const { history } = showPage("/memory?by=unconfirmed", memoryRoutes, services(calls));
    const user = userEvent.setup();
    await waitFor(() => expect(calls).toHaveBeenCalledWith("list", "", [], true));
    await user.selectOptions(await screen.findByLabelText("Type"), "fact");
    await waitFor(() => expect(calls).toHaveBeenCalledWith("list", "", [MemoryType.FACT], true));
    expect(history.location.search).toContain("type=fact");
    expect(parseMemorySearch({ type: "x", of: 3, q: "" })).toEqual({});
  });

  it("saves a correction over the version that was shown, and restores an earlier one", async () => {
    const calls = vi.fn();
    showPage("/memory", memoryRoutes, services(calls));
    const user = userEvent.setup();
    await user.click(await screen.findByRole("button", { name: "Edit staging database" }));
    await user.clear(screen.getByLabelText("Value"));
    await user.type(screen.getByLabelText("Value"), "5433");
    await user.click(screen.getByRole("button", { name: "Save" }));
    await waitFor(() => expect(calls).toHaveBeenCalledWith("set", ScopeKind.USER, MemoryType.FACT, "staging database", { case: "numberValue", value: 5433 }, 3));
    await user.click(await screen.findByRole("button", { name: "History of staging database" }));
    await user.click(await screen.findByRole("button", { name: "Restore version 2" }));
    await waitFor(() => expect(calls).toHaveBeenCalledWith("restore", ["memory_1"], 2));
  });

  it("reads text as text, and JSON as JSON", () => {
    expect(valueOf("plain words")).toBe("plain words");
    expect(valueOf("[1, 2]")).toEqual([1, 2]);
    expect(valueOf("{not json")).toBe("{not json");
    expect(valueOf("true")).toBe(true);
  });
});
