import { createClient } from "@connectrpc/connect";
import { ThumbsDown, ThumbsUp } from "lucide-react";
import { useState } from "react";
import { toast } from "sonner";
import { useRefresh } from "@/api/refresh";
import { transport } from "@/api/transport";
import { Button } from "@/components/Button";
import { Field, TextArea } from "@/components/Field";
import { FormDialog } from "@/components/FormDialog";
import { showError } from "@/components/showError";
import { FeedbackService, FeedbackSubject, FeedbackVerdict } from "@/gen/deckhand/v1/feedback_pb";
import { MemoryService } from "@/gen/deckhand/v1/memory_pb";
import { PatternService } from "@/gen/deckhand/v1/pattern_pb";

const feedback = createClient(FeedbackService, transport);

// Verdict takes what a person says of a task, step, plan, pattern or memory. A memory is corrected
// where it is edited.
export function Verdict(props: { subject: FeedbackSubject; id: string; what: string }) {
  const [correcting, setCorrecting] = useState(false);
  const [text, setText] = useState("");
  const refresh = useRefresh(FeedbackService);
  const patterns = useRefresh(PatternService);
  const memories = useRefresh(MemoryService);
  const give = async (verdict: FeedbackVerdict, correction = "") => {
    const res = await feedback.giveFeedback({ subject: props.subject, subjectId: props.id, verdict, correction });
    await Promise.all([refresh(), patterns(), memories()]);
    const decides = res.proposals[0]?.owner;
    // A step is a small part of its run: verdicts on it move no confidence.
    const kept = props.subject === FeedbackSubject.STEP ? "Thank you. It is stored." : "Thank you. It counts for later runs.";
    toast.success(decides ? `Proposed. ${decides} decides.` : kept);
  };
  const quick = (verdict: FeedbackVerdict) => void give(verdict).catch(showError);
  return (
    <div className="flex flex-wrap items-center gap-1" role="group" aria-label={`Feedback on the ${props.what}`}>
      <Button small onClick={() => quick(FeedbackVerdict.APPROVE)}>
        <ThumbsUp aria-hidden className="size-3.5" /> Good
      </Button>
      {props.subject !== FeedbackSubject.MEMORY && (
        <Button small onClick={() => setCorrecting(true)}>
          Correct
        </Button>
      )}
      <Button small onClick={() => quick(FeedbackVerdict.REJECT)}>
        <ThumbsDown aria-hidden className="size-3.5" /> Bad
      </Button>
      {correcting && (
        <FormDialog
          title={`Correct the ${props.what}`}
          action="Propose"
          ready={text.trim() !== ""}
          run={() => give(FeedbackVerdict.CORRECT, text.trim())}
          onClose={() => {
            setCorrecting(false);
            setText("");
          }}
        >
          <Field label="What would have been better" hint="Later runs get it as a note, when the owner has accepted it.">
            <TextArea rows={4} maxLength={2000} value={text} onChange={(e) => setText(e.target.value)} />
          </Field>
        </FormDialog>
      )}
    </div>
  );
}
