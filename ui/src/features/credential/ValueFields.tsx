import type { RefObject } from "react";
import { Field, Input, TextArea } from "@/components/Field";
import { secretsOf, type Kind, type SecretName } from "./draft";

// Typed is what is typed of a value. It is in no state and no cache: it is read from its boxes
// when it is sent.
export type Typed = RefObject<Partial<Record<SecretName, HTMLInputElement | HTMLTextAreaElement | null>>>;

// readTyped returns what was typed of a kind's value.
export function readTyped(kind: Kind, typed: Typed): Partial<Record<SecretName, string>> {
  const out: Partial<Record<SecretName, string>> = {};
  for (const { name } of secretsOf[kind]) {
    const text = typed.current[name]?.value.trim();
    if (text) out[name] = text;
  }
  return out;
}

// missing returns the label of the first part that is needed and empty.
export function missing(kind: Kind, value: Partial<Record<SecretName, string>>): string | undefined {
  if (kind === "basic" && !value.username && !value.password) return "User name or password";
  return secretsOf[kind].find((s) => !s.optional && !value[s.name])?.label;
}

// ValueFields are the boxes of a kind's value.
export function ValueFields(props: { kind: Kind; typed: Typed }) {
  const keep = (name: SecretName) => (box: HTMLInputElement | HTMLTextAreaElement | null) => {
    props.typed.current[name] = box;
  };
  return secretsOf[props.kind].map((s) => (
    <Field key={`${props.kind}-${s.name}`} label={s.label} hint={s.optional ? "Optional." : undefined}>
      {s.lines ? (
        <TextArea ref={keep(s.name)} rows={4} autoComplete="off" spellCheck={false} maxLength={16384} className="font-mono text-xs" />
      ) : (
        <Input ref={keep(s.name)} type={s.name === "username" ? "text" : "password"} autoComplete="off" maxLength={16384} />
      )}
    </Field>
  ));
}
