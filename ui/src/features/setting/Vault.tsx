import { createClient } from "@connectrpc/connect";
import { useQuery } from "@connectrpc/connect-query";
import { useState } from "react";
import { problemOf } from "@/api/error";
import { useRefresh } from "@/api/refresh";
import { transport } from "@/api/transport";
import { Button } from "@/components/Button";
import { Confirm } from "@/components/Confirm";
import { Problem } from "@/components/Problem";
import { Facts, Section } from "@/components/Section";
import { Time } from "@/components/Time";
import { VaultService } from "@/gen/deckhand/v1/vault_pb";

const vaults = createClient(VaultService, transport);

// Vault shows the keys that encrypt secrets at rest, and rotates them. They are of
// all organisations: only the hub's operator sees them.
export function Vault() {
  const found = useQuery(VaultService.method.getVault, {}, { retry: false, refetchInterval: 30_000 });
  const refresh = useRefresh(VaultService);
  const [rotating, setRotating] = useState(false);
  if (found.error && !problemOf(found.error).unreachable) return null; // another organisation's administrator
  const vault = found.data?.vault;
  return (
    <Section
      title="Encryption keys"
      actions={vault && <Button disabled={vault.rotatingSince !== undefined} onClick={() => setRotating(true)}>Rotate</Button>}
    >
      {found.error && <Problem error={found.error} retry={() => void found.refetch()} />}
      {vault && (
        <Facts
          of={[
            ["Active key", String(vault.primaryKey)],
            ["Keys", String(vault.keys)],
            ["Changed", <Time key="t" at={vault.changedAt} />],
            ["Rotating since", vault.rotatingSince && <Time key="t" at={vault.rotatingSince} />],
            ["Last rotated by", vault.rotatedBy],
          ]}
        />
      )}
      <Confirm
        open={rotating}
        onClose={() => setRotating(false)}
        title="Rotate the encryption key"
        action="Rotate"
        run={async () => {
          await vaults.rotateVault({});
          await refresh();
        }}
      >
        <p>A new key encrypts from now on. Everything is encrypted again in the background, and then the old keys are deleted.</p>
      </Confirm>
    </Section>
  );
}
