import { createClient } from "@connectrpc/connect";
import { useInfiniteQuery } from "@connectrpc/connect-query";
import { useState } from "react";
import { toast } from "sonner";
import { byToken } from "@/api/pages";
import { useRefresh } from "@/api/refresh";
import { transport } from "@/api/transport";
import { Button } from "@/components/Button";
import { Confirm } from "@/components/Confirm";
import { Literal } from "@/components/Literal";
import { More } from "@/components/More";
import { Problem } from "@/components/Problem";
import { Section } from "@/components/Section";
import { Skeletons } from "@/components/Skeleton";
import { Cell, Row, Table } from "@/components/Table";
import { Time } from "@/components/Time";
import { ImageService, type SignatureRule } from "@/gen/deckhand/v1/image_pb";
import { EditSignatureRule } from "./EditSignatureRule";

const images = createClient(ImageService, transport);

// SignatureRules shows who must have signed images. Administrators change it.
export function SignatureRules({ admin }: { admin: boolean }) {
  const [editing, setEditing] = useState<SignatureRule | "new">();
  const [leaving, setLeaving] = useState<string>();
  const refresh = useRefresh(ImageService);
  const list = useInfiniteQuery(ImageService.method.listSignatureRules, { pageSize: 100, pageToken: "" }, byToken);
  const all = list.data?.pages.flatMap((page) => page.rules) ?? [];
  return (
    <Section title="Signature rules" actions={admin && <Button onClick={() => setEditing("new")}>New signature rule</Button>}>
      {list.isPending ? (
        <Skeletons rows={2} />
      ) : list.error && all.length === 0 ? (
        <Problem error={list.error} retry={() => void list.refetch()} />
      ) : all.length === 0 ? (
        <p className="rounded-lg border bg-panel p-3 text-dim">No signature rules: images need no signature.</p>
      ) : (
        <Table label="Signature rules" head={["Images", "Signed by", "Changed by", "Changed", ""]}>
          {all.map((r) => (
            <Row key={r.pattern}>
              <Cell className="font-medium break-all">{r.pattern}</Cell>
              <Cell className="break-all">
                <Literal text={r.signer} />
                {r.trustedRootDigest && <div className="text-xs text-dim">trusted root {r.trustedRootDigest}</div>}
              </Cell>
              <Cell>{r.setBy}</Cell>
              <Cell>
                <Time at={r.setAt} />
              </Cell>
              <Cell>
                {admin && (
                  <div className="flex gap-1">
                    <Button small onClick={() => setEditing(r)} aria-label={`Change the rule for ${r.pattern}`}>
                      Change
                    </Button>
                    <Button small look="danger" onClick={() => setLeaving(r.pattern)} aria-label={`Delete the rule for ${r.pattern}`}>
                      Delete
                    </Button>
                  </div>
                )}
              </Cell>
            </Row>
          ))}
        </Table>
      )}
      <More pages={list}>More signature rules</More>
      {editing && <EditSignatureRule of={editing === "new" ? undefined : editing} onClose={() => setEditing(undefined)} />}
      <Confirm
        open={leaving !== undefined}
        onClose={() => setLeaving(undefined)}
        title={`Delete the rule for ${leaving}`}
        action="Delete"
        typed={leaving}
        danger
        run={async () => {
          await images.deleteSignatureRule({ pattern: leaving });
          await refresh();
          toast.success(`Signature rule for ${leaving} deleted.`);
        }}
      >
        <p>Agents can then use these images without a signature, unless another rule matches them.</p>
      </Confirm>
    </Section>
  );
}
