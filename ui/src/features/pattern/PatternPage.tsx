import { createClient } from "@connectrpc/connect";
import { useQuery } from "@connectrpc/connect-query";
import { getRouteApi, Link, useNavigate } from "@tanstack/react-router";
import { useState } from "react";
import { toast } from "sonner";
import { useRefresh } from "@/api/refresh";
import { transport } from "@/api/transport";
import { useSession } from "@/app/session";
import { Button } from "@/components/Button";
import { Field, Input, Select, TextArea } from "@/components/Field";
import { FormDialog } from "@/components/FormDialog";
import { Literal, Prose } from "@/components/Literal";
import { line } from "@/components/marks";
import { Page } from "@/components/Page";
import { Problem } from "@/components/Problem";
import { Facts, Section } from "@/components/Section";
import { showError } from "@/components/showError";
import { Skeletons } from "@/components/Skeleton";
import { Cell, Row, Table } from "@/components/Table";
import { Time } from "@/components/Time";
import { may } from "@/features/session/queries";
import { FeedbackService, FeedbackSubject, FeedbackVerdict } from "@/gen/deckhand/v1/feedback_pb";
import { PatternService, type Pattern, type PatternOffer } from "@/gen/deckhand/v1/pattern_pb";
import { PatternState } from "./PatternsPage";
import { levels, seenBy } from "./search";
import { Verdict } from "./Verdict";

const patterns = createClient(PatternService, transport);
const route = getRouteApi("/shell/patterns/$pattern");

// PatternPage shows one pattern whole, where it came from, and what came of it.
export function PatternPage() {
  const { pattern: id } = route.useParams();
  const navigate = useNavigate();
  const session = useSession();
  const refresh = useRefresh(PatternService);
  const [editing, setEditing] = useState(false);
  const [sharing, setSharing] = useState(false);
  const { data, error, isPending, refetch } = useQuery(PatternService.method.getPattern, { patternId: id });
  if (isPending) return <Page title="Pattern"><Skeletons rows={6} /></Page>;
  const p = data?.pattern;
  if (error || !p) {
    return (
      <Page title="Pattern">
        <Problem error={error ?? new Error("Pattern not found.")} retry={() => void refetch()} />
      </Page>
    );
  }
  const run = (what: () => Promise<unknown>, said: string, undo?: () => Promise<unknown>) =>
    void what()
      .then(refresh)
      .then(() => toast.success(said, { action: undo && { label: "Undo", onClick: () => run(undo, "Undone.") } }))
      .catch(showError);
  const remove = () =>
    void patterns
      .deletePattern({ patternId: p.id })
      .then(async () => {
        await navigate({ to: "/patterns" });
        await refresh();
        toast.success("Pattern deleted.", { action: { label: "Undo", onClick: () => run(() => patterns.undeletePattern({ patternId: p.id }), "Pattern restored.") } });
      })
      .catch(showError);
  return (
    <Page
      title={line(p.title)}
      heading={
        <span className="flex min-w-0 items-center gap-2">
          <Literal text={p.title} className="break-words whitespace-normal" /> <PatternState of={p} />
        </span>
      }
      actions={
        p.mayManage && (
          <>
            <Button onClick={() => setEditing(true)}>Edit</Button>
            <Button onClick={() => setSharing(true)}>Share</Button>
            {p.enabled ? (
              <Button onClick={() => run(() => patterns.disablePattern({ patternId: p.id }), "Pattern disabled.", () => patterns.enablePattern({ patternId: p.id }))}>Disable</Button>
            ) : (
              <Button onClick={() => run(() => patterns.enablePattern({ patternId: p.id }), "Pattern enabled.", () => patterns.disablePattern({ patternId: p.id }))}>Enable</Button>
            )}
            <Button look="danger" onClick={remove}>
              Delete
            </Button>
          </>
        )
      }
    >
      {editing && <Edit of={p} onClose={() => setEditing(false)} refresh={refresh} />}
      {sharing && <Share of={p} onClose={() => setSharing(false)} refresh={refresh} />}
      <Facts
        of={[
          ["Task type", p.taskType],
          ["Domain", p.domain],
          ["Confidence", p.confidence.toFixed(2)],
          ["Expected iterations", p.expectedIterations ? p.expectedIterations.toFixed(1) : ""],
          ["Evidence", `${p.successes} runs confirmed it, ${p.failures} failed with it`],
          ["Verdicts", `${p.approvals} good, ${p.rejections} bad`],
          ["Owner", p.owner],
          ["Seen by", seenBy[p.visibility] ?? p.visibility],
          ["Version", `${p.version}${p.edited ? ", edited by a person" : ""}`],
          ["Keywords", p.keywords.join(" ")],
        ]}
      />
      {may(session, "basic") && (
        <div className="pt-3">
          <Verdict subject={FeedbackSubject.PATTERN} id={p.id} what="pattern" />
        </div>
      )}
      <Lines title="Plan" of={p.approach?.plan} ordered />
      {p.approach && p.approach.pitfalls.length > 0 && (
        <Section title="Pitfalls">
          <Table label="Pitfalls" head={["Tool", "What failed", "What then worked"]}>
            {p.approach.pitfalls.map((f, i) => (
              <Row key={i}>
                <Cell className="font-mono text-xs">{f.tool}</Cell>
                <Cell>
                  <Literal text={f.failed} className="break-words whitespace-pre-wrap" />
                </Cell>
                <Cell>
                  <Literal text={f.worked} className="break-words whitespace-pre-wrap" />
                </Cell>
              </Row>
            ))}
          </Table>
        </Section>
      )}
      <Lines title="Signs of success" of={p.approach?.successSigns} />
      <Lines title="Tools" of={p.approach?.tools} />
      <Lines title="Notes" of={p.approach?.notes} />
      <Section title="Drawn from">
        {data.sources.length === 0 ? (
          <p className="text-dim">No task that you see.</p>
        ) : (
          <Table label="Drawn from" head={["Task", "Agent", "Iterations", "Added"]}>
            {data.sources.map((s) => (
              <Row key={s.taskId}>
                <Cell>
                  <TaskLink id={s.taskId} title={s.title} />
                </Cell>
                <Cell>{s.agentName}</Cell>
                <Cell>{s.iterations}</Cell>
                <Cell>
                  <Time at={s.addedAt} />
                </Cell>
              </Row>
            ))}
          </Table>
        )}
      </Section>
      {data.offers.length > 0 && (
        <Section title="Matched">
          <Table label="Matched" head={["Task", "Similarity", "Outcome", "When"]}>
            {data.offers.map((o) => (
              <Row key={o.taskId}>
                <Cell>
                  <TaskLink id={o.taskId} title={o.taskId} />
                </Cell>
                <Cell>{o.similarity.toFixed(2)}</Cell>
                <Cell>{outcomeOf(o)}</Cell>
                <Cell>
                  <Time at={o.offeredAt} />
                </Cell>
              </Row>
            ))}
          </Table>
        </Section>
      )}
      <Section title="Versions">
        <Table label="Versions" head={["Version", "Change", "By", "When"]}>
          {data.versions.map((v) => (
            <Row key={v.version}>
              <Cell>{v.version}</Cell>
              <Cell>{v.change}</Cell>
              <Cell>{v.change === "drawn" || v.change === "merged" ? <TaskLink id={v.changedBy} title={v.changedBy} /> : v.changedBy}</Cell>
              <Cell>
                <Time at={v.changedAt} />
              </Cell>
            </Row>
          ))}
        </Table>
      </Section>
      <Said id={p.id} />
    </Page>
  );
}

function TaskLink(props: { id: string; title: string }) {
  return (
    <Link to="/tasks/$task" params={{ task: props.id }} className="inline-flex min-h-6 items-center text-accent hover:underline">
      <Literal text={props.title || props.id} />
    </Link>
  );
}

// outcomeOf says what came of a match.
export function outcomeOf(o: PatternOffer): string {
  const what = o.heldOut ? "held out for comparison" : o.used === undefined ? "offered" : o.used ? "used" : "offered and not used";
  return o.succeeded === undefined ? what : `${what}; the task ${o.succeeded ? "succeeded" : "failed"}`;
}

function Lines(props: { title: string; of?: string[]; ordered?: boolean }) {
  if (!props.of || props.of.length === 0) return null;
  const List = props.ordered ? "ol" : "ul";
  return (
    <Section title={props.title}>
      <List className={props.ordered ? "list-inside list-decimal space-y-1" : "list-inside list-disc space-y-1"}>
        {props.of.map((text, i) => (
          <li key={i}>
            <Prose text={text} className="break-words whitespace-pre-wrap" />
          </li>
        ))}
      </List>
    </Section>
  );
}

// Said is what people said of the pattern.
function Said({ id }: { id: string }) {
  const { data } = useQuery(FeedbackService.method.listFeedback, { patternId: id });
  if (!data || data.feedback.length === 0) return null;
  return (
    <Section title="Feedback">
      <Table label="Feedback" head={["By", "Verdict", "Correction", "When"]}>
        {data.feedback.map((f) => (
          <Row key={f.id}>
            <Cell>{f.givenBy}</Cell>
            <Cell>{f.verdict === FeedbackVerdict.APPROVE ? "good" : f.verdict === FeedbackVerdict.REJECT ? "bad" : "corrected"}</Cell>
            <Cell>
              <Prose text={f.correction} className="whitespace-pre-wrap" />
            </Cell>
            <Cell>
              <Time at={f.givenAt} />
            </Cell>
          </Row>
        ))}
      </Table>
    </Section>
  );
}

const linesOf = (text: string) => text.split("\n").map((l) => l.trim()).filter(Boolean);

function Edit(props: { of: Pattern; onClose: () => void; refresh: () => Promise<void> }) {
  const p = props.of;
  const [title, setTitle] = useState(p.title);
  const [plan, setPlan] = useState((p.approach?.plan ?? []).join("\n"));
  const [signs, setSigns] = useState((p.approach?.successSigns ?? []).join("\n"));
  const [notes, setNotes] = useState((p.approach?.notes ?? []).join("\n"));
  const [keywords, setKeywords] = useState(p.keywords.join(" "));
  return (
    <FormDialog
      title="Edit pattern"
      action="Save"
      ready={title.trim() !== "" && keywords.trim() !== ""}
      run={async () => {
        await patterns.updatePattern({
          patternId: p.id,
          version: p.version,
          title: title.trim(),
          keywords: keywords.split(/[\s,]+/).filter(Boolean),
          approach: { plan: linesOf(plan), successSigns: linesOf(signs), notes: linesOf(notes), tools: p.approach?.tools ?? [], pitfalls: p.approach?.pitfalls ?? [] },
        });
        await props.refresh();
        toast.success("Pattern saved. Runs no longer change its text.");
      }}
      onClose={props.onClose}
    >
      <Field label="Title">
        <Input value={title} maxLength={120} onChange={(e) => setTitle(e.target.value)} />
      </Field>
      <Field label="Plan" hint="One step on each line.">
        <TextArea rows={6} value={plan} onChange={(e) => setPlan(e.target.value)} />
      </Field>
      <Field label="Signs of success" hint="One on each line.">
        <TextArea rows={3} value={signs} onChange={(e) => setSigns(e.target.value)} />
      </Field>
      <Field label="Notes" hint="One on each line.">
        <TextArea rows={3} value={notes} onChange={(e) => setNotes(e.target.value)} />
      </Field>
      <Field label="Keywords" hint="Words that the goals of such tasks have.">
        <Input value={keywords} onChange={(e) => setKeywords(e.target.value)} />
      </Field>
    </FormDialog>
  );
}

function Share(props: { of: Pattern; onClose: () => void; refresh: () => Promise<void> }) {
  const [level, setLevel] = useState(props.of.visibility);
  return (
    <FormDialog
      title="Share pattern"
      action="Share"
      run={async () => {
        await patterns.sharePattern({ patternId: props.of.id, visibility: level });
        await props.refresh();
        toast.success(`Seen by: ${seenBy[level] ?? level}.`);
      }}
      onClose={props.onClose}
    >
      <p>The pattern quotes goals and commands of the tasks that it was drawn from. Read it before you share it.</p>
      <Field label="Seen by" hint="Tasks of these people are offered it.">
        <Select value={level} onChange={(e) => setLevel(e.target.value)}>
          {levels.map((l) => (
            <option key={l} value={l}>
              {seenBy[l]}
            </option>
          ))}
        </Select>
      </Field>
    </FormDialog>
  );
}
