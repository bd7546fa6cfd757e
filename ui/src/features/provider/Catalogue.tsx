import { useQuery } from "@connectrpc/connect-query";
import { useState } from "react";
import { useRefresh } from "@/api/refresh";
import { Badge } from "@/components/Badge";
import { Button } from "@/components/Button";
import { count, dollars } from "@/components/money";
import { Problem } from "@/components/Problem";
import { Section } from "@/components/Section";
import { Skeletons } from "@/components/Skeleton";
import { Cell, Row, Table } from "@/components/Table";
import { ProviderService, type CatalogueProvider } from "@/gen/deckhand/v1/provider_pb";
import { LogInProvider } from "./LogInProvider";

// Catalogue lists all providers that can be connected, with their documentation and
// what they were used for this month.
export function Catalogue({ connect }: { connect?: (name: string) => void }) {
  const [loggingIn, setLoggingIn] = useState<CatalogueProvider>();
  const refresh = useRefresh(ProviderService);
  const catalogue = useQuery(ProviderService.method.getProviderCatalogue, {});
  return (
    <Section title="All providers">
      {catalogue.isPending ? (
        <Skeletons rows={6} />
      ) : catalogue.error ? (
        <Problem error={catalogue.error} retry={() => void catalogue.refetch()} />
      ) : (
        <Table label="All providers" head={["Provider", "State", "Connect with", "Calls this month", "Cost this month", "Documentation", ""]}>
          {catalogue.data.providers.map((p) => (
            <Row key={p.name}>
              <Cell>
                <div className="font-medium">{p.title}</div>
                <div className="text-xs text-dim">{p.search ? `${p.name}, search engine` : p.name}</div>
              </Cell>
              <Cell>
                <Connected of={p} />
              </Cell>
              <Cell>{means(p)}</Cell>
              <Cell>{count(p.calls)}</Cell>
              <Cell>{dollars(p.usage?.costMicros ?? 0n)}</Cell>
              <Cell>
                <div className="flex gap-3">
                  {p.docsUrl && <Outside to={p.docsUrl}>Documentation</Outside>}
                  {p.keysUrl && <Outside to={p.keysUrl}>Create a key</Outside>}
                </div>
              </Cell>
              <Cell>
                {connect && (
                  <div className="flex gap-1">
                    {!p.connected && (
                      <Button small onClick={() => connect(p.name)} aria-label={`Connect ${p.title}`}>
                        Connect
                      </Button>
                    )}
                    {p.login && (
                      <Button small onClick={() => setLoggingIn(p)} aria-label={`Log in to ${p.title}`}>
                        Log in
                      </Button>
                    )}
                  </div>
                )}
              </Cell>
            </Row>
          ))}
        </Table>
      )}
      {loggingIn && <LogInProvider of={loggingIn} onClose={() => setLoggingIn(undefined)} done={refresh} />}
    </Section>
  );
}

function Connected({ of: p }: { of: CatalogueProvider }) {
  if (!p.connected) return <span className="text-dim">not connected</span>;
  return p.connected.refusedAt ? <Badge tone="bad" dot>key refused</Badge> : <Badge tone="good" dot>connected</Badge>;
}

function means(p: CatalogueProvider) {
  if (p.login) return "key or login";
  return p.keyOptional ? "key, or none" : "key";
}

function Outside({ to, children }: { to: string; children: string }) {
  return (
    <a href={to} target="_blank" rel="noreferrer" className="text-accent hover:underline">
      {children}
    </a>
  );
}
