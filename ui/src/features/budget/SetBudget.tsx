import { createClient } from "@connectrpc/connect";
import { useState } from "react";
import { toast } from "sonner";
import { useRefresh } from "@/api/refresh";
import { transport } from "@/api/transport";
import { Field, Input, Select } from "@/components/Field";
import { FormDialog } from "@/components/FormDialog";
import { BudgetService, type Budget } from "@/gen/deckhand/v1/provider_pb";
import { everyWords, parseDollars, scopes } from "./limit";

const budgets = createClient(BudgetService, transport);

// SetBudget sets a limit, removes it, or resets it to its default.
export function SetBudget({ of, onClose }: { of?: Budget; onClose: () => void }) {
  const refresh = useRefresh(BudgetService);
  const [scope, setScope] = useState(of?.scope ?? "organisation");
  const [object, setObject] = useState(of?.objectId ?? "");
  const [every, setEvery] = useState(of ? of.every : "month");
  const [kind, setKind] = useState<"limit" | "none" | "default">("limit");
  const [text, setText] = useState(of?.limitMicros === undefined ? "" : String(Number(of.limitMicros) / 1e6));
  const [tried, setTried] = useState(false);
  const micros = parseDollars(text);
  const whole = scope === "organisation";
  return (
    <FormDialog
      title={of ? "Change a limit" : "Set a limit"}
      action="Save"
      onClose={onClose}
      check={() => {
        setTried(true);
        return (kind !== "limit" || micros !== undefined) && (whole || object.trim() !== "");
      }}
      run={async () => {
        await budgets.setBudget({
          scope,
          objectId: whole ? "" : object.trim(),
          every,
          limit:
            kind === "limit"
              ? { case: "limitMicros", value: micros ?? 0n }
              : kind === "none"
                ? { case: "unlimited", value: true }
                : { case: "reset", value: true },
        });
        await refresh();
        toast.success("Limit saved.");
      }}
    >
      <Field label="Scope">
        <Select className="w-full" value={scope} onChange={(e) => setScope(e.target.value)} disabled={of !== undefined}>
          {scopes.map((s) => (
            <option key={s} value={s}>
              {s === "organisation" ? "the whole organisation" : s === "lineage" ? "a task with all its subtasks and retries" : `a ${s}`}
            </option>
          ))}
        </Select>
      </Field>
      {!whole && (
        <Field label={scope === "user" ? "User" : "Task"} problem={tried && !object.trim() ? `Enter a ${scope === "user" ? "user" : "task id"}.` : undefined}>
          <Input value={object} onChange={(e) => setObject(e.target.value)} maxLength={200} autoComplete="off" disabled={of !== undefined} />
        </Field>
      )}
      <Field label="Period">
        <Select className="w-full" value={every} onChange={(e) => setEvery(e.target.value)} disabled={of !== undefined}>
          {Object.entries(everyWords).map(([value, label]) => (
            <option key={value} value={value}>
              {label}
            </option>
          ))}
        </Select>
      </Field>
      <Field label="Limit">
        <Select className="w-full" value={kind} onChange={(e) => setKind(e.target.value as typeof kind)}>
          <option value="limit">Fixed amount (USD)</option>
          <option value="none">Unlimited</option>
          <option value="default">Default</option>
        </Select>
      </Field>
      {kind === "limit" && (
        <Field label="Amount (USD)" problem={tried && micros === undefined ? "Enter an amount, such as 100 or 2.50." : undefined}>
          <Input inputMode="decimal" value={text} onChange={(e) => setText(e.target.value)} autoComplete="off" />
        </Field>
      )}
    </FormDialog>
  );
}
