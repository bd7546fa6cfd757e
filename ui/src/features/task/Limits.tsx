import { bytes, count, dollars } from "@/components/money";
import { Cell, Row, Table } from "@/components/Table";
import { duration } from "@/components/Time";
import type { Task } from "@/gen/deckhand/v1/task_pb";
import type { Thread } from "./thread";

// Limits shows what a run may use, as it began, and what it has used.
export function Limits({ task, thread }: { task: Task; thread: Pick<Thread, "limits" | "changed"> }) {
  const most = thread.limits;
  const rows: [name: string, used: string, most: string, share: number][] = [];
  const add = (name: string, limit: number | undefined, used: number | undefined, write: (n: number) => string) => {
    if (!limit) return;
    rows.push([name, used === undefined ? "–" : write(used), write(limit), used === undefined ? 0 : used / limit]);
  };
  const plain = (n: number) => n.toLocaleString("en");
  add("Iterations", most.iterations, task.iteration, plain);
  add("Working time", most.active_time_s, undefined, (n) => duration(n * 1000));
  add("Tokens", most.tokens, undefined, count);
  add("Model calls", most.calls, undefined, plain);
  add("Cost", most.cost_usd, Number(task.usage?.costMicros ?? 0n) / 1e6, (n) => dollars(n * 1e6));
  add("Changed files", most.files, thread.changed?.files ?? 0, plain);
  add("Largest changed file", most.file_size_bytes, thread.changed?.largest ?? 0, bytes);
  if (rows.length === 0) return null;
  return (
    <section className="space-y-2">
      <h2 className="font-semibold">Limits</h2>
      <Table label="Limits" head={["Limit", "Used", "At most"]}>
        {rows.map(([name, used, limit, share]) => (
          <Row key={name}>
            <Cell>{name}</Cell>
            <Cell className={share >= 1 ? "text-bad" : share >= 0.8 ? "text-warn" : undefined}>{used}</Cell>
            <Cell>{limit}</Cell>
          </Row>
        ))}
      </Table>
    </section>
  );
}
