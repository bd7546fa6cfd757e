import { createClient } from "@connectrpc/connect";
import { Backoff, sleep } from "@deckhand/sdk";
import { useEffect, useReducer, useState } from "react";
import { transport } from "@/api/transport";
import { NodeTelemetryService } from "@/gen/deckhand/v1/node_telemetry_pb";
import { Samples } from "./samples";

const telemetry = createClient(NodeTelemetryService, transport);

// useTelemetry watches what a node and its jails use, from the last hour on and for as long
// as the page is open, and goes on when the connection breaks. It is a stream of its own: there
// are no events of figures.
export function useTelemetry(nodeId: string, on: boolean): { samples: Samples; error: unknown } {
  const [, render] = useReducer((n: number) => n + 1, 0);
  const [state, setState] = useState(() => ({ nodeId, samples: new Samples() }));
  const [error, setError] = useState<unknown>();
  const samples = state.samples;
  useEffect(() => {
    if (state.nodeId !== nodeId) setState({ nodeId, samples: new Samples() });
  }, [state, nodeId]);
  useEffect(() => {
    if (!on) return undefined;
    const abort = new AbortController();
    const watch = async () => {
      const backoff = new Backoff(500);
      for (let failures = 0; !abort.signal.aborted; failures++) {
        try {
          for await (const sample of telemetry.watchNodeTelemetry({ nodeId, follow: true, history: samples.times.length === 0 }, { signal: abort.signal })) {
            failures = 0;
            backoff.reset();
            samples.add(sample);
            setError(undefined);
            render();
          }
        } catch (e) {
          if (abort.signal.aborted) return;
          if (failures > 1) setError(e);
        }
        await sleep(backoff.next(), abort.signal);
      }
    };
    void watch();
    return () => abort.abort();
  }, [nodeId, on, samples]);
  return { samples, error };
}
