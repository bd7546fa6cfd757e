import { Field, Input, Select } from "@/components/Field";
import { overrideOf, problemsOf, type Choices } from "./override";

// RunOptions are what one run has in the place of what its persona says.
export function RunOptions(props: { choices: Choices; change: (c: Choices) => void }) {
  const { choices, change } = props;
  const problems = problemsOf(choices);
  const input = (key: keyof Choices, label: string, hint: string, numeric?: boolean) => (
    <Field label={label} hint={hint} problem={problems[key]}>
      <Input
        value={choices[key]}
        maxLength={128}
        inputMode={numeric ? "decimal" : undefined}
        onChange={(e) => change({ ...choices, [key]: e.target.value })}
      />
    </Field>
  );
  return (
    <details className="border-t bg-panel px-4 py-2">
      <summary className="cursor-pointer text-dim">
        {overrideOf(choices) ? "This run is not as its persona says" : "As its persona says"}
      </summary>
      <div className="grid gap-3 py-2 sm:grid-cols-2 lg:grid-cols-5">
        <Field label="Mode" hint="Less care takes an administrator.">
          <Select value={choices.mode} onChange={(e) => change({ ...choices, mode: e.target.value })}>
            <option value="">as its persona says</option>
            <option value="autonomous">autonomous</option>
            <option value="supervised">supervised</option>
            <option value="review">review: nothing leaves before you accept it</option>
          </Select>
        </Field>
        {input("provider", "Provider", "As its persona says, where empty.")}
        {input("model", "Model", "As its persona says, where empty.")}
        {input("dollars", "Budget, in US dollars", "More than its persona's takes an administrator.", true)}
        {input("iterations", "Iterations", "More than its persona's takes an administrator.", true)}
      </div>
    </details>
  );
}
