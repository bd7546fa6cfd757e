import { Field, Input, Select } from "@/components/Field";
import { modes } from "@/gen/facts";
import { overrideOf, problemsOf, type Choices } from "./override";

// RunOptions is the form that overrides the persona's settings for one run.
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
        {overrideOf(choices) ? "Run options: customised" : "Run options: defaults"}
      </summary>
      <div className="grid gap-3 py-2 sm:grid-cols-2 lg:grid-cols-5">
        <Field label="Mode" hint="Only admins can choose a less careful mode.">
          <Select value={choices.mode} onChange={(e) => change({ ...choices, mode: e.target.value })}>
            <option value="">default (set by the persona)</option>
            {modes.map((mode) => (
              <option key={mode} value={mode}>
                {mode === "review" ? "review: requests are sent only after you accept the work" : mode}
              </option>
            ))}
          </Select>
        </Field>
        {input("provider", "Provider", "Defaults to the persona's.")}
        {input("model", "Model", "Defaults to the persona's.")}
        {input("dollars", "Budget (USD)", "Only admins can raise it above the persona's.", true)}
        {input("iterations", "Iterations", "Only admins can raise it above the persona's.", true)}
        {input("files", "Changed files", "Only admins can raise it above the persona's.", true)}
        {input("fileSize", "File size (MiB)", "Of the largest file that the run changes.", true)}
      </div>
    </details>
  );
}
