import type { ReactNode } from "react";
import { Field, Input, TextArea } from "@/components/Field";
import { settingsOf, type Draft, type FormField, type Problems } from "./draft";

type Props = { draft: Draft; problems: Problems; set: (change: Partial<Draft>) => void };

// TextOf is the box of one field of a draft.
export function TextOf({ field, draft, problems, set }: Props & { field: FormField }) {
  return (
    <Field label={field.label} hint={field.hint} problem={problems[field.name]}>
      <Input value={draft[field.name]} onChange={(e) => set({ [field.name]: e.target.value })} autoComplete="off" maxLength={4000} />
    </Field>
  );
}

// CredentialFields are what a credential is for. children are the boxes of its value.
export function CredentialFields(props: Props & { children: ReactNode }) {
  const { draft, set } = props;
  const text = (field: FormField) => <TextOf key={field.name} {...props} field={field} />;
  const ownHosts = draft.kind === "github_app" || draft.kind === "gitlab";
  return (
    <>
      {settingsOf[draft.kind].map(text)}
      {props.children}
      {text({ name: "hosts", label: "Hosts", hint: ownHosts ? "Leave empty for those of the service." : "Names or addresses, separated by commas." })}
      {text({ name: "agents", label: "Agents", hint: "Names, separated by commas, or * for all. Empty: no agent." })}
      <details>
        <summary className="cursor-pointer text-sm">More</summary>
        <div className="space-y-3 pt-3">
          {text({ name: "ports", label: "Ports", hint: "Default: 443" })}
          {text({ name: "methods", label: "Methods", hint: "Such as GET, POST. Empty: all." })}
          {text({ name: "paths", label: "Paths", hint: "Such as /repos/{owner}/{repo}/**; !/admin/** leaves paths out. Empty: all." })}
          {text({ name: "variable", label: "Variable with a placeholder", hint: "For programs that need a token to start, such as GITHUB_TOKEN." })}
          <label className="flex min-h-7 items-center gap-2 text-sm">
            <input type="checkbox" checked={draft.private} onChange={(e) => set({ private: e.target.checked })} />
            Hosts may be in private networks
          </label>
          <Field label="Certificates of private authorities (PEM)">
            <TextArea value={draft.roots} onChange={(e) => set({ roots: e.target.value })} rows={3} spellCheck={false} className="font-mono text-xs" />
          </Field>
        </div>
      </details>
    </>
  );
}
