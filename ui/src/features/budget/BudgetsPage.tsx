import { useInfiniteQuery } from "@connectrpc/connect-query";
import { Link } from "@tanstack/react-router";
import { Plus } from "lucide-react";
import { useState } from "react";
import { byToken } from "@/api/pages";
import { useSession } from "@/app/session";
import { Badge } from "@/components/Badge";
import { Button } from "@/components/Button";
import { More } from "@/components/More";
import { cx } from "@/components/cx";
import { Empty } from "@/components/Empty";
import { dollars } from "@/components/money";
import { Page } from "@/components/Page";
import { Problem } from "@/components/Problem";
import { useShortcut } from "@/components/shortcuts";
import { Skeletons } from "@/components/Skeleton";
import { Cell, Row, Table } from "@/components/Table";
import { may } from "@/features/session/queries";
import { BudgetService, type Budget } from "@/gen/deckhand/v1/provider_pb";
import { SpendPanel } from "@/features/spend/SpendPanel";
import { everyWords, share } from "./limit";
import { Plan } from "./Plan";
import { QuotaHistory } from "./QuotaHistory";
import { SetBudget } from "./SetBudget";

// BudgetsPage lists the limits on what models may cost, and what is spent.
export function BudgetsPage() {
  const admin = may(useSession(), "admin");
  const [setting, setSetting] = useState<Budget | "new">();
  useShortcut("n", "Set a limit", "Budgets", () => setSetting("new"), admin);
  // What is spent moves with every call of a model: it is asked for again.
  const list = useInfiniteQuery(BudgetService.method.listBudgets, { pageSize: 100, pageToken: "" }, { ...byToken, refetchInterval: 10_000 });
  const all = list.data?.pages.flatMap((page) => page.budgets) ?? [];
  return (
    <Page
      title="Budgets"
      actions={
        admin && (
          <Button look="primary" onClick={() => setSetting("new")}>
            <Plus aria-hidden className="size-4" /> Set a limit
          </Button>
        )
      }
    >
      <div className="pb-4">
        <SpendPanel open />
      </div>
      {list.isPending ? (
        <Skeletons rows={4} className="h-14 w-full" />
      ) : list.error && all.length === 0 ? (
        <Problem error={list.error} retry={() => void list.refetch()} />
      ) : all.length === 0 ? (
        <Empty title="No budgets yet" command="deckhand budget set organisation 100 --every month">
          A budget stops model calls before they exceed a limit in US dollars.
        </Empty>
      ) : (
        <Table label="Budgets" head={["Scope", "Period", "Spent", "Limit", "Set by", ""]}>
          {all.map((b) => (
            <Row key={`${b.scope} ${b.objectId} ${b.every}`}>
              <Cell>
                <div className="font-medium">{b.scope}</div>
                {b.scope !== "organisation" && <Whose of={b} />}
              </Cell>
              <Cell className="whitespace-nowrap">{everyWords[b.every] ?? b.every}</Cell>
              <Cell className="min-w-48">
                <Bar of={b} />
              </Cell>
              <Cell className="whitespace-nowrap">{b.limitMicros === undefined ? "unlimited" : dollars(b.limitMicros)}</Cell>
              <Cell>{b.setBy || <span className="text-dim">default</span>}</Cell>
              <Cell>
                {admin && (
                  <Button small onClick={() => setSetting(b)} aria-label={`Change the limit: ${b.scope} ${b.objectId} ${everyWords[b.every]}`}>
                    Change
                  </Button>
                )}
              </Cell>
            </Row>
          ))}
        </Table>
      )}
      <More pages={list}>More budgets</More>
      <Plan />
      <QuotaHistory />
      {setting && <SetBudget of={setting === "new" ? undefined : setting} onClose={() => setSetting(undefined)} />}
    </Page>
  );
}

function Whose({ of }: { of: Budget }) {
  if (of.scope === "user") return <span className="text-xs break-all">{of.objectId}</span>;
  return (
    <Link to="/tasks/$task" params={{ task: of.objectId }} className="inline-flex min-h-6 items-center font-mono text-xs break-all text-accent hover:underline">
      {of.objectId}
    </Link>
  );
}

// Bar shows how much of a limit is used, in words and as a bar.
function Bar({ of: b }: { of: Budget }) {
  const used = share(b);
  const tone = used === undefined ? "" : used >= 1 ? "bg-bad" : used >= 0.8 ? "bg-warn" : "bg-accent";
  return (
    <div className="space-y-1">
      <div className="flex flex-wrap items-center gap-2">
        <span>{dollars(b.spentMicros)}</span>
        {b.reservedMicros > 0n && <span className="text-xs text-dim">+ {dollars(b.reservedMicros)} reserved</span>}
        {used !== undefined && used >= 1 && <Badge tone="bad">used up</Badge>}
        {used !== undefined && used >= 0.8 && used < 1 && <Badge tone="warn">over 80 %</Badge>}
      </div>
      {used !== undefined && (
        <div
          role="meter"
          aria-label={`Share of the limit spent: ${b.scope} ${b.objectId} ${everyWords[b.every]}`}
          aria-valuemin={0}
          aria-valuemax={100}
          aria-valuenow={Math.min(100, Math.round(used * 100))}
          className="h-2 overflow-hidden rounded-full border bg-raised"
        >
          <div className={cx("h-full", tone)} style={{ width: `${Math.min(100, used * 100)}%` }} />
        </div>
      )}
    </div>
  );
}
