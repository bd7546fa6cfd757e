import { useQuery } from "@connectrpc/connect-query";
import { useState } from "react";
import { useSession } from "@/app/session";
import { Select } from "@/components/Field";
import { count } from "@/components/money";
import { Problem } from "@/components/Problem";
import { Section } from "@/components/Section";
import { Skeletons } from "@/components/Skeleton";
import { Cell, Row, Table } from "@/components/Table";
import { may } from "@/features/session/queries";
import { PlanService, type QuotaPeriod } from "@/gen/deckhand/v1/plan_pb";

type View = "organisation" | "mine" | "users";

// QuotaHistory shows what was used in billing periods: by the organisation, by oneself, or by
// each user in the current one.
export function QuotaHistory() {
  const session = useSession();
  const [view, setView] = useState<View>("organisation");
  const userName = view === "mine" ? (session?.userName ?? "") : "";
  const got = useQuery(PlanService.method.getQuotaHistory, { userName });
  const rows = view === "users" ? got.data?.users : got.data?.periods;
  return (
    <Section
      title="Usage by billing period"
      actions={
        <Select aria-label="Usage of" value={view} onChange={(e) => setView(e.target.value as View)}>
          <option value="organisation">The organisation</option>
          <option value="mine">Yours</option>
          {may(session, "admin") && <option value="users">Each user, this period</option>}
        </Select>
      }
    >
      {got.isPending ? (
        <Skeletons rows={3} />
      ) : !rows ? (
        <Problem error={got.error} retry={() => void got.refetch()} />
      ) : rows.length === 0 ? (
        <p className="text-dim">Nobody has used anything in this period.</p>
      ) : (
        <Table label="Usage by billing period" head={[view === "users" ? "User" : "Period", "Runs", "Iterations", "Tokens", "Tool calls"]}>
          {rows.map((p) => (
            <Amounts key={p.userName + p.period} of={p} name={view === "users" ? p.userName : p.period} />
          ))}
        </Table>
      )}
      <p className="pt-2 text-xs text-dim">A run counts when it begins; iterations, tokens and tool calls count when it has ended.</p>
    </Section>
  );
}

function Amounts({ of: p, name }: { of: QuotaPeriod; name: string }) {
  return (
    <Row>
      <Cell>{name}</Cell>
      <Cell>{count(p.runs)}</Cell>
      <Cell>{count(p.iterations)}</Cell>
      <Cell>{count(p.tokens)}</Cell>
      <Cell>{count(p.toolCalls)}</Cell>
    </Row>
  );
}
