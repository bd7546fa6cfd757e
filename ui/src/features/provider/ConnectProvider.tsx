import { createClient } from "@connectrpc/connect";
import { useId, useRef, useState } from "react";
import { toast } from "sonner";
import { transport } from "@/api/transport";
import { Button } from "@/components/Button";
import { Dialog } from "@/components/Dialog";
import { Field, Input } from "@/components/Field";
import { Problem } from "@/components/Problem";
import { ProviderService } from "@/gen/deckhand/v1/provider_pb";

const providers = createClient(ProviderService, transport);

const known = ["anthropic", "openai", "gemini", "qwen", "mistral"];

// ConnectProvider gives the hub a key, which it tests first. The key is in no
// state and no cache of the page: it is read from its box when it is sent, and
// the box is emptied, also when the hub does not take it.
export function ConnectProvider(props: { name: string; suggested?: string; baseUrl: string; onClose: () => void; done: () => Promise<unknown> }) {
  const [name, setName] = useState(props.name || props.suggested || "");
  const [baseUrl, setBaseUrl] = useState(props.baseUrl);
  const [expires, setExpires] = useState("");
  const [busy, setBusy] = useState(false);
  const [error, setError] = useState<unknown>();
  const key = useRef<HTMLInputElement>(null);
  const list = useId();
  const send = async () => {
    const box = key.current;
    setBusy(true);
    setError(undefined);
    try {
      const sent = providers.connectProvider({
        name: name.trim(),
        baseUrl: baseUrl.trim(),
        key: box?.value.trim() ?? "",
        expiresAt: expires ? { seconds: BigInt(Date.parse(`${expires}T23:59:59Z`) / 1000) } : undefined,
      });
      if (box) box.value = "";
      await sent;
      toast.success(`${name.trim()} connected.`);
      await props.done();
      props.onClose();
    } catch (e) {
      setError(e);
      setBusy(false);
      box?.focus();
    }
  };
  return (
    <Dialog open onClose={props.onClose} title={props.name ? `Replace the key of ${props.name}` : "Connect a provider"}>
      <form
        className="space-y-3"
        autoComplete="off"
        onSubmit={(e) => {
          e.preventDefault();
          if (!busy && name.trim()) void send();
        }}
      >
        <Field label="Provider" hint="The name that personas use: anthropic, openai, or your own name for a server with an OpenAI-compatible API.">
          <Input value={name} onChange={(e) => setName(e.target.value)} list={list} required maxLength={60} autoComplete="off" readOnly={props.name !== ""} />
        </Field>
        <datalist id={list}>
          {known.map((k) => (
            <option key={k} value={k} />
          ))}
        </datalist>
        <Field label="Key" hint="The hub tests and encrypts the key and never shows it again. Leave empty if the server needs none.">
          <Input ref={key} type="password" autoComplete="off" spellCheck={false} maxLength={4096} data-1p-ignore data-lpignore="true" />
        </Field>
        <Field label="Base URL" hint="Defaults to the provider's own URL.">
          <Input type="url" value={baseUrl} onChange={(e) => setBaseUrl(e.target.value)} placeholder="https://…" autoComplete="off" maxLength={2000} />
        </Field>
        <Field label="Key expires on (optional)">
          <Input type="date" value={expires} onChange={(e) => setExpires(e.target.value)} />
        </Field>
        {error !== undefined && <Problem error={error} />}
        <div className="flex justify-end gap-2">
          <Button onClick={props.onClose}>Cancel</Button>
          <Button type="submit" look="primary" busy={busy} disabled={!name.trim()}>
            Connect
          </Button>
        </div>
      </form>
    </Dialog>
  );
}
