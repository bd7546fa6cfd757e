import { useQueryClient } from "@tanstack/react-query";
import { OctagonX } from "lucide-react";
import { useState } from "react";
import { toast } from "sonner";
import { useSession } from "@/app/session";
import { Button } from "@/components/Button";
import { Confirm } from "@/components/Confirm";
import { may } from "@/features/session/queries";
import { KillScope } from "@/gen/deckhand/v1/control_pb";
import { control, killed } from "./actions";

// StopEverything kills all tasks of the organisation, and holds it. It is for administrators.
export function StopEverything() {
  const queries = useQueryClient();
  const session = useSession();
  const [asking, setAsking] = useState(false);
  if (!may(session, "admin")) return null;
  return (
    <>
      <Button look="danger" onClick={() => setAsking(true)}>
        <OctagonX aria-hidden className="size-4" /> Stop everything
      </Button>
      <Confirm
        open={asking}
        onClose={() => setAsking(false)}
        title="Stop everything"
        action="Stop everything"
        danger
        reason
        typed="stop"
        run={async (reason) => {
          const res = await control.kill({ scope: KillScope.ORGANISATION, reason });
          toast("Everything is stopped", { description: killed(res.tasks) });
          await queries.invalidateQueries();
        }}
      >
        <p>
          All tasks of all agents are cancelled, and every process of theirs is killed. A hold keeps new tasks from starting until somebody
          releases it. File changes stay, and can be undone.
        </p>
      </Confirm>
    </>
  );
}
