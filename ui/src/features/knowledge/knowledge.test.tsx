import { screen, waitFor } from "@testing-library/react";
import userEvent from "@testing-library/user-event";
import axe from "axe-core";
import { toast } from "sonner";
import { describe, expect, it, vi } from "vitest";
import { KnowledgeService, KnowledgeSourceKind, KnowledgeSyncState } from "@/gen/deckhand/v1/knowledge_pb";
import { ScopeKind } from "@/gen/deckhand/v1/scope_pb";
import { showPage } from "@/test/page";
import { knowledgeRoutes } from "./route";

const handbook = {
  id: "coll_1",
  name: "handbook",
  scope: { kind: ScopeKind.ORGANISATION, id: "org" },
  documents: 3n,
  passages: 12n,
  writable: true,
  sync: { id: "sync_1", state: KnowledgeSyncState.FAILED, error: "no node is connected" },
};
const passage = { id: "7", text: "Everybody has thirty days.", heading: "Leave", citation: "handbook: leave.md:5", collection: "handbook", path: "leave.md" };

const services =
  (calls = vi.fn(), collections = [handbook]): Parameters<typeof showPage>[2] =>
  (r) =>
    r.service(KnowledgeService, {
      listCollections: () => ({ collections }),
      searchKnowledge: (req) => (calls("search", req.query, req.collectionIds), { passages: [{ ...passage, foundBy: ["meaning"] }], collections: 1, note: "one source is not embedded yet" }),
      getPassage: (req) => (calls("passage", req.passageId), { passage, passages: [passage] }),
      syncCollection: (req) => (calls("sync", req.collectionId), {}),
      getCollection: () => ({
        collection: handbook,
        sources: [
          { id: "src_1", kind: KnowledgeSourceKind.UPLOAD, documents: 1n },
          { id: "src_2", kind: KnowledgeSourceKind.GIT, url: "https://git.example.com/docs.git", documents: 1n },
        ],
      }),
      listDocuments: () => ({
        documents: [
          { id: "doc_1", sourceId: "src_1", path: "leave.md", format: "markdown", passages: 2 },
          { id: "doc_2", sourceId: "src_2", path: "guide.md", format: "markdown", passages: 3 },
        ],
      }),
      removeSource: (req) => (calls("removeSource", req.sourceId), {}),
      addSource: (req) => (calls("addSource", req.source?.url), {}),
      removeDocument: (req) => (calls("remove", req.collectionId, req.path), {}),
      deleteCollection: (req) => (calls("delete", req.collectionId), {}),
      createCollection: (req) => (calls("create", req.name, req.scope?.kind), { collection: { id: "coll_2" } }),
      uploadDocument: (req) => (calls("upload", req.collectionId, req.path, new TextDecoder().decode(req.content)), {}),
    });

// The knowledge base: collections, search and citations.
describe("knowledge", () => {
  it("says what to do when there is nothing", async () => {
    showPage("/knowledge", knowledgeRoutes, services(vi.fn(), []));
    expect(await screen.findByText("No documents yet")).toBeTruthy();
    expect(screen.getByText(/knowledge add handbook/)).toBeTruthy();
  });

  it("finds passages, whose places open them", async () => {
    const calls = vi.fn();
    const { container } = showPage("/knowledge", knowledgeRoutes, services(calls));
    const user = userEvent.setup();
    await user.type(await screen.findByLabelText("Question or words"), "days of leave{Enter}");
    await user.click(await screen.findByRole("button", { name: "handbook: leave.md:5" }));
    expect(calls).toHaveBeenCalledWith("search", "days of leave", []);
    expect(screen.getByText("by meaning")).toBeTruthy();
    expect(screen.getByText("one source is not embedded yet")).toBeTruthy();
    await waitFor(() => expect(calls).toHaveBeenCalledWith("passage", "7"));
    expect(await screen.findByRole("dialog", { name: "handbook: leave.md:5" })).toBeTruthy();
    expect((await axe.run(container)).violations.map((v) => v.id)).toEqual([]);
  });

  it("shows why a sync failed, syncs, and deletes after the name is typed", async () => {
    const calls = vi.fn();
    showPage("/knowledge", knowledgeRoutes, services(calls));
    const user = userEvent.setup();
    expect(await screen.findByText("no node is connected")).toBeTruthy();
    await user.click(screen.getByRole("button", { name: "Sync handbook" }));
    await waitFor(() => expect(calls).toHaveBeenCalledWith("sync", "coll_1"));
    await user.click(screen.getByRole("button", { name: "Delete handbook" }));
    const confirm = screen.getByRole("button", { name: "Delete" });
    expect(confirm.hasAttribute("disabled")).toBe(true);
    await user.type(screen.getByLabelText("Type handbook to confirm"), "handbook");
    await user.click(confirm);
    await waitFor(() => expect(calls).toHaveBeenCalledWith("delete", "coll_1"));
  });

  it("deletes one upload, and only uploads", async () => {
    const calls = vi.fn();
    showPage("/knowledge", knowledgeRoutes, services(calls));
    const user = userEvent.setup();
    await user.click(await screen.findByRole("button", { name: "handbook" }));
    await user.click(await screen.findByRole("button", { name: "Delete leave.md" }));
    expect(screen.queryByRole("button", { name: "Delete guide.md" })).toBeNull();
    await user.click(screen.getByRole("button", { name: "Delete" }));
    await waitFor(() => expect(calls).toHaveBeenCalledWith("remove", "coll_1", "leave.md"));
  });

  it("syncs and deletes several collections at once", async () => {
    const calls = vi.fn();
    showPage("/knowledge", knowledgeRoutes, services(calls, [handbook, { ...handbook, id: "coll_2", name: "specs" }]));
    const user = userEvent.setup();
    const choose = async () => {
      await user.click(await screen.findByLabelText("Choose handbook"));
      await user.click(screen.getByLabelText("Choose specs"));
    };
    await choose();
    await user.click(screen.getByRole("button", { name: "Sync chosen" }));
    await waitFor(() => expect(calls).toHaveBeenCalledWith("sync", "coll_2"));
    expect(calls).toHaveBeenCalledWith("sync", "coll_1");
    await waitFor(() => expect(screen.queryByText("2 chosen")).toBeNull());
    await choose();
    await user.click(screen.getByRole("button", { name: "Delete chosen" }));
    await user.type(screen.getByLabelText("Type 2 to confirm"), "2");
    await user.click(screen.getByRole("button", { name: "Delete" }));
    await waitFor(() => expect(calls).toHaveBeenCalledWith("delete", "coll_2"));
    expect(calls).toHaveBeenCalledWith("delete", "coll_1");
  });

  it("removes a source, which can be undone", async () => {
    const calls = vi.fn();
    const said = vi.spyOn(toast, "success");
    showPage("/knowledge", knowledgeRoutes, services(calls));
    const user = userEvent.setup();
    await user.click(await screen.findByRole("button", { name: "handbook" }));
    await user.click(await screen.findByRole("button", { name: "Remove https://git.example.com/docs.git" }));
    await user.click(screen.getByRole("button", { name: "Remove" }));
    await waitFor(() => expect(said).toHaveBeenCalledWith("Source removed.", expect.anything()));
    expect(calls).toHaveBeenCalledWith("removeSource", "src_2");
    const { action } = said.mock.calls.at(-1)![1] as unknown as { action: { onClick: () => void } };
    action.onClick();
    await waitFor(() => expect(calls).toHaveBeenCalledWith("addSource", "https://git.example.com/docs.git"));
  });

  it("creates a collection of uploaded files, and syncs it", async () => {
    const calls = vi.fn();
    showPage("/knowledge", knowledgeRoutes, services(calls));
    const user = userEvent.setup();
    await user.click(await screen.findByRole("button", { name: "Add documents" }));
    await user.type(screen.getByLabelText("Name of the collection"), "notes");
    const file = Object.assign(new File(["# A"], "a.md"), { arrayBuffer: () => Promise.resolve(new TextEncoder().encode("# A").buffer) });
    await user.upload(screen.getByLabelText("Files"), file);
    await user.click(screen.getByRole("button", { name: "Add and sync" }));
    await waitFor(() => expect(calls).toHaveBeenCalledWith("sync", "coll_2"));
    expect(calls).toHaveBeenCalledWith("create", "notes", ScopeKind.USER);
    expect(calls).toHaveBeenCalledWith("upload", "coll_2", "a.md", "# A");
  });
});
