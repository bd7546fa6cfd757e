import { setComfort, useComfort, type Comfort } from "@/app/comfort";
import { Section } from "@/components/Section";

const sizes: [Comfort["text"], string][] = [
  [100, "Normal"],
  [112, "Large"],
  [125, "Larger"],
  [150, "Largest"],
];

// ComfortSection is how this browser shows the console.
export function ComfortSection() {
  const comfort = useComfort();
  return (
    <Section title="Reading and keyboard">
      <div className="space-y-3 rounded-lg border bg-panel p-3">
        <Choice label="Text size" name="text" of={sizes} value={comfort.text} set={(text) => setComfort({ text })} />
        <Choice
          label="Density"
          name="density"
          of={[
            ["comfortable", "Comfortable"],
            ["compact", "Compact"],
          ]}
          value={comfort.density}
          set={(density) => setComfort({ density })}
        />
        <label className="flex min-h-6 items-center gap-2">
          <input type="checkbox" className="size-4 accent-accent" checked={comfort.shortcuts} onChange={(e) => setComfort({ shortcuts: e.target.checked })} />
          Single-key shortcuts
        </label>
        <label className="flex min-h-6 items-center gap-2">
          <input type="checkbox" className="size-4 accent-accent" checked={comfort.exactTimes} onChange={(e) => setComfort({ exactTimes: e.target.checked })} />
          Exact times instead of &quot;4 min ago&quot;
        </label>
        <label className="flex min-h-6 items-center gap-2">
          <input type="checkbox" className="size-4 accent-accent" checked={comfort.undo} onChange={(e) => setComfort({ undo: e.target.checked })} />
          Hold inbox answers for 5 seconds, so that they can be undone
        </label>
      </div>
    </Section>
  );
}

function Choice<T extends string | number>(props: { label: string; name: string; of: [T, string][]; value: T; set: (value: T) => void }) {
  return (
    <fieldset className="flex flex-wrap gap-x-4">
      <legend className="text-xs text-dim">{props.label}</legend>
      {props.of.map(([value, label]) => (
        <label key={value} className="flex min-h-6 items-center gap-2">
          <input type="radio" name={props.name} checked={props.value === value} onChange={() => props.set(value)} /> {label}
        </label>
      ))}
    </fieldset>
  );
}
