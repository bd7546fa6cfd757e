import { useInfiniteQuery, useMutation } from "@connectrpc/connect-query";
import { Link } from "@tanstack/react-router";
import { useState } from "react";
import { byToken, useRest } from "@/api/pages";
import { base } from "@/api/base";
import { Button } from "@/components/Button";
import { Command } from "@/components/Command";
import { Dialog } from "@/components/Dialog";
import { Field, Input, Select } from "@/components/Field";
import { Problem } from "@/components/Problem";
import { Time } from "@/components/Time";
import { NodeService, type Node } from "@/gen/deckhand/v1/node_pb";
import { joinCommand, localOnly, parseLabels } from "./search";

const lives: [seconds: number, words: string][] = [
  [900, "15 minutes"],
  [3_600, "1 hour"],
  [86_400, "1 day"],
  [604_800, "7 days"],
];

// Enrol creates a join token and shows the command that uses it. It reports when the
// machine has joined.
export function Enrol(props: { known: Node[]; onClose: () => void }) {
  const [known] = useState(() => new Set(props.known.map((node) => node.id)));
  const [ttl, setTtl] = useState(3_600);
  const [labels, setLabels] = useState("");
  const parsed = parseLabels(labels);
  const token = useMutation(NodeService.method.createJoinToken, { gcTime: 0 });
  const list = useInfiniteQuery(NodeService.method.listNodes, { pageSize: 500, pageToken: "" }, { ...byToken, enabled: token.data !== undefined });
  useRest(list);
  const joined = list.data?.pages.flatMap((page) => page.nodes).find((node) => !known.has(node.id));
  return (
    <Dialog open onClose={props.onClose} title="Enrol a node">
      {token.data ? (
        <div className="space-y-3">
          <p>
            Run this on the machine, which needs Linux and curl. It installs deckhand-node as a service and enrols the machine. It works once and expires{" "}
            <Time at={token.data.expiresAt} />. You will not see it again.
          </p>
          <Command text={joinCommand(token.data.token, base.href)} />
          {localOnly(base.href) && (
            <p className="text-warn">
              Other machines cannot reach {base.host}. Start the hub with <code>--listen</code> and <code>--tls-cert</code>, and open the console at that address.
            </p>
          )}
          <p role="status" className={joined ? "text-good" : "text-dim"}>
            {joined ? (
              <>
                <Link to="/nodes/$nodeId" params={{ nodeId: joined.name }} className="underline">
                  {joined.name}
                </Link>{" "}
                is enrolled.
              </>
            ) : (
              "Waiting for the machine…"
            )}
          </p>
          <div className="flex justify-end">
            <Button look="primary" onClick={props.onClose}>
              Done
            </Button>
          </div>
        </div>
      ) : (
        <form
          className="space-y-3"
          onSubmit={(e) => {
            e.preventDefault();
            if (typeof parsed !== "string") token.mutate({ ttl: { seconds: BigInt(ttl) }, labels: parsed });
          }}
        >
          <p className="text-dim">A join token enrols one machine. The machine creates its own key, and the token is not stored.</p>
          <Field label="Valid for">
            <Select value={ttl} onChange={(e) => setTtl(Number(e.target.value))}>
              {lives.map(([seconds, words]) => (
                <option key={seconds} value={seconds}>
                  {words}
                </option>
              ))}
            </Select>
          </Field>
          <Field label="Labels" hint="name=value, separated by commas" problem={typeof parsed === "string" ? parsed : undefined}>
            <Input value={labels} onChange={(e) => setLabels(e.target.value)} placeholder="site=berlin, rack=4" autoComplete="off" />
          </Field>
          {token.error && <Problem error={token.error} />}
          <div className="flex justify-end gap-2">
            <Button onClick={props.onClose}>Cancel</Button>
            <Button type="submit" look="primary" busy={token.isPending} disabled={typeof parsed === "string"}>
              Create command
            </Button>
          </div>
        </form>
      )}
    </Dialog>
  );
}
