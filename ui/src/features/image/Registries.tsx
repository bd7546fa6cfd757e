import { createClient } from "@connectrpc/connect";
import { useInfiniteQuery } from "@connectrpc/connect-query";
import { useRef, useState } from "react";
import { toast } from "sonner";
import { byToken } from "@/api/pages";
import { useRefresh } from "@/api/refresh";
import { transport } from "@/api/transport";
import { Button } from "@/components/Button";
import { Confirm } from "@/components/Confirm";
import { Field, Input } from "@/components/Field";
import { FormDialog } from "@/components/FormDialog";
import { More } from "@/components/More";
import { Problem } from "@/components/Problem";
import { Section } from "@/components/Section";
import { Skeletons } from "@/components/Skeleton";
import { Cell, Row, Table } from "@/components/Table";
import { Time } from "@/components/Time";
import { ImageService, type Registry } from "@/gen/deckhand/v1/image_pb";

const images = createClient(ImageService, transport);

// Registries lists and edits the credentials and mirrors of registries. It is for
// admins.
export function Registries() {
  const [editing, setEditing] = useState<Registry | "new">();
  const [leaving, setLeaving] = useState<string>();
  const refresh = useRefresh(ImageService);
  const list = useInfiniteQuery(ImageService.method.listRegistries, { pageSize: 100, pageToken: "" }, byToken);
  const all = list.data?.pages.flatMap((page) => page.registries) ?? [];
  return (
    <Section title="Registries" actions={<Button onClick={() => setEditing("new")}>Add registry</Button>}>
      {list.isPending ? (
        <Skeletons rows={2} />
      ) : list.error && all.length === 0 ? (
        <Problem error={list.error} retry={() => void list.refetch()} />
      ) : all.length === 0 ? (
        <p className="rounded-lg border bg-panel p-3 text-dim">No registries: images are pulled without credentials and without mirrors.</p>
      ) : (
        <Table label="Registries" head={["Registry", "User name", "Password", "Mirror", "Changed by", "Changed", ""]}>
          {all.map((r) => (
            <Row key={r.host}>
              <Cell className="font-medium break-all">{r.host}</Cell>
              <Cell className="break-all">{r.username || <span className="text-dim">none</span>}</Cell>
              <Cell>{r.hasPassword ? "stored" : <span className="text-dim">none</span>}</Cell>
              <Cell className="break-all">{r.mirror || <span className="text-dim">none</span>}</Cell>
              <Cell>{r.setBy}</Cell>
              <Cell>
                <Time at={r.setAt} />
              </Cell>
              <Cell>
                <div className="flex gap-1">
                  <Button small onClick={() => setEditing(r)} aria-label={`Change ${r.host}`}>
                    Change
                  </Button>
                  <Button small look="danger" onClick={() => setLeaving(r.host)} aria-label={`Delete ${r.host}`}>
                    Delete
                  </Button>
                </div>
              </Cell>
            </Row>
          ))}
        </Table>
      )}
      <More pages={list}>More registries</More>
      {editing && <EditRegistry of={editing === "new" ? undefined : editing} onClose={() => setEditing(undefined)} />}
      <Confirm
        open={leaving !== undefined}
        onClose={() => setLeaving(undefined)}
        title={`Delete ${leaving}`}
        action="Delete"
        danger
        run={async () => {
          await images.deleteRegistry({ host: leaving });
          await refresh();
          toast.success(`Credentials and mirror of ${leaving} deleted.`);
        }}
      >
        <p>Its credentials and its mirror are deleted. Images that are on nodes stay there.</p>
      </Confirm>
    </Section>
  );
}

// EditRegistry stores credentials and a mirror. The password is in no state of the page:
// it is read from its box when it is sent, and the box is emptied.
function EditRegistry({ of, onClose }: { of?: Registry; onClose: () => void }) {
  const [host, setHost] = useState(of?.host ?? "");
  const [username, setUsername] = useState(of?.username ?? "");
  const [mirror, setMirror] = useState(of?.mirror ?? "");
  const password = useRef<HTMLInputElement>(null);
  const refresh = useRefresh(ImageService);
  return (
    <FormDialog
      title={of ? `Change ${of.host}` : "Add registry"}
      action="Save"
      ready={host.trim() !== ""}
      onClose={onClose}
      run={async () => {
        const box = password.current;
        const sent = images.setRegistry({ host: host.trim(), username: username.trim(), password: box?.value.trim() ?? "", mirror: mirror.trim() });
        if (box) box.value = "";
        await sent;
        await refresh();
        toast.success(`${host.trim()} saved.`);
      }}
    >
      <Field label="Registry" hint="With a port if it has one; docker.io for Docker Hub.">
        <Input value={host} onChange={(e) => setHost(e.target.value)} placeholder="ghcr.io" autoComplete="off" spellCheck={false} maxLength={255} disabled={of !== undefined} />
      </Field>
      <Field label="User name" hint="Leave empty for no credentials.">
        <Input value={username} onChange={(e) => setUsername(e.target.value)} autoComplete="off" spellCheck={false} maxLength={255} />
      </Field>
      <Field label="Password or token" hint={of?.hasPassword ? "Stored passwords are never shown. Saving replaces all: enter it again." : "It is encrypted and never shown again."}>
        <Input ref={password} type="password" autoComplete="off" spellCheck={false} maxLength={4096} data-1p-ignore data-lpignore="true" />
      </Field>
      <Field label="Mirror" hint="Asked before the registry: a host, with a port and a path if it has them.">
        <Input value={mirror} onChange={(e) => setMirror(e.target.value)} placeholder="mirror.example.com/dockerhub" autoComplete="off" spellCheck={false} maxLength={512} />
      </Field>
    </FormDialog>
  );
}
