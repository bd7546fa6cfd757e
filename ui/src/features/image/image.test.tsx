import { Code, ConnectError } from "@connectrpc/connect";
import { screen, waitFor, within } from "@testing-library/react";
import userEvent from "@testing-library/user-event";
import axe from "axe-core";
import { describe, expect, it, vi } from "vitest";
import { ImageService } from "@/gen/deckhand/v1/image_pb";
import { NodeService } from "@/gen/deckhand/v1/node_pb";
import { showPage } from "@/test/page";
import { linesOf, repositoryOf } from "./reference";
import { imageRoutes } from "./route";

const digest = `sha256:${"ab12".repeat(16)}`;
const reference = `ghcr.io/team/tools@${digest}`;

const services =
  (calls = vi.fn()): Parameters<typeof showPage>[2] =>
  (r) => {
    r.service(NodeService, {
      listNodes: () => ({ nodes: [{ name: "web-1", status: "connected" }, { name: "db-1", status: "connected" }, { name: "old-1", status: "disconnected" }] }),
    });
    r.service(ImageService, {
      listImages: (req) => ({
        images:
          req.nodeId === "db-1"
            ? []
            : [
                { reference, platform: "linux/amd64, Debian GNU/Linux 12", bytes: 3n << 20n, layers: 2, usedAt: { seconds: 1n }, tasks: 5n, taskIds: ["task_0123456789abc", "task_2", "task_3", "task_4"] },
                { reference, platform: "linux/amd64, Debian GNU/Linux 12", bytes: 3n << 20n, layers: 2, setup: digest },
              ],
      }),
      pullImage: async function* (req) {
        calls("pull", req.nodeId, req.reference);
        await Promise.resolve();
        if (req.reference.includes("absent")) throw new ConnectError("image absent does not exist", Code.NotFound);
        yield { phase: "downloading", layers: 2, layersDone: 1, bytes: 2n << 20n, bytesDone: 1n << 20n };
        yield { image: { reference } };
      },
      pruneImages: (req) => (calls("prune", req.nodeId, req.unusedFor?.seconds), { deleted: [{ reference, bytes: 5n << 20n }] }),
      getImageRules: () => ({ rules: { allow: ["ghcr.io/team/*"], requireDigest: true } }),
      setImageRules: (req) => (calls("rules", req.rules?.allow, req.rules?.requireDigest, req.rules?.allowRoot), {}),
      listRegistries: () => ({ registries: [{ host: "ghcr.io", username: "robot", hasPassword: true, mirror: "mirror.example.com", setBy: "ada" }] }),
      setRegistry: (req) => (calls("registry", req.host, req.username, req.password, req.mirror), {}),
      deleteRegistry: (req) => (calls("delete registry", req.host), {}),
      listSignatureRules: () => ({ rules: [{ pattern: "ghcr.io/team/*", publicKeys: "PEM", signer: "key sha256:77", setBy: "ada" }] }),
      setSignatureRule: (req) => (calls("signature", req.pattern, req.publicKeys, req.issuer, req.identity, req.identityRegexp, new TextDecoder().decode(req.trustedRoot)), {}),
      deleteSignatureRule: (req) => (calls("delete signature", req.pattern), {}),
    });
  };

describe("a reference", () => {
  it("has a repository, and a list of them has one per line", () => {
    expect(repositoryOf(reference)).toBe("ghcr.io/team/tools");
    expect(repositoryOf("ghcr.io/team/tools:1")).toBe("ghcr.io/team/tools:1");
    expect(linesOf(" ghcr.io/a/*\n\nghcr.io/b, c.io/d ")).toEqual(["ghcr.io/a/*", "ghcr.io/b", "c.io/d"]);
  });
});

describe("images", () => {
  it("are listed by node with their size, setup and tasks", async () => {
    const { container, history } = showPage("/images", imageRoutes, services());
    const user = userEvent.setup();
    const table = await screen.findByRole("group", { name: "Images on web-1" });
    const [, kept, prepared] = within(table).getAllByRole("row");
    expect(kept!.textContent).toContain("ghcr.io/team/tools");
    expect(kept!.textContent).toContain("3.0 MiB2 layers");
    expect(within(kept!).getAllByRole("link").map((a) => a.getAttribute("href"))).toEqual(["/tasks/task_0123456789abc", "/tasks/task_2", "/tasks/task_3"]);
    expect(kept!.textContent).toContain("and 2 more tasks");
    expect(within(prepared!).getByText("prepared")).toBeTruthy();
    expect(prepared!.textContent).toContain("no task");
    await screen.findByText("key sha256:77");
    expect((await axe.run(container)).violations.map((v) => v.id)).toEqual([]);
    expect(screen.queryByRole("option", { name: "old-1" })).toBeNull();
    await user.selectOptions(screen.getByLabelText("Node"), "db-1");
    expect(await screen.findByText("No images on db-1")).toBeTruthy();
    expect(history.location.search).toBe("?node=db-1");
  });

  it("are pulled, and an error of a pull stays in the dialog", async () => {
    const calls = vi.fn();
    const { history } = showPage("/images?node=db-1", imageRoutes, services(calls));
    const user = userEvent.setup();
    await user.click(await screen.findByRole("button", { name: "Pull image" }));
    const dialog = screen.getByRole("dialog");
    expect(within(dialog).getByLabelText<HTMLSelectElement>("Node").value).toBe("db-1");
    const pull = within(dialog).getByRole<HTMLButtonElement>("button", { name: "Pull image" });
    expect(pull.disabled).toBe(true);
    await user.type(within(dialog).getByLabelText("Image"), "ghcr.io/team/absent:1");
    await user.click(pull);
    expect((await within(dialog).findByRole("alert")).textContent).toContain("does not exist");
    await user.selectOptions(within(dialog).getByLabelText("Node"), "web-1");
    await user.clear(within(dialog).getByLabelText("Image"));
    await user.type(within(dialog).getByLabelText("Image"), "ghcr.io/team/tools:1{Enter}");
    await waitFor(() => expect(screen.queryByRole("dialog")).toBeNull());
    expect(calls).toHaveBeenLastCalledWith("pull", "web-1", "ghcr.io/team/tools:1");
    expect(history.location.search).toBe("?node=web-1");
  });

  it("are pruned by how long they were not used", async () => {
    const calls = vi.fn();
    showPage("/images", imageRoutes, services(calls));
    const user = userEvent.setup();
    await user.click(await screen.findByRole("button", { name: "Prune images" }));
    const dialog = screen.getByRole("dialog");
    await user.selectOptions(within(dialog).getByLabelText("Images"), "Unused for a week");
    await user.click(within(dialog).getByRole("button", { name: "Prune" }));
    await waitFor(() => expect(calls).toHaveBeenCalledWith("prune", "web-1", 604_800n));
  });

  it("are restricted by rules", async () => {
    const calls = vi.fn();
    showPage("/images", imageRoutes, services(calls));
    const user = userEvent.setup();
    await user.click(await screen.findByRole("button", { name: "Change rules" }));
    await user.type(screen.getByLabelText("Allowed repositories"), "\nghcr.io/other/app");
    await user.click(screen.getByLabelText("Require a digest"));
    await user.click(screen.getByLabelText(/^Allow root in jails/));
    await user.click(screen.getByRole("button", { name: "Save" }));
    await waitFor(() => expect(calls).toHaveBeenCalledWith("rules", ["ghcr.io/team/*", "ghcr.io/other/app"], false, true));
  });
});

describe("registries", () => {
  // A password is sent once, and is nowhere in the page afterwards.
  it("have a password that is sent and never shown", async () => {
    const calls = vi.fn();
    const { container, queries } = showPage("/images", imageRoutes, services(calls));
    const user = userEvent.setup();
    await user.click(await screen.findByRole("button", { name: "Change ghcr.io" }));
    const dialog = screen.getByRole("dialog");
    const box = within(dialog).getByLabelText<HTMLInputElement>("Password or token");
    expect(box.value).toBe("");
    expect(box.type).toBe("password");
    await user.type(box, "a-robots-token-8fk2");
    await user.click(within(dialog).getByRole("button", { name: "Save" }));
    await waitFor(() => expect(calls).toHaveBeenCalledWith("registry", "ghcr.io", "robot", "a-robots-token-8fk2", "mirror.example.com"));
    await waitFor(() => expect(screen.queryByRole("dialog")).toBeNull());
    expect(container.innerHTML).not.toContain("a-robots-token");
    const cached = queries.getQueryCache().getAll().map((q) => [q.queryKey, q.state.data]);
    expect(JSON.stringify(cached, (_, v: unknown) => (typeof v === "bigint" ? String(v) : v))).not.toContain("a-robots-token");
    await user.click(screen.getByRole("button", { name: "Delete ghcr.io" }));
    await user.click(within(screen.getByRole("dialog")).getByRole("button", { name: "Delete" }));
    await waitFor(() => expect(calls).toHaveBeenCalledWith("delete registry", "ghcr.io"));
  });
});

describe("signature rules", () => {
  it("name keys, or an identity and the root that certifies it", async () => {
    const calls = vi.fn();
    showPage("/images", imageRoutes, services(calls));
    const user = userEvent.setup();
    await user.click(await screen.findByRole("button", { name: "Change the rule for ghcr.io/team/*" }));
    await user.clear(screen.getByLabelText("Public keys"));
    await user.type(screen.getByLabelText("Public keys"), "another key");
    await user.click(screen.getByRole("button", { name: "Save" }));
    await waitFor(() => expect(calls).toHaveBeenCalledWith("signature", "ghcr.io/team/*", "another key", "", "", "", ""));
    await waitFor(() => expect(screen.queryByRole("dialog")).toBeNull());

    await user.click(screen.getByRole("button", { name: "New signature rule" }));
    await user.type(screen.getByLabelText("Images"), "docker.io/acme/app");
    await user.selectOptions(screen.getByLabelText("Signed by"), "Identities that match an expression");
    await user.type(screen.getByLabelText("Issuer"), "https://login.example.com");
    await user.type(screen.getByLabelText("Expression"), ".*@example.com");
    // jsdom's files cannot be read.
    const root = Object.assign(new File(["{}"], "trusted_root.json", { type: "application/json" }), { arrayBuffer: () => Promise.resolve(new TextEncoder().encode("{}").buffer) });
    await user.upload(screen.getByLabelText("Trusted root"), root);
    await user.click(screen.getByRole("button", { name: "Save" }));
    await waitFor(() => expect(calls).toHaveBeenCalledWith("signature", "docker.io/acme/app", "", "https://login.example.com", "", ".*@example.com", "{}"));
  });

  it("are deleted only after the pattern was typed", async () => {
    const calls = vi.fn();
    showPage("/images", imageRoutes, services(calls));
    const user = userEvent.setup();
    await user.click(await screen.findByRole("button", { name: "Delete the rule for ghcr.io/team/*" }));
    const remove = within(screen.getByRole("dialog")).getByRole<HTMLButtonElement>("button", { name: "Delete" });
    expect(remove.disabled).toBe(true);
    await user.type(screen.getByLabelText("Type ghcr.io/team/* to confirm"), "ghcr.io/team/*{Enter}");
    await waitFor(() => expect(calls).toHaveBeenCalledWith("delete signature", "ghcr.io/team/*"));
  });
});

describe("somebody who is no administrator", () => {
  it("reads images and rules, and neither changes them nor sees registries", async () => {
    const calls = vi.fn();
    showPage("/images", imageRoutes, services(calls), "viewer");
    await screen.findByRole("group", { name: "Images on web-1" });
    await screen.findByText("key sha256:77");
    for (const name of ["Pull image", "Prune images", "Change rules", "New signature rule", "Add registry"]) expect(screen.queryByRole("button", { name })).toBeNull();
    expect(screen.queryByText("robot")).toBeNull();
  });
});
