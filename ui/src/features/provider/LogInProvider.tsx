import { createClient } from "@connectrpc/connect";
import { useEffect, useRef, useState } from "react";
import { toast } from "sonner";
import { transport } from "@/api/transport";
import { Button } from "@/components/Button";
import { Dialog } from "@/components/Dialog";
import { Field, Input } from "@/components/Field";
import { Problem } from "@/components/Problem";
import { ProviderService, type CatalogueProvider } from "@/gen/deckhand/v1/provider_pb";
import { address, begin, listen, redirectURL, type Attempt, type Came } from "./login";

const providers = createClient(ProviderService, transport);

// LogInProvider connects a provider by OAuth, with an OAuth client of the operator's. The
// provider's page opens in a window of its own.
export function LogInProvider(props: { of: CatalogueProvider; onClose: () => void; done: () => Promise<unknown> }) {
  const { of: p } = props;
  const [clientId, setClientId] = useState("");
  const [authURL, setAuthURL] = useState(p.loginUrl);
  const [tokenURL, setTokenURL] = useState("");
  const [baseUrl, setBaseUrl] = useState(p.connected?.baseUrl ?? "");
  const [attempt, setAttempt] = useState<Attempt>();
  const [waiting, setWaiting] = useState(false);
  const [error, setError] = useState<unknown>();
  const secret = useRef<HTMLInputElement>(null);
  useEffect(() => {
    // Before the button is pressed: a window that opens later is blocked.
    begin().then(setAttempt, setError);
  }, []);
  const finish = async (used: Attempt, came: Came) => {
    try {
      if (!came.code) throw new Error(`The provider gave no code: ${came.error || "unknown error"}.`);
      await providers.connectProvider({
        name: p.name,
        baseUrl: baseUrl.trim(),
        login: { clientId: clientId.trim(), clientSecret: secret.current?.value ?? "", tokenUrl: tokenURL.trim(), code: came.code, codeVerifier: used.verifier, redirectUrl: redirectURL() },
      });
      toast.success(`${p.title} connected.`);
      await props.done();
      props.onClose();
    } catch (e) {
      setError(e);
      setWaiting(false);
      begin().then(setAttempt, setError); // a code and its verifier are good for once
    }
  };
  const finishing = useRef(finish);
  finishing.current = finish;
  useEffect(() => (waiting && attempt ? listen(attempt, (came) => void finishing.current(attempt, came)) : undefined), [waiting, attempt]);
  const open = () => {
    if (!attempt) return;
    setError(undefined);
    try {
      window.open(address(authURL.trim(), clientId.trim(), p.loginScopes, attempt), "_blank", "popup,width=600,height=720");
      setWaiting(true);
    } catch (e) {
      setError(e);
    }
  };
  return (
    <Dialog open onClose={props.onClose} title={`Log in to ${p.title}`}>
      <form
        className="space-y-3"
        autoComplete="off"
        onSubmit={(e) => {
          e.preventDefault();
          open();
        }}
      >
        <p>
          Create an OAuth client of the type “web application” with the provider, and allow it this redirect address:{" "}
          <code className="text-xs break-all">{redirectURL()}</code>
        </p>
        <Field label="Client ID">
          <Input value={clientId} onChange={(e) => setClientId(e.target.value)} required maxLength={500} autoComplete="off" />
        </Field>
        <Field label="Client secret" hint="Leave empty for a public client. The hub encrypts it and never shows it again.">
          <Input ref={secret} type="password" autoComplete="off" spellCheck={false} maxLength={500} data-1p-ignore data-lpignore="true" />
        </Field>
        <Field label="Login URL">
          <Input type="url" value={authURL} onChange={(e) => setAuthURL(e.target.value)} required maxLength={2000} autoComplete="off" />
        </Field>
        <Field label="Token URL" hint="Defaults to the provider's own URL.">
          <Input type="url" value={tokenURL} onChange={(e) => setTokenURL(e.target.value)} placeholder="https://…" maxLength={2000} autoComplete="off" />
        </Field>
        <Field label="Base URL" hint="Defaults to the provider's own URL.">
          <Input type="url" value={baseUrl} onChange={(e) => setBaseUrl(e.target.value)} placeholder="https://…" maxLength={2000} autoComplete="off" />
        </Field>
        {waiting && <p role="status">Waiting for you to log in, in the other window.</p>}
        {error !== undefined && <Problem error={error} />}
        <div className="flex justify-end gap-2">
          <Button onClick={props.onClose}>Cancel</Button>
          <Button type="submit" look="primary" disabled={!attempt || !clientId.trim()}>
            {waiting ? "Open again" : "Log in"}
          </Button>
        </div>
      </form>
    </Dialog>
  );
}
