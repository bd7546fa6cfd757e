import { screen, waitFor, within } from "@testing-library/react";
import userEvent from "@testing-library/user-event";
import axe from "axe-core";
import { describe, expect, it } from "vitest";
import { AuditService, AuditVerdict } from "@/gen/deckhand/v1/control_pb";
import { showPage } from "@/test/page";
import { auditRoutes } from "./route";

describe("verification of the audit log", () => {
  it("shows how far it is, then every broken part, and what the check does not prove", async () => {
    let go = () => {};
    const released = new Promise<void>((resolve) => (go = resolve));
    let lists = 0;
    showPage("/audit", [...auditRoutes], (r) =>
      r.service(AuditService, {
        listAuditEntries: () => (lists++, { entries: [] }),
        async *verifyAudit() {
          yield { position: 1200n, lastPosition: 5000n };
          await released;
          yield {
            position: 5000n,
            lastPosition: 5000n,
            result: {
              verdict: AuditVerdict.BROKEN, position: 5000n, entries: 4979n, heads: 80n, unsealed: 1n, key: "ab12",
              breaks: [
                { firstPosition: 41n, lastPosition: 60n, problem: "something is not what was sealed" },
                { problem: "an entry is in no chain" },
              ],
            },
          };
        },
      }),
    );
    const user = userEvent.setup();
    await user.click(await screen.findByRole("button", { name: "Verify" }));
    const dialog = await screen.findByRole("dialog", { name: "Verify audit log" });
    await within(dialog).findByText(`Verified to entry ${(1200).toLocaleString()} of ${(5000).toLocaleString()}…`);
    const before = lists;
    go();
    await within(dialog).findByText(/^Broken/);
    const parts = within(within(dialog).getByRole("list", { name: "Broken parts" })).getAllByRole("listitem");
    expect(parts.map((p) => p.textContent)).toEqual([
      "Between entries 41 and 60something is not what was sealed",
      "Entries outside of the chainan entry is in no chain",
    ]);
    within(dialog).getByText("1 new entry not sealed yet");
    within(dialog).getByText(/with its own key/);
    expect(lists).toBeGreaterThan(before); // the hub has recorded it
    expect((await axe.run(dialog)).violations.map((v) => v.id)).toEqual([]);
  });
});

it("filters by severity, in the address, and marks what is grave", async () => {
  const asked: string[] = [];
  const { history } = showPage("/audit", [...auditRoutes], (r) =>
    r.service(AuditService, {
      listAuditEntries: (req) => (asked.push(req.severity), { entries: [{ id: 1n, action: "vault.rotate", severity: "critical" }, { id: 2n, action: "inbox.approve", severity: "low" }] }),
    }),
  );
  const user = userEvent.setup();
  expect(await screen.findByText("critical", { selector: "span, span *" })).toBeTruthy();
  await user.selectOptions(screen.getByLabelText("Severity"), "high");
  await user.click(screen.getByRole("button", { name: "Filter" }));
  await waitFor(() => expect(asked.at(-1)).toBe("high"));
  expect(history.location.search).toBe("?severity=high");
});
