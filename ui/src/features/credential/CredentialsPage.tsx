import { createClient } from "@connectrpc/connect";
import { useInfiniteQuery } from "@connectrpc/connect-query";
import { getRouteApi } from "@tanstack/react-router";
import { Plus } from "lucide-react";
import { useState } from "react";
import { toast } from "sonner";
import { byToken } from "@/api/pages";
import { useRefresh } from "@/api/refresh";
import { transport } from "@/api/transport";
import { useSession } from "@/app/session";
import { Badge } from "@/components/Badge";
import { Button } from "@/components/Button";
import { Confirm } from "@/components/Confirm";
import { Empty } from "@/components/Empty";
import { More } from "@/components/More";
import { Page } from "@/components/Page";
import { Problem } from "@/components/Problem";
import { Section } from "@/components/Section";
import { useShortcut } from "@/components/shortcuts";
import { Skeletons } from "@/components/Skeleton";
import { Cell, Row, Table } from "@/components/Table";
import { Time } from "@/components/Time";
import { may } from "@/features/session/queries";
import { CredentialService, type Credential } from "@/gen/deckhand/v1/credential_pb";
import { CreateCredential } from "./CreateCredential";
import { kindLabels, type Kind } from "./draft";
import { Requests } from "./Requests";
import { EditCredential } from "./EditCredential";
import { RotateCredential } from "./RotateCredential";
import { TestCredential } from "./TestCredential";

const credentials = createClient(CredentialService, transport);
const route = getRouteApi("/shell/credentials");

// CredentialsPage lists the credentials that agents use without having them, and the requests
// that were sent with them.
export function CredentialsPage() {
  const admin = may(useSession(), "admin");
  const search = route.useSearch();
  const navigate = route.useNavigate();
  const [creating, setCreating] = useState(false);
  useShortcut("n", "New credential", "Credentials", () => setCreating(true), admin);
  return (
    <Page
      title="Credentials"
      actions={
        admin && (
          <Button look="primary" onClick={() => setCreating(true)}>
            <Plus aria-hidden className="size-4" /> New credential
          </Button>
        )
      }
    >
      {creating && <CreateCredential onClose={() => setCreating(false)} />}
      <Credentials admin={admin} usage={(name) => void navigate({ search: { of: name } })} />
      <Section
        title={search.of ? `Requests with ${search.of}` : "Requests"}
        actions={search.of && <Button onClick={() => void navigate({ search: {} })}>Show all</Button>}
      >
        <Requests credential={search.of ?? ""} />
      </Section>
    </Page>
  );
}

function Credentials(props: { admin: boolean; usage: (name: string) => void }) {
  const [editing, setEditing] = useState<Credential>();
  const [rotating, setRotating] = useState<Credential>();
  const [testing, setTesting] = useState("");
  const [leaving, setLeaving] = useState<Credential>();
  const refresh = useRefresh(CredentialService);
  const list = useInfiniteQuery(CredentialService.method.listCredentials, { pageSize: 100, pageToken: "" }, byToken);
  const all = list.data?.pages.flatMap((page) => page.credentials) ?? [];
  if (list.isPending) return <Skeletons rows={3} />;
  if (list.error && all.length === 0) return <Problem error={list.error} retry={() => void list.refetch()} />;
  if (all.length === 0) {
    return (
      <Empty title="No credentials yet" command="deckhand credential create api --kind bearer --host api.example.com --agent coder --value-file token.txt">
        A credential is inserted into requests of an agent&apos;s commands on their way out. The commands never have it.
      </Empty>
    );
  }
  return (
    <>
      <Table label="Credentials" head={["Credential", "Hosts", "Requests", "Agents", "Last used", "Rotated", ""]}>
        {all.map((c) => (
          <Row key={c.name}>
            <Cell>
              <div className="font-medium">{c.name}</div>
              <div className="text-xs text-dim">{kindLabels[c.kind as Kind] ?? c.kind}</div>
            </Cell>
            <Cell className="break-all">
              {c.hosts.join(", ")}
              {c.ports.length > 0 && <div className="text-xs text-dim">ports {c.ports.join(", ")}</div>}
            </Cell>
            <Cell className="break-all">
              {c.methods.join(", ") || "all methods"}
              <div className="text-xs text-dim">{c.paths.join(", ") || "all paths"}</div>
            </Cell>
            <Cell>{c.agents.includes("*") ? "all agents" : c.agents.join(", ") || <Badge tone="warn">none</Badge>}</Cell>
            <Cell>{c.usedAt ? <Time at={c.usedAt} /> : "never"}</Cell>
            <Cell>
              <Time at={c.rotatedAt} />
              {c.expiresAt && (
                <div className="text-xs text-dim">
                  expires <Time at={c.expiresAt} />
                </div>
              )}
            </Cell>
            <Cell>
              <div className="flex flex-wrap gap-1">
                <Button small onClick={() => props.usage(c.name)} aria-label={`Usage of ${c.name}`}>
                  Usage
                </Button>
                {props.admin && (
                  <>
                    <Button small onClick={() => setTesting(c.name)} aria-label={`Test ${c.name}`}>
                      Test
                    </Button>
                    <Button small onClick={() => setEditing(c)} aria-label={`Edit ${c.name}`}>
                      Edit
                    </Button>
                    <Button small onClick={() => setRotating(c)} aria-label={`Rotate ${c.name}`}>
                      Rotate
                    </Button>
                    <Button small look="danger" onClick={() => setLeaving(c)} aria-label={`Delete ${c.name}`}>
                      Delete
                    </Button>
                  </>
                )}
              </div>
            </Cell>
          </Row>
        ))}
      </Table>
      <More pages={list}>More credentials</More>
      {editing && <EditCredential of={editing} onClose={() => setEditing(undefined)} />}
      {rotating && <RotateCredential of={rotating} onClose={() => setRotating(undefined)} />}
      {testing && <TestCredential name={testing} onClose={() => setTesting("")} />}
      <Confirm
        open={leaving !== undefined}
        onClose={() => setLeaving(undefined)}
        title={`Delete ${leaving?.name}`}
        action="Delete"
        typed={leaving?.name}
        danger
        run={async () => {
          await credentials.deleteCredential({ name: leaving?.name });
          await refresh();
          toast.success(`${leaving?.name} deleted.`);
        }}
      >
        <p>Requests that need it fail at once, and tasks whose personas list it fail when they begin.</p>
      </Confirm>
    </>
  );
}
