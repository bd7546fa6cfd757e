import { screen, waitFor } from "@testing-library/react";
import userEvent from "@testing-library/user-event";
import axe from "axe-core";
import { describe, expect, it, vi } from "vitest";
import { CredentialService } from "@/gen/deckhand/v1/credential_pb";
import { showPage } from "@/test/page";
import { credentialRoutes } from "./route";

const services =
  (calls = vi.fn()): Parameters<typeof showPage>[2] =>
  (r) =>
    r.service(CredentialService, {
      listCredentials: () => ({ credentials: [{ name: "api", kind: "basic", hosts: ["api.example.com"], methods: ["GET"], agents: ["coder"], held: true, version: "crv_1" }] }),
      listCredentialRequests: (req) => {
        calls("requests", req.credential);
        return { requests: [{ id: "r1", credential: "api", method: "POST", host: "api.example.com:443", path: "/v1/items", status: 403, taskId: "task_1", problem: "refused" }] };
      },
      createCredential: (req) => (calls("create", req.name, req.kind, req.hosts, req.value), {}),
      updateCredential: (req) => (calls("update", req.name, req.version, req.hosts, req.agents, req.value), {}),
      rotateCredential: (req) => (calls("rotate", req.name, req.value?.username, req.value?.password), {}),
      deleteCredential: (req) => (calls("delete", req.name), {}),
      testCredential: (req) => (
        calls("test", req.name, req.url),
        { ok: false, url: "https://api.example.com/", status: 401, body: "who are you?", problem: "the server refuses the credential (HTTP 401)", fix: "store a valid value" }
      ),
    });

describe("credentials", () => {
  it("teach the first command when there are none", async () => {
    showPage("/credentials", credentialRoutes, (r) => r.service(CredentialService, { listCredentials: () => ({}), listCredentialRequests: () => ({}) }));
    expect(await screen.findByText("No credentials yet")).toBeTruthy();
    expect(await screen.findByText("No requests yet.")).toBeTruthy();
  });

  it("are created by kind, and their value is sent once and shown nowhere", async () => {
    const calls = vi.fn();
    const { container } = showPage("/credentials", credentialRoutes, services(calls));
    const user = userEvent.setup();
    await user.click(await screen.findByRole("button", { name: "New credential" }));
    await user.click(screen.getByRole("button", { name: "Create credential" }));
    expect(await screen.findByText(/Use lower-case letters/)).toBeTruthy();
    await user.type(screen.getByLabelText("Name"), "keys");
    await user.type(screen.getByLabelText("Hosts"), "s3.eu-west-1.amazonaws.com");
    await user.selectOptions(screen.getByLabelText("Kind"), "aws_sigv4");
    await user.type(screen.getByLabelText("Access key ID"), "AKIAX");
    await user.click(screen.getByRole("button", { name: "Create credential" }));
    expect(await screen.findByText(/Secret access key is empty/)).toBeTruthy();
    expect(calls).not.toHaveBeenCalledWith("create", expect.anything(), expect.anything(), expect.anything(), expect.anything());
    const secret = screen.getByLabelText<HTMLInputElement>("Secret access key");
    expect(secret.type).toBe("password");
    await user.type(secret, "s3cret");
    await user.click(screen.getByRole("button", { name: "Create credential" }));
    await waitFor(() =>
      expect(calls).toHaveBeenCalledWith("create", "keys", "aws_sigv4", ["s3.eu-west-1.amazonaws.com"], expect.objectContaining({ accessKeyId: "AKIAX", secretAccessKey: "s3cret" })),
    );
    await waitFor(() => expect(screen.queryByRole("dialog")).toBeNull());
    expect(document.body.textContent).not.toContain("s3cret");
    expect((await axe.run(container)).violations.map((v) => v.id)).toEqual([]);
  });

  it("are edited, and keep their value unless another one is entered", async () => {
    const calls = vi.fn();
    showPage("/credentials", credentialRoutes, services(calls));
    const user = userEvent.setup();
    await user.click(await screen.findByRole("button", { name: "Edit api" }));
    expect(screen.getByLabelText<HTMLInputElement>("Hosts").value).toBe("api.example.com");
    await user.clear(screen.getByLabelText("Agents"));
    await user.type(screen.getByLabelText("Agents"), "coder, reviewer");
    await user.click(screen.getByRole("button", { name: "Save" }));
    await waitFor(() => expect(calls).toHaveBeenCalledWith("update", "api", "crv_1", ["api.example.com"], ["coder", "reviewer"], undefined));
    await waitFor(() => expect(screen.queryByRole("dialog")).toBeNull());
    await user.click(await screen.findByRole("button", { name: "Edit api" }));
    await user.type(screen.getByLabelText("Hosts"), ", eu.example.com");
    await user.click(screen.getByText("New value"));
    await user.type(screen.getByLabelText("Password"), "another");
    await user.click(screen.getByRole("button", { name: "Save" }));
    await waitFor(() =>
      expect(calls).toHaveBeenCalledWith("update", "api", "crv_1", ["api.example.com", "eu.example.com"], ["coder"], expect.objectContaining({ password: "another" })),
    );
  });

  it("are rotated, tested and deleted, and show their usage", async () => {
    const calls = vi.fn();
    const { history } = showPage("/credentials", credentialRoutes, services(calls));
    const user = userEvent.setup();
    await user.click(await screen.findByRole("button", { name: "Rotate api" }));
    await user.click(screen.getByRole("button", { name: "Replace value" }));
    expect(await screen.findByText(/User name or password is empty/)).toBeTruthy();
    await user.type(screen.getByLabelText("Password"), "another");
    await user.click(screen.getByRole("button", { name: "Replace value" }));
    await waitFor(() => expect(calls).toHaveBeenCalledWith("rotate", "api", "", "another"));
    await waitFor(() => expect(screen.queryByRole("dialog")).toBeNull());
    await user.click(screen.getByRole("button", { name: "Test api" }));
    await user.click(screen.getByRole("button", { name: "Send request" }));
    expect(await screen.findByText("HTTP 401")).toBeTruthy();
    expect(screen.getByText("who are you?")).toBeTruthy();
    expect(calls).toHaveBeenCalledWith("test", "api", "");
    await user.click(screen.getAllByRole("button", { name: "Close" })[0] as HTMLElement);
    await user.click(screen.getByRole("button", { name: "Usage of api" }));
    await waitFor(() => expect(history.location.search).toBe("?of=api"));
    await waitFor(() => expect(calls).toHaveBeenCalledWith("requests", "api"));
    expect(await screen.findByText("refused")).toBeTruthy();
    await user.click(screen.getByRole("button", { name: "Delete api" }));
    await user.type(screen.getByLabelText("Type api to confirm"), "api");
    await user.click(screen.getByRole("button", { name: "Delete" }));
    await waitFor(() => expect(calls).toHaveBeenCalledWith("delete", "api"));
  });

  it("are read by everyone, and changed by administrators", async () => {
    showPage("/credentials", credentialRoutes, services(), "viewer");
    expect(await screen.findByRole("button", { name: "Usage of api" })).toBeTruthy();
    expect(screen.queryByRole("button", { name: "New credential" })).toBeNull();
    expect(screen.queryByRole("button", { name: "Rotate api" })).toBeNull();
  });
});
