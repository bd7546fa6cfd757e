import { setTheme, useTheme, type Theme } from "@/app/theme";
import { Kbd } from "@/components/Kbd";
import { Section } from "@/components/Section";
import { useShortcutList } from "@/components/shortcuts";
import { ComfortSection } from "./ComfortSection";
import { SettingsFrame } from "./SettingsFrame";

// AppearancePage shows how this browser shows the console: theme, text size and shortcuts.
export function AppearancePage() {
  return (
    <SettingsFrame>
      <Looks />
      <ComfortSection />
      <Keys />
    </SettingsFrame>
  );
}

const themes: [Theme, string][] = [
  ["light", "Light"],
  ["dark", "Dark"],
  ["system", "Use system theme"],
];

function Looks() {
  const theme = useTheme();
  return (
    <Section title="Theme">
      <div role="radiogroup" aria-label="Theme" className="flex flex-wrap gap-4 rounded-lg border bg-panel p-3">
        {themes.map(([value, label]) => (
          <label key={value} className="flex min-h-6 items-center gap-2">
            <input type="radio" name="theme" checked={theme === value} onChange={() => setTheme(value)} /> {label}
          </label>
        ))}
      </div>
    </Section>
  );
}

function Keys() {
  const all = useShortcutList();
  return (
    <Section title="Keyboard shortcuts">
      <p className="text-dim">
        Press <Kbd keys="?" /> on any page to list its shortcuts.
      </p>
      <dl className="grid grid-cols-[repeat(auto-fill,minmax(min(100%,15rem),1fr))] gap-x-6 gap-y-1 rounded-lg border bg-panel p-3">
        {all.map((s) => (
          <div key={`${s.group} ${s.keys}`} className="flex items-center gap-3">
            <dt className="flex-1">{s.what}</dt>
            <dd>
              <Kbd keys={s.keys.replace("mod+", "Ctrl+")} />
            </dd>
          </div>
        ))}
      </dl>
    </Section>
  );
}
