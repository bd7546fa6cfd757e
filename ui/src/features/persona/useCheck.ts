import { createClient } from "@connectrpc/connect";
import { useEffect, useState } from "react";
import { problemOf } from "@/api/error";
import { transport } from "@/api/transport";
import { AgentService } from "@/gen/deckhand/v1/agent_pb";
import { remarksOf, type Remark } from "./problems";

// filename is how the hub names the persona in what it says of it.
export const filename = "persona.md";

// Check is what the hub says of a draft. With busy, of the one before.
export type Check = {
  busy: boolean;
  remarks: Remark[];
  // What applying would do: "created", "updated" or "unchanged"; empty while
  // something is wrong.
  change: string;
  // Why it could not be checked.
  error?: unknown;
};

const agents = createClient(AgentService, transport);

// Time without a change after which a draft is checked, in milliseconds.
const pause = 350;

// useCheck has the hub check a draft whenever it has changed. Nothing is stored.
export function useCheck(markdown: string, script: string): Check {
  const [check, setCheck] = useState<Check>({ busy: true, remarks: [], change: "" });
  useEffect(() => {
    const abort = new AbortController();
    setCheck((c) => (c.busy ? c : { ...c, busy: true }));
    if (markdown.trim() === "") {
      setCheck({ busy: false, remarks: [{ line: 1, message: "The persona is empty. Start with front matter between two lines of ---." }], change: "" });
      return undefined;
    }
    const timer = setTimeout(() => {
      agents.applyAgent({ markdown, script, filename, dryRun: true }, { signal: abort.signal }).then(
        (res) => setCheck({ busy: false, remarks: [], change: res.change }),
        (error: unknown) => {
          if (abort.signal.aborted) return;
          if (problemOf(error).unreachable) setCheck({ busy: false, remarks: [], change: "", error });
          else setCheck({ busy: false, remarks: remarksOf(error, filename), change: "" });
        },
      );
    }, pause);
    return () => {
      clearTimeout(timer);
      abort.abort();
    };
  }, [markdown, script]);
  return check;
}
