import { createClient } from "@connectrpc/connect";
import { useState } from "react";
import { toast } from "sonner";
import { useRefresh } from "@/api/refresh";
import { transport } from "@/api/transport";
import { Field, Input, Select, TextArea } from "@/components/Field";
import { FormDialog } from "@/components/FormDialog";
import { ImageService, type SignatureRule } from "@/gen/deckhand/v1/image_pb";

const images = createClient(ImageService, transport);

type Signer = "key" | "identity" | "regexp";

// EditSignatureRule creates a signature rule, or replaces one.
export function EditSignatureRule({ of, onClose }: { of?: SignatureRule; onClose: () => void }) {
  const [pattern, setPattern] = useState(of?.pattern ?? "");
  const [signer, setSigner] = useState<Signer>(of?.identityRegexp ? "regexp" : of?.identity ? "identity" : "key");
  const [publicKeys, setPublicKeys] = useState(of?.publicKeys ?? "");
  const [issuer, setIssuer] = useState(of?.issuer ?? "");
  const [identity, setIdentity] = useState(of?.identityRegexp || of?.identity || "");
  const [root, setRoot] = useState<File>();
  const refresh = useRefresh(ImageService);
  const run = async () => {
    const rule = { pattern: pattern.trim() };
    if (signer === "key") {
      await images.setSignatureRule({ ...rule, publicKeys });
    } else {
      const trustedRoot = root ? new Uint8Array(await root.arrayBuffer()) : undefined;
      await images.setSignatureRule({ ...rule, issuer: issuer.trim(), [signer === "regexp" ? "identityRegexp" : "identity"]: identity.trim(), trustedRoot });
    }
    await refresh();
    toast.success(`Signature rule for ${rule.pattern} saved.`);
  };
  return (
    <FormDialog title={of ? `Change the rule for ${of.pattern}` : "New signature rule"} action="Save" ready={pattern.trim() !== ""} onClose={onClose} run={run}>
      <Field label="Images" hint="A repository with its registry, or all below a path: ghcr.io/team/*.">
        <Input value={pattern} onChange={(e) => setPattern(e.target.value)} placeholder="ghcr.io/team/*" autoComplete="off" spellCheck={false} maxLength={255} disabled={of !== undefined} />
      </Field>
      <Field label="Signed by">
        <Select className="w-full" value={signer} onChange={(e) => setSigner(e.target.value as Signer)}>
          <option value="key">A public key</option>
          <option value="identity">An identity</option>
          <option value="regexp">Identities that match an expression</option>
        </Select>
      </Field>
      {signer === "key" ? (
        <Field label="Public keys" hint="In PEM, as cosign.pub has one. One of them must have signed.">
          <TextArea value={publicKeys} onChange={(e) => setPublicKeys(e.target.value)} rows={6} spellCheck={false} className="font-mono text-xs" />
        </Field>
      ) : (
        <>
          <Field label="Issuer" hint="Where the identity logged in.">
            <Input value={issuer} onChange={(e) => setIssuer(e.target.value)} placeholder="https://token.actions.githubusercontent.com" autoComplete="off" spellCheck={false} maxLength={1024} />
          </Field>
          <Field label={signer === "regexp" ? "Expression" : "Identity"} hint={signer === "regexp" ? "It must match the whole identity." : undefined}>
            <Input value={identity} onChange={(e) => setIdentity(e.target.value)} autoComplete="off" spellCheck={false} maxLength={1024} />
          </Field>
          <Field label="Trusted root" hint={of?.trustedRootDigest ? "Choose the file again: saving replaces the whole rule." : "The trusted_root.json of sigstore, or of your own."}>
            <Input type="file" accept=".json,application/json" onChange={(e) => setRoot(e.target.files?.[0])} />
          </Field>
        </>
      )}
    </FormDialog>
  );
}
