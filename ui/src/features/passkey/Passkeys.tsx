import { timestampMs } from "@bufbuild/protobuf/wkt";
import { useQuery } from "@connectrpc/connect-query";
import { useState } from "react";
import { toast } from "sonner";
import { useRefresh } from "@/api/refresh";
import { useSession } from "@/app/session";
import { Badge } from "@/components/Badge";
import { Button } from "@/components/Button";
import { Field, Input } from "@/components/Field";
import { FormDialog } from "@/components/FormDialog";
import { Problem } from "@/components/Problem";
import { Section } from "@/components/Section";
import { showError } from "@/components/showError";
import { Skeletons } from "@/components/Skeleton";
import { Cell, Row, Table } from "@/components/Table";
import { Time } from "@/components/Time";
import { may } from "@/features/session/queries";
import { browserOf } from "@/features/setting/browser";
import { PasskeyService, type Passkey } from "@/gen/deckhand/v1/passkey_pb";
import { SessionService, type Session } from "@/gen/deckhand/v1/session_pb";
import { passkeys, prove } from "./prove";
import { create, supported } from "./webauthn";

// Passkeys is the part of the settings about the user's passkeys. It says what is
// missing where there cannot be any.
export function Passkeys() {
  const methods = useQuery(SessionService.method.getLoginMethods, {});
  const list = useQuery(PasskeyService.method.listPasskeys, {});
  const refresh = useRefresh(PasskeyService);
  const session = useSession();
  const admin = may(session, "admin");
  const [adding, setAdding] = useState(false);
  const [renaming, setRenaming] = useState<Passkey>();
  const mine = list.data?.passkeys ?? [];
  const missing = whatIsMissing(methods.data) ?? (list.data && mine.length === 0 && !justSignedIn(session) ? signInFirst : undefined);
  const remove = async (p: Passkey) => {
    try {
      await passkeys.deletePasskey({ passkeyId: p.id, proof: await prove({ case: "deletePasskeyId", value: p.id }) });
      toast(`Passkey ${p.name} removed`);
      await refresh();
    } catch (e) {
      showError(e);
    }
  };
  return (
    <Section title="Passkeys" actions={<Button disabled={missing !== undefined} onClick={() => setAdding(true)}>Add passkey</Button>}>
      {missing !== undefined && (
        <p role="note" className="mb-2 rounded-lg border border-warn bg-panel p-3 break-words">
          {missing}
        </p>
      )}
      {list.isPending ? (
        <Skeletons rows={2} />
      ) : list.error ? (
        <Problem error={list.error} retry={() => void list.refetch()} />
      ) : mine.length === 0 ? (
        <p className="rounded-lg border bg-panel p-3 text-dim">No passkeys. A passkey logs you in with your finger, face or PIN, and confirms dangerous approvals.</p>
      ) : (
        <Table label="Passkeys" head={["Name", "Created", "Last used", ""]}>
          {mine.map((p) => (
            <Row key={p.id}>
              <Cell className="break-words">
                {p.name} {p.synced && <Badge>synced</Badge>}
              </Cell>
              <Cell>
                <Time at={p.createdAt} />
              </Cell>
              <Cell>
                <Time at={p.usedAt} />
              </Cell>
              <Cell className="text-right">
                <span className="inline-flex flex-wrap justify-end gap-2">
                  <Button small aria-label={`Rename the passkey ${p.name}`} onClick={() => setRenaming(p)}>
                    Rename
                  </Button>
                  <Button small look="danger" aria-label={`Remove the passkey ${p.name}`} onClick={() => void remove(p)}>
                    Remove
                  </Button>
                </span>
              </Cell>
            </Row>
          ))}
        </Table>
      )}
      {admin && mine.length > 0 && <Rules />}
      {adding && <Add more={mine.length > 0} onClose={() => setAdding(false)} onDone={refresh} />}
      {renaming && <Rename of={renaming} onClose={() => setRenaming(undefined)} onDone={refresh} />}
    </Section>
  );
}

// justSignedIn reports whether the user has proved who they are in the last ten minutes:
// only then may they add their first passkey.
export const justSignedIn = (session: Session, now = Date.now()) =>
  session.signedInAt !== undefined && now - timestampMs(session.signedInAt) < 10 * 60_000;

const signInFirst =
  "Your first passkey takes a sign-in of the last ten minutes. Log out, log in again with your password, your identity provider or the link that sudo deckhand open prints on the hub's machine, and add the passkey then. An API token is not enough.";

// whatIsMissing says why there can be no passkeys on this page; undefined if there can.
export function whatIsMissing(methods: { passkeys: boolean; passkeysMissing: string; publicUrl: string } | undefined): string | undefined {
  if (!methods) return undefined;
  if (!methods.passkeys) return `No passkeys and no notifications on phones: ${methods.passkeysMissing} The guide is docs/phone.md.`;
  if (!supported()) {
    return methods.publicUrl && !location.href.startsWith(methods.publicUrl)
      ? `Open the console at ${methods.publicUrl}: passkeys and notifications belong to that address.`
      : "This browser has no passkeys.";
  }
  if (methods.publicUrl && !location.href.startsWith(methods.publicUrl)) return `Open the console at ${methods.publicUrl}: passkeys and notifications belong to that address.`;
  return undefined;
}

function Add(props: { more: boolean; onClose: () => void; onDone: () => Promise<unknown> }) {
  const [name, setName] = useState(() => browserOf(navigator.userAgent));
  return (
    <FormDialog
      title="Add passkey"
      action="Create passkey"
      ready={name.trim() !== ""}
      onClose={props.onClose}
      run={async () => {
        const { challengeId, optionsJson } = await passkeys.beginPasskeyRegistration({});
        const credentialJson = await create(optionsJson);
        // Another one takes one that is there, which signs the new one's key: who has only
        // stolen a session has none.
        const proof = props.more ? await prove({ case: "registrationCredentialJson", value: credentialJson }) : undefined;
        await passkeys.createPasskey({ challengeId, credentialJson, name: name.trim(), proof });
        toast("Passkey added");
        await props.onDone();
      }}
    >
      {props.more && <p>Your browser makes the new passkey first, and then asks for one that you have.</p>}
      <Field label="Name" hint="To tell your devices apart.">
        <Input value={name} maxLength={100} onChange={(e) => setName(e.target.value)} autoFocus />
      </Field>
    </FormDialog>
  );
}

function Rename(props: { of: Passkey; onClose: () => void; onDone: () => Promise<unknown> }) {
  const [name, setName] = useState(props.of.name);
  return (
    <FormDialog
      title="Rename passkey"
      action="Rename"
      ready={name.trim() !== ""}
      onClose={props.onClose}
      run={async () => {
        await passkeys.renamePasskey({ passkeyId: props.of.id, name: name.trim() });
        await props.onDone();
      }}
    >
      <Field label="Name">
        <Input value={name} maxLength={100} onChange={(e) => setName(e.target.value)} autoFocus />
      </Field>
    </FormDialog>
  );
}

// Rules is what the organisation asks a passkey for.
function Rules() {
  const rules = useQuery(PasskeyService.method.getPasskeyRules, {});
  const refresh = useRefresh(PasskeyService);
  const [busy, setBusy] = useState(false);
  const on = rules.data?.rules?.dangerousApprovals ?? false;
  const set = async (dangerousApprovals: boolean) => {
    setBusy(true);
    try {
      await passkeys.setPasskeyRules({ rules: { dangerousApprovals }, proof: await prove({ case: "rules", value: { dangerousApprovals } }) });
      await refresh();
    } catch (e) {
      showError(e);
    } finally {
      setBusy(false);
    }
  };
  return (
    <label className="mt-2 flex min-h-10 items-center gap-2 rounded-lg border bg-panel p-3">
      <input type="checkbox" className="size-4 accent-accent" checked={on} disabled={busy || !rules.data} onChange={(e) => void set(e.target.checked)} />
      <span>
        Approving a dangerous call takes a passkey
        <span className="block text-xs text-dim">For everybody in the organisation. Changing this takes a passkey, too.</span>
      </span>
    </label>
  );
}
