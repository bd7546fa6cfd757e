import { createClient } from "@connectrpc/connect";
import { useQuery } from "@connectrpc/connect-query";
import { useState } from "react";
import { useRefresh } from "@/api/refresh";
import { transport } from "@/api/transport";
import { useSession } from "@/app/session";
import { Badge } from "@/components/Badge";
import { Button } from "@/components/Button";
import { Confirm } from "@/components/Confirm";
import { Literal } from "@/components/Literal";
import { Problem } from "@/components/Problem";
import { Section } from "@/components/Section";
import { showError } from "@/components/showError";
import { Cell, Row, Table } from "@/components/Table";
import { Time } from "@/components/Time";
import { may } from "@/features/session/queries";
import { QueueService, type Worker } from "@/gen/deckhand/v1/queue_pb";

const queue = createClient(QueueService, transport);

// Workers lists the processes that run the agents' model loops, and drains them.
export function Workers() {
  const admin = may(useSession(), "admin");
  // Workers have no events: the list is asked for again.
  const list = useQuery(QueueService.method.listWorkers, { pageSize: 500 }, { refetchInterval: 5_000 });
  const refresh = useRefresh(QueueService);
  const [draining, setDraining] = useState<Worker>();
  const workers = list.data?.workers ?? [];
  const undrain = async (w: Worker) => {
    try {
      await queue.undrainWorker({ workerId: w.id });
      await refresh();
    } catch (e) {
      showError(e);
    }
  };
  return (
    <Section title="Workers">
      {list.error && workers.length === 0 ? (
        <Problem error={list.error} retry={() => void list.refetch()} />
      ) : list.data && workers.length === 0 ? (
        <p className="rounded-lg border bg-panel p-3 text-dim">No worker runs: no task can start. Start one with `deckhand worker`.</p>
      ) : (
        <Table label="Workers" head={["Worker", "State", "Tasks", "Pool", "Version", "Last seen", ""]}>
          {workers.map((w) => (
            <Row key={w.id}>
              <Cell>{w.name}</Cell>
              <Cell className="max-w-80 break-words">
                {w.drain ? <Badge tone="warn">drained by {w.drain.by}</Badge> : w.pressure ? <Badge tone="warn">takes nothing new</Badge> : <Badge tone="good">takes tasks</Badge>}
                {(w.drain?.reason || w.pressure) && (
                  <div className="pt-1 text-xs text-dim">
                    <Literal text={w.drain?.reason || w.pressure} />
                  </div>
                )}
              </Cell>
              <Cell>
                {w.active} of {w.slots}
              </Cell>
              <Cell>{w.pool}</Cell>
              <Cell>{w.version}</Cell>
              <Cell>
                <Time at={w.lastSeenAt} />
              </Cell>
              <Cell className="text-right">
                {admin &&
                  (w.drain ? (
                    <Button small aria-label={`Undrain ${w.name}`} onClick={() => void undrain(w)}>
                      Undrain
                    </Button>
                  ) : (
                    <Button small aria-label={`Drain ${w.name}`} onClick={() => setDraining(w)}>
                      Drain
                    </Button>
                  ))}
              </Cell>
            </Row>
          ))}
        </Table>
      )}
      <Confirm
        open={draining !== undefined}
        onClose={() => setDraining(undefined)}
        title={`Drain ${draining?.name ?? ""}`}
        action="Drain"
        reason
        run={async (reason) => {
          await queue.drainWorker({ workerId: draining!.id, reason: reason.slice(0, 200) });
          await refresh();
        }}
      >
        <p>It takes no new tasks. The tasks that it runs go on.</p>
      </Confirm>
    </Section>
  );
}
