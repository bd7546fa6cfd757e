import { useInfiniteQuery } from "@connectrpc/connect-query";
import { useState } from "react";
import { byToken, useRest } from "@/api/pages";
import { Badge } from "@/components/Badge";
import { Button } from "@/components/Button";
import { Input } from "@/components/Field";
import { Problem } from "@/components/Problem";
import { Section } from "@/components/Section";
import { Skeletons } from "@/components/Skeleton";
import { Cell, Row, Table } from "@/components/Table";
import { Time } from "@/components/Time";
import { ProviderService } from "@/gen/deckhand/v1/provider_pb";

const usd = (v: number) => `$${v.toFixed(v !== 0 && v < 0.1 ? 3 : 2)}`;

// Prices lists the prices of models: the built-in ones, and those that an admin set.
export function Prices(props: { set?: (of: { provider: string; model: string }) => void }) {
  const { set } = props;
  const [text, setText] = useState("");
  const list = useInfiniteQuery(ProviderService.method.listPrices, { pageSize: 500, pageToken: "" }, byToken);
  useRest(list); // it is searched here
  const { data, error, isPending, refetch } = list;
  const shown = data?.pages.flatMap((page) => page.prices).filter((p) => `${p.provider}/${p.model}`.toLowerCase().includes(text.trim().toLowerCase())) ?? [];
  return (
    <Section
      title="Prices per million tokens"
      actions={<Input aria-label="Find a model" placeholder="Find a model" className="max-w-56" value={text} onChange={(e) => setText(e.target.value)} />}
    >
      {isPending ? (
        <Skeletons rows={4} />
      ) : error ? (
        <Problem error={error} retry={() => void refetch()} />
      ) : shown.length === 0 ? (
        <p className="text-dim">No matching model. Models without a price cannot be called.</p>
      ) : (
        <Table label="Prices" head={["Model", "Input", "Output", "Cache read", "Cache write", "Set by", ""]}>
          {shown.map((p) => (
            <Row key={`${p.provider}/${p.model}`}>
              <Cell>
                <div className="font-medium break-all">{p.model}</div>
                <div className="text-xs text-dim">{p.provider}</div>
              </Cell>
              <Cell>{usd(p.input)}</Cell>
              <Cell>{usd(p.output)}</Cell>
              <Cell>{usd(p.cacheRead)}</Cell>
              <Cell>{usd(p.cacheWrite)}</Cell>
              <Cell>
                {p.setBy ? (
                  <>
                    <Badge tone="info">{p.setBy}</Badge> <Time at={p.setAt} />
                  </>
                ) : (
                  <span className="text-dim">built-in</span>
                )}
              </Cell>
              <Cell>
                {set && p.provider !== "script" && (
                  <Button small aria-label={`Change the price of ${p.model}`} onClick={() => set({ provider: p.provider, model: p.model })}>
                    Change
                  </Button>
                )}
              </Cell>
            </Row>
          ))}
        </Table>
      )}
    </Section>
  );
}
