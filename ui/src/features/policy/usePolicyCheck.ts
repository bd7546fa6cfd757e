import { createClient } from "@connectrpc/connect";
import { DeckhandError } from "@deckhand/sdk";
import { useEffect, useState } from "react";
import { transport } from "@/api/transport";
import { remarksOf, type Remark } from "@/features/persona/problems";
import { PolicyService } from "@/gen/deckhand/v1/policy_pb";

// filename is how the hub names the policy in what it says of it.
export const filename = "policy.yaml";

const policies = createClient(PolicyService, transport);

// Time without a change after which a draft is checked, in milliseconds.
const pause = 350;

// usePolicyCheck has the hub check a draft whenever it has changed: its syntax and
// its examples. Nothing is stored.
export function usePolicyCheck(yaml: string, agentId: string): { busy: boolean; remarks: Remark[]; error?: unknown } {
  const [check, setCheck] = useState<{ busy: boolean; remarks: Remark[]; error?: unknown }>({ busy: true, remarks: [] });
  useEffect(() => {
    const abort = new AbortController();
    setCheck((c) => (c.busy ? c : { ...c, busy: true }));
    const timer = setTimeout(() => {
      policies.testPolicy({ agentId, own: agentId !== "", yaml, argumentsJson: '{"command":"true"}' }, { signal: abort.signal }).then(
        () => setCheck({ busy: false, remarks: [] }),
        (error: unknown) => {
          if (abort.signal.aborted) return;
          if (DeckhandError.from(error).rpcCode === "invalid_argument") setCheck({ busy: false, remarks: remarksOf(error, filename) });
          else setCheck({ busy: false, remarks: [], error });
        },
      );
    }, pause);
    return () => {
      clearTimeout(timer);
      abort.abort();
    };
  }, [yaml, agentId]);
  return check;
}
