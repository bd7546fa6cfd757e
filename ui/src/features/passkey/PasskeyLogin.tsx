import { useQuery } from "@connectrpc/connect-query";
import { KeyRound } from "lucide-react";
import type { MessageInitShape } from "@bufbuild/protobuf";
import { useState } from "react";
import { Button } from "@/components/Button";
import { Problem } from "@/components/Problem";
import { sessions } from "@/features/session/queries";
import { SessionService, type CreateSessionRequestSchema } from "@/gen/deckhand/v1/session_pb";
import { get, supported } from "./webauthn";

// PasskeyLogin logs in with a passkey, where the hub and this browser have them.
export function PasskeyLogin(props: { login: (request: MessageInitShape<typeof CreateSessionRequestSchema>) => Promise<void> }) {
  const { data } = useQuery(SessionService.method.getLoginMethods, {}, { retry: false });
  const [busy, setBusy] = useState(false);
  const [error, setError] = useState<unknown>();
  if (!data?.passkeys || !supported()) return null;
  const login = async () => {
    setBusy(true);
    setError(undefined);
    try {
      const { challengeId, optionsJson } = await sessions.beginPasskeyLogin({});
      const credentialJson = await get(optionsJson);
      await props.login({ with: { case: "passkey", value: { challengeId, credentialJson } } });
    } catch (e) {
      setError(e);
    } finally {
      setBusy(false);
    }
  };
  return (
    <div className="space-y-2">
      <Button className="w-full" busy={busy} onClick={() => void login()}>
        <KeyRound aria-hidden className="size-4" /> Log in with a passkey
      </Button>
      {error !== undefined && <Problem error={error} />}
    </div>
  );
}
