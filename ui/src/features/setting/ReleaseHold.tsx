import { createClient } from "@connectrpc/connect";
import { useRefresh } from "@/api/refresh";
import { transport } from "@/api/transport";
import { Confirm } from "@/components/Confirm";
import { ControlService, type Hold } from "@/gen/deckhand/v1/control_pb";

const control = createClient(ControlService, transport);

// ReleaseHold asks for the reason why a hold is released, and releases it.
export function ReleaseHold(props: { hold: Hold | undefined; onClose: () => void }) {
  const refresh = useRefresh(ControlService);
  return (
    <Confirm
      open={props.hold !== undefined}
      onClose={props.onClose}
      title="Release hold"
      action="Release"
      reason
      run={async (reason) => {
        await control.releaseHold({ holdId: props.hold!.id, reason });
        await refresh();
      }}
    >
      <p>New tasks can start again. Cancelled tasks stay cancelled.</p>
    </Confirm>
  );
}
