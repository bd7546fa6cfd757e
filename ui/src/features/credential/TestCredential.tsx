import { createClient } from "@connectrpc/connect";
import { useState } from "react";
import { transport } from "@/api/transport";
import { Badge } from "@/components/Badge";
import { Button } from "@/components/Button";
import { Dialog } from "@/components/Dialog";
import { Field, Input } from "@/components/Field";
import { Literal } from "@/components/Literal";
import { Problem } from "@/components/Problem";
import { CredentialService, type TestCredentialResponse } from "@/gen/deckhand/v1/credential_pb";

const credentials = createClient(CredentialService, transport);

// TestCredential sends one request with a credential, and shows the response.
export function TestCredential(props: { name: string; onClose: () => void }) {
  const [url, setUrl] = useState("");
  const [busy, setBusy] = useState(false);
  const [result, setResult] = useState<TestCredentialResponse>();
  const [error, setError] = useState<unknown>();
  const send = async () => {
    setBusy(true);
    setError(undefined);
    setResult(undefined);
    try {
      setResult(await credentials.testCredential({ name: props.name, url: url.trim() }));
    } catch (e) {
      setError(e);
    } finally {
      setBusy(false);
    }
  };
  return (
    <Dialog open onClose={props.onClose} title={`Test ${props.name}`}>
      <form
        className="space-y-3"
        onSubmit={(e) => {
          e.preventDefault();
          void send();
        }}
      >
        <Field label="URL" hint="Leave empty for the URL that shows best whether the value is valid.">
          <Input value={url} onChange={(e) => setUrl(e.target.value)} autoComplete="off" maxLength={4000} />
        </Field>
        {result && (
          <div className="space-y-2" role="status">
            <p className="break-all text-sm">
              <Badge tone={result.ok ? "good" : "bad"} dot>
                {result.status ? `HTTP ${result.status}` : "No response"}
              </Badge>{" "}
              {result.url}
            </p>
            {result.problem && (
              <p className="text-sm text-bad">
                <Literal text={result.problem} />
                {result.fix && <span className="block text-dim">{result.fix}</span>}
              </p>
            )}
            {result.body && (
              <pre className="max-h-60 overflow-auto rounded-md border p-2 text-xs whitespace-pre-wrap">
                <Literal text={result.body} />
              </pre>
            )}
          </div>
        )}
        {error !== undefined && <Problem error={error} />}
        <div className="flex justify-end gap-2">
          <Button onClick={props.onClose}>Close</Button>
          <Button type="submit" look="primary" busy={busy}>
            Send request
          </Button>
        </div>
      </form>
    </Dialog>
  );
}
