import { createClient } from "@connectrpc/connect";
import { useInfiniteQuery, useQuery } from "@connectrpc/connect-query";
import { getRouteApi } from "@tanstack/react-router";
import { Plus } from "lucide-react";
import { useMemo, useState } from "react";
import { toast } from "sonner";
import { byToken, useRest } from "@/api/pages";
import { useRefresh } from "@/api/refresh";
import { transport } from "@/api/transport";
import { useSession } from "@/app/session";
import { Badge } from "@/components/Badge";
import { Button } from "@/components/Button";
import { Confirm } from "@/components/Confirm";
import { Empty } from "@/components/Empty";
import { Select } from "@/components/Field";
import { count, dollars } from "@/components/money";
import { Page } from "@/components/Page";
import { Problem } from "@/components/Problem";
import { Section } from "@/components/Section";
import { useShortcut } from "@/components/shortcuts";
import { Skeletons } from "@/components/Skeleton";
import { Cell, Row, Table } from "@/components/Table";
import { millis, Time, useNow } from "@/components/Time";
import { may } from "@/features/session/queries";
import { ProviderService, type ModelUsage, type Provider } from "@/gen/deckhand/v1/provider_pb";
import { Catalogue } from "./Catalogue";
import { ConnectProvider } from "./ConnectProvider";
import { Prices } from "./Prices";
import { SetPrice } from "./SetPrice";
import { sinceTime, type Since } from "./since";

const providers = createClient(ProviderService, transport);
const route = getRouteApi("/shell/providers");

// ProvidersPage lists the connected providers, and the usage and prices of models.
export function ProvidersPage() {
  const admin = may(useSession(), "admin");
  const { connect } = route.useSearch();
  const navigate = route.useNavigate();
  const [connecting, setConnecting] = useState<string | undefined>(connect);
  const [leaving, setLeaving] = useState<Provider>();
  useShortcut("n", "Connect a provider", "Providers", () => setConnecting(""), admin);
  // When a key was used or refused has no event: it is asked for again.
  const list = useInfiniteQuery(ProviderService.method.listProviders, { pageSize: 100, pageToken: "" }, { ...byToken, refetchInterval: 15_000 });
  useRest(list);
  const all = list.data?.pages.flatMap((page) => page.providers) ?? [];
  const refresh = useRefresh(ProviderService);
  return (
    <Page
      title="Providers"
      actions={
        admin && (
          <Button look="primary" onClick={() => setConnecting("")}>
            <Plus aria-hidden className="size-4" /> Connect a provider
          </Button>
        )
      }
    >
      {list.isPending ? (
        <Skeletons rows={4} />
      ) : list.error && all.length === 0 ? (
        <Problem error={list.error} retry={() => void list.refetch()} />
      ) : all.length === 0 ? (
        <Empty title="No providers yet" command="deckhand provider connect anthropic --key-file key.txt">
          Agents use the models of a provider for which you have a key. The hub stores the key encrypted.
        </Empty>
      ) : (
        <Table label="Providers" head={["Provider", "State", "Key", "Connected", "Expires", "Last used", ""]}>
          {all.map((p) => (
            <Row key={p.name}>
              <Cell>
                <div className="font-medium">{p.name}</div>
                <div className="text-xs break-all text-dim">{p.baseUrl}</div>
              </Cell>
              <Cell>
                <State of={p} />
              </Cell>
              <Cell>{p.keyEndsIn ? <code className="text-xs">…{p.keyEndsIn}</code> : <span className="text-dim">not shown</span>}</Cell>
              <Cell>
                <Time at={p.connectedAt} none="from environment variable" />
                {p.connectedBy && <div className="text-xs text-dim">by {p.connectedBy}</div>}
              </Cell>
              <Cell>
                <Time at={p.expiresAt} none="unknown" />
              </Cell>
              <Cell>
                <Time at={p.lastUsedAt} />
              </Cell>
              <Cell>
                {admin && (
                  <div className="flex gap-1">
                    <Button small onClick={() => setConnecting(p.name)}>
                      Replace key
                    </Button>
                    {p.connectedAt && (
                      <Button small look="danger" onClick={() => setLeaving(p)}>
                        Disconnect
                      </Button>
                    )}
                  </div>
                )}
              </Cell>
            </Row>
          ))}
        </Table>
      )}
      <Catalogue connect={admin ? setConnecting : undefined} />
      <Used admin={admin} />
      {connecting !== undefined && (
        <ConnectProvider
          name={all.some((p) => p.name === connecting) ? connecting : ""}
          suggested={connecting}
          baseUrl={all.find((p) => p.name === connecting)?.baseUrl ?? ""}
          onClose={() => {
            setConnecting(undefined);
            if (connect) void navigate({ search: (s) => ({ ...s, connect: undefined }), replace: true });
          }}
          done={refresh}
        />
      )}
      <Confirm
        open={leaving !== undefined}
        onClose={() => setLeaving(undefined)}
        title={`Disconnect ${leaving?.name}`}
        action="Disconnect"
        typed={leaving?.name}
        danger
        run={async () => {
          await providers.disconnectProvider({ name: leaving?.name });
          await refresh();
          toast.success(`${leaving?.name} disconnected and its key deleted.`);
        }}
      >
        <p>The hub deletes the key. Tasks that use this provider pause until it is connected again.</p>
      </Confirm>
    </Page>
  );
}

const soon = 7 * 86_400_000;

function State({ of: p }: { of: Provider }) {
  const now = useNow();
  const ends = millis(p.expiresAt);
  if (p.refusedAt) {
    return (
      <div className="space-y-1">
        <Badge tone="bad" dot>
          key refused
        </Badge>
        <div className="text-xs">
          <Time at={p.refusedAt} />: replace the key
        </div>
      </div>
    );
  }
  if (ends !== undefined && ends < now) return <Badge tone="bad" dot>key expired</Badge>;
  if (ends !== undefined && ends < now + soon) return <Badge tone="warn" dot>key expires soon</Badge>;
  return <Badge tone="good" dot>connected</Badge>;
}

const words: Record<Since, string> = { today: "Today", week: "Last 7 days", month: "This month" };

function Used({ admin }: { admin: boolean }) {
  const { since = "month" } = route.useSearch();
  const navigate = route.useNavigate();
  const [priced, setPriced] = useState<{ provider: string; model: string }>();
  const from = useMemo(() => sinceTime(since, new Date()), [since]);
  // What is used has no event of its own: it is asked for again.
  const usage = useQuery(ProviderService.method.getProviderUsage, { since: from }, { refetchInterval: 15_000 });
  const models = usage.data?.models ?? [];
  const cost = models.reduce((sum, m) => sum + (m.usage?.costMicros ?? 0n), 0n);
  return (
    <>
      <Section
        title="Usage by model"
        actions={
          <>
            <Select
              aria-label="Since"
              value={since}
              onChange={(e) => void navigate({ search: { since: e.target.value === "month" ? undefined : (e.target.value as Since) } })}
            >
              {Object.entries(words).map(([value, label]) => (
                <option key={value} value={value}>
                  {label}
                </option>
              ))}
            </Select>
            {admin && <Button onClick={() => setPriced({ provider: "", model: "" })}>Set price</Button>}
        </>
      }
    >
      {usage.isPending ? (
        <Skeletons rows={3} />
      ) : usage.error && models.length === 0 ? (
        <Problem error={usage.error} retry={() => void usage.refetch()} />
      ) : models.length === 0 ? (
        <p className="text-dim">No model calls in this period. Models without a price cannot be called.</p>
      ) : (
        <Table label="Usage by model" head={["Model", "Calls", "Input", "Output", "Cache read", "Cache write", "Cost", ""]}>
          {models.map((m) => (
            <Model key={`${m.provider}/${m.model}`} of={m} price={admin ? () => setPriced({ provider: m.provider, model: m.model }) : undefined} />
          ))}
          <Row>
            <Cell span={6} className="font-medium">
              Total
            </Cell>
            <Cell className="font-medium">{dollars(cost)}</Cell>
            <Cell />
          </Row>
        </Table>
      )}
    </Section>
    <Prices set={admin ? setPriced : undefined} />
    {priced && <SetPrice of={priced} onClose={() => setPriced(undefined)} />}
    </>
  );
}

function Model({ of: m, price }: { of: ModelUsage; price?: () => void }) {
  return (
    <Row>
      <Cell>
        <div className="font-medium break-all">{m.model}</div>
        <div className="text-xs text-dim">{m.provider}</div>
      </Cell>
      <Cell>
        {count(m.calls)}
        {m.estimated > 0n && <div className="text-xs text-dim">{count(m.estimated)} interrupted (estimated)</div>}
      </Cell>
      <Cell>{count(m.usage?.inputTokens ?? 0n)}</Cell>
      <Cell>{count(m.usage?.outputTokens ?? 0n)}</Cell>
      <Cell>{count(m.usage?.cacheReadTokens ?? 0n)}</Cell>
      <Cell>{count(m.usage?.cacheWriteTokens ?? 0n)}</Cell>
      <Cell>{dollars(m.usage?.costMicros ?? 0n)}</Cell>
      <Cell>
        {price && (
          <Button small onClick={price} aria-label={`Set the price of ${m.model}`}>
            Set price
          </Button>
        )}
      </Cell>
    </Row>
  );
}
