import { screen, waitFor } from "@testing-library/react";
import userEvent from "@testing-library/user-event";
import axe from "axe-core";
import { describe, expect, it, vi } from "vitest";
import { DestinationService, DestinationState, NotificationState } from "@/gen/deckhand/v1/destination_pb";
import { showPage } from "@/test/page";
import { destinationRoutes } from "./route";

const services =
  (calls = vi.fn()): Parameters<typeof showPage>[2] =>
  (r) =>
    r.service(DestinationService, {
      listDestinations: () => ({
        destinations: [
          {
            id: "dest_1",
            name: "hooks",
            kind: "webhook",
            state: DestinationState.ENABLED,
            spec: { events: ["failures"], to: { case: "webhook" as const, value: { url: "https://hooks.example.com/x" } } },
            pending: 1n,
            dead: 2n,
          },
        ],
      }),
      listNotifications: (req) => {
        calls("list", req.destinationId, req.states);
        return { notifications: [{ id: "notification_1", type: "execution_failed", taskId: "task_1", destinationName: "hooks", state: NotificationState.DEAD, attempts: 9, error: "500" }] };
      },
      testDestination: (req) => (calls("test", req.destinationId), { notification: { state: NotificationState.DELIVERED } }),
      createDestination: (req) => (calls("create", req.name, req.spec?.events, req.spec?.to.value, req.secret), { secret: "whsec_made" }),
      updateDestination: (req) => (calls("update", req.destinationId, req.spec?.to.value, req.secret), {}),
      rotateDestinationSecret: (req) => (calls("rotate", req.destinationId), { secret: "whsec_other" }),
      redriveNotifications: (req) => (calls("redrive", req.which.case, req.which.value), { redriven: 2n }),
    });

describe("notifications", () => {
  it("teach the first command when there are none", async () => {
    showPage("/notifications", destinationRoutes, (r) => r.service(DestinationService, { listDestinations: () => ({}), listNotifications: () => ({}) }));
    expect(await screen.findByText("No notification destinations yet")).toBeTruthy();
  });

  it("are tested and redriven", async () => {
    const calls = vi.fn();
    const { container, history } = showPage("/notifications", destinationRoutes, services(calls));
    const user = userEvent.setup();
    await user.click(await screen.findByRole("button", { name: "Test hooks" }));
    await waitFor(() => expect(calls).toHaveBeenCalledWith("test", "dest_1"));
    await waitFor(() => expect(screen.getByRole<HTMLButtonElement>("button", { name: "Redrive hooks" }).disabled).toBe(false));
    await user.click(screen.getByRole("button", { name: "Redrive hooks" }));
    await waitFor(() => expect(calls).toHaveBeenCalledWith("redrive", "destinationId", "dest_1"));
    await user.click(await screen.findByRole("button", { name: "Redrive" }));
    await waitFor(() => expect(calls).toHaveBeenCalledWith("redrive", "notificationId", "notification_1"));
    await user.selectOptions(screen.getByLabelText("State"), "dead");
    await waitFor(() => expect(history.location.search).toBe("?state=dead"));
    await waitFor(() => expect(calls).toHaveBeenCalledWith("list", "", [NotificationState.DEAD]));
    expect((await axe.run(container)).violations.map((v) => v.id)).toEqual([]);
  });

  // Destinations are made, changed and given another secret, which is shown once.
  it("are made, changed and rotated", async () => {
    const calls = vi.fn();
    showPage("/notifications", destinationRoutes, services(calls));
    const user = userEvent.setup();
    await user.click(await screen.findByRole("button", { name: "New destination" }));
    await user.type(screen.getByLabelText("Name"), "ops");
    await user.click(screen.getByRole("button", { name: "Create destination" }));
    expect(await screen.findByText(/url: Enter a complete URL/)).toBeTruthy();
    await user.type(screen.getByLabelText("URL"), "https://hooks.example.com/new");
    await user.click(screen.getByLabelText("failures"));
    await user.click(screen.getByRole("button", { name: "Create destination" }));
    await waitFor(() => expect(calls).toHaveBeenCalledWith("create", "ops", ["failures"], expect.objectContaining({ url: "https://hooks.example.com/new" }), ""));
    expect((await screen.findByTestId("secret")).textContent).toContain("whsec_made");
    await user.click(screen.getByRole("button", { name: "I have saved it" }));
    await user.click(screen.getByRole("button", { name: "Change hooks" }));
    await user.clear(screen.getByLabelText("URL"));
    await user.type(screen.getByLabelText("URL"), "https://hooks.example.com/y");
    await user.click(screen.getByRole("button", { name: "Save" }));
    await waitFor(() => expect(calls).toHaveBeenCalledWith("update", "dest_1", expect.objectContaining({ url: "https://hooks.example.com/y" }), ""));
    await waitFor(() => expect(screen.queryByRole("dialog")).toBeNull());
    await user.click(screen.getByRole("button", { name: "Rotate the secret of hooks" }));
    await user.click(screen.getByRole("button", { name: "Rotate" }));
    expect((await screen.findByTestId("secret")).textContent).toContain("whsec_other");
    expect(calls).toHaveBeenCalledWith("rotate", "dest_1");
  });

  it("are for administrators", async () => {
    showPage("/notifications", destinationRoutes, services(), "advanced");
    expect(await screen.findByText("Only admins can manage notifications.")).toBeTruthy();
  });
});
