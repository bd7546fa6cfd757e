import { create } from "@bufbuild/protobuf";
import { Code, ConnectError } from "@connectrpc/connect";
import { screen, waitFor, within } from "@testing-library/react";
import userEvent from "@testing-library/user-event";
import { describe, expect, it, vi } from "vitest";
import { MachineService, ReadJournalResponseSchema } from "@/gen/deckhand/v1/machine_pb";
import { NodeExecService } from "@/gen/deckhand/v1/node_exec_pb";
import { NodeSchema, NodeService } from "@/gen/deckhand/v1/node_pb";
import { showPage } from "@/test/page";
import { above } from "./MachineFiles";
import { nodeRoutes } from "./route";

const services =
  (calls = vi.fn()) =>
  (r: Parameters<Parameters<typeof showPage>[2]>[0]) => {
    r.service(NodeService, {
      getNode: () => ({ node: create(NodeSchema, { id: "node_1", name: "web-1", status: "connected" }) }),
      listNodeLocks: () => ({}),
    });
    r.service(NodeExecService, { listNodeExecs: () => ({}) });
    r.service(MachineService, {
      getMachine: () => ({ os: "Debian 12", kernel: "6.1.0", architecture: "amd64", systemd: "252", journalUnits: ["nginx.service", "app-*.service"], folders: ["/var/log", "/etc/nginx"] }),
      readJournal: (req) => {
        calls("journal", req.unit, req.grep, req.pageToken);
        if (req.pageToken === "before 2") return create(ReadJournalResponseSchema, { entries: [{ cursor: "1", message: "the first" }] });
        return create(ReadJournalResponseSchema, {
          entries: [
            { cursor: "2", message: "cannot reach \u001b[31mthe hub", fields: { level: "error", component: "deckhand-node.link", attempt: "3" } },
            { cursor: "3", message: "linked to the hub", fields: { level: "info", component: "deckhand-node.link" } },
          ],
          nextPageToken: "before 2",
        });
      },
      listMachineFiles: (req) => {
        calls("list", req.path);
        if (req.path === "/var/log/app") return { files: [{ path: "/var/log/app/today.txt", type: "file", size: 9n }] };
        return { files: [{ path: "/var/log/syslog", type: "file", size: 5n }, { path: "/var/log/app", type: "dir" }, { path: "/var/log/old", type: "symlink" }, { path: '"/var/log/a\\nb"', type: "file" }] };
      },
      readMachineFile: (req) => {
        calls("read", req.path);
        if (req.path.endsWith("syslog")) throw new ConnectError("the operator of this node does not show it", Code.PermissionDenied);
        if (req.path.endsWith("old")) throw new ConnectError("/var/log/old is a folder", Code.FailedPrecondition);
        return { content: new TextEncoder().encode("all went well\n"), size: 14n };
      },
    });
  };

describe("a machine", () => {
  it("shows its daemon's log, oldest first, and older entries above", async () => {
    const calls = vi.fn();
    showPage("/nodes/web-1", nodeRoutes, services(calls));
    expect(await screen.findByText("Debian 12")).toBeTruthy();
    const user = userEvent.setup();
    const show = await screen.findByRole("button", { name: "Show" });
    expect(calls).not.toHaveBeenCalled();
    await user.click(show);
    const log = await screen.findByRole("region", { name: "Log entries" });
    const lines = () => within(log).getAllByRole("listitem").map((l) => l.textContent);
    expect(lines()).toHaveLength(2);
    expect(lines()[0]).toContain("attempt=3");
    expect(within(log).getByRole("img", { name: "ESC" })).toBeTruthy();
    await user.click(within(log).getByRole("button", { name: "Load older" }));
    await waitFor(() => expect(lines()[0]).toContain("the first"));
    expect(lines()).toHaveLength(3);
    expect(calls).toHaveBeenCalledWith("journal", "", "", "before 2");
  });

  it("reads the journal of units that its operator shows, filtered on the machine", async () => {
    const calls = vi.fn();
    showPage("/nodes/web-1", nodeRoutes, services(calls));
    const user = userEvent.setup();
    await user.selectOptions(await screen.findByLabelText("Log"), "nginx.service");
    await user.click(screen.getByRole("button", { name: "Show" }));
    await waitFor(() => expect(calls).toHaveBeenCalledWith("journal", "nginx.service", "", ""));
    await user.type(screen.getByLabelText("Message matches"), "time.*out{Enter}");
    await waitFor(() => expect(calls).toHaveBeenCalledWith("journal", "nginx.service", "time.*out", ""));
    // A pattern is no unit: nothing is read before one is named, nor while it is typed.
    calls.mockClear();
    await user.selectOptions(screen.getByLabelText("Log"), "app-*.service");
    await user.click(screen.getByRole("button", { name: "Show" }));
    await user.type(screen.getByLabelText("Unit"), "app-web.service");
    expect(calls).not.toHaveBeenCalled();
    await user.keyboard("{Enter}");
    await waitFor(() => expect(calls).toHaveBeenCalledWith("journal", "app-web.service", "time.*out", ""));
    expect(calls).toHaveBeenCalledTimes(1);
  });

  it("opens folders and files, which the address names", async () => {
    const calls = vi.fn();
    const { history } = showPage("/nodes/web-1", nodeRoutes, services(calls));
    const user = userEvent.setup();
    await user.click(await screen.findByRole("button", { name: "/var/log" }));
    await user.click(await screen.findByRole("button", { name: "app" }));
    await user.click(await screen.findByRole("button", { name: "today.txt" }));
    const file = await screen.findByRole("region", { name: "/var/log/app/today.txt" });
    await waitFor(() => expect(file.textContent).toContain("all went well"));
    expect(history.location.search).toBe("?path=%2Fvar%2Flog%2Fapp%2Ftoday.txt");
    // Back up by the folders above it.
    await user.click(within(screen.getByRole("navigation", { name: "Folder" })).getByRole("button", { name: "/var/log" }));
    await user.click(await screen.findByRole("button", { name: "syslog" }));
    expect(await screen.findByText(/does not show it/)).toBeTruthy();
    expect(screen.queryByRole("button", { name: "Open as a folder" })).toBeNull();
    // A link to a folder is opened as one; a name that cannot be shown opens nothing.
    expect(screen.queryByRole("button", { name: /nb/ })).toBeNull();
    await user.click(screen.getByRole("button", { name: /^old/ }));
    await user.click(await screen.findByRole("button", { name: "Open as a folder" }));
    await waitFor(() => expect(calls).toHaveBeenCalledWith("list", "/var/log/old"));
  });

  it("is not read for those who are no administrators", async () => {
    const calls = vi.fn();
    showPage("/nodes/web-1", nodeRoutes, services(calls), "advanced");
    expect(await screen.findByText("No commands yet")).toBeTruthy();
    expect(screen.queryByText("Logs")).toBeNull();
    expect(calls).not.toHaveBeenCalled();
  });

  it("names the folders above a path, from a shown one on", () => {
    expect(above(["/var/log", "/var"], "/var/log/app/x")).toEqual(["/var/log", "/var/log/app", "/var/log/app/x"]);
    expect(above(["/var/log"], "/var/log")).toEqual(["/var/log"]);
    expect(above(["/var/log"], "/var/logs")).toEqual([]);
  });
});
