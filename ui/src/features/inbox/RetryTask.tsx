import { useQuery } from "@connectrpc/connect-query";
import { useMemo, useState } from "react";
import { Button } from "@/components/Button";
import { Field, Input, Select } from "@/components/Field";
import { NodeService } from "@/gen/deckhand/v1/node_pb";
import { ProviderService } from "@/gen/deckhand/v1/provider_pb";
import type { InboxItem } from "@/gen/deckhand/v1/inbox_pb";

export type Override = { memoryBytes: bigint; provider: string; model: string; nodeId: string };

// RetryTask asks with what an escalated task is retried: only for what fits the cause.
export function RetryTask(props: { item: InboxItem; busy: boolean; disabled: boolean; onRetry: (override: Override | undefined) => void; onBack: () => void }) {
  const fits = props.item.escalation?.remedies ?? ["retry", "memory", "node", "model"];
  const [memory, setMemory] = useState("");
  const [model, setModel] = useState("");
  const [node, setNode] = useState("");
  const prices = useQuery(ProviderService.method.listPrices, { pageSize: 200 }, { enabled: fits.includes("model") });
  const nodes = useQuery(NodeService.method.listNodes, { pageSize: 200 }, { enabled: fits.includes("node") });
  const models = useMemo(
    () => [...new Set(prices.data?.prices.map((p) => `${p.provider}/${p.model}`) ?? [])].sort(),
    [prices.data],
  );
  const problem = memory.trim() && !(Number(memory) > 0 && Number(memory) <= 16384) ? "Enter a number of GiB above 0, such as 8." : undefined;
  const [provider, ...rest] = model.split("/");
  const override =
    memory.trim() || model || node
      ? { memoryBytes: BigInt(Math.round(Number(memory.trim() || "0") * 2 ** 30)), provider: model ? provider! : "", model: rest.join("/"), nodeId: node }
      : undefined;
  return (
    <section aria-label="Retry the task" className="space-y-3">
      <div className="grid gap-3 sm:grid-cols-3">
        {fits.includes("memory") && (
          <Field label="Memory (GiB)" hint="Leave empty to keep the current limit." problem={problem}>
            <Input inputMode="decimal" value={memory} onChange={(e) => setMemory(e.target.value)} />
          </Field>
        )}
        {fits.includes("model") && (
          <Field label="Model">
            <Select value={model} onChange={(e) => setModel(e.target.value)}>
              <option value="">The same as before</option>
              {models.map((m) => (
                <option key={m} value={m}>
                  {m}
                </option>
              ))}
            </Select>
          </Field>
        )}
        {fits.includes("node") && (
          <Field label="Node">
            <Select value={node} onChange={(e) => setNode(e.target.value)}>
              <option value="">The same as before</option>
              {nodes.data?.nodes.map((n) => (
                <option key={n.id} value={n.id}>
                  {n.name || n.id}
                </option>
              ))}
            </Select>
          </Field>
        )}
      </div>
      <div className="flex gap-2">
        <Button look="primary" disabled={props.disabled || problem !== undefined} busy={props.busy} onClick={() => props.onRetry(override)}>
          Retry the task
        </Button>
        <Button onClick={props.onBack}>Back</Button>
      </div>
    </section>
  );
}
