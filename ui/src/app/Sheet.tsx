import { Dialog } from "@/components/Dialog";
import { Kbd } from "@/components/Kbd";
import { useShortcutList } from "@/components/shortcuts";

// Sheet lists the shortcuts that do something now.
export function Sheet(props: { onClose: () => void }) {
  const all = useShortcutList();
  const groups = [...new Set(all.map((s) => s.group))];
  return (
    <Dialog open onClose={props.onClose} title="Keyboard shortcuts">
      <div className="grid gap-5 sm:grid-cols-2">
        {groups.map((group) => (
          <section key={group}>
            <h3 className="pb-1 text-xs font-semibold text-dim">{group}</h3>
            <dl className="space-y-1">
              {all
                .filter((s) => s.group === group)
                .map((s) => (
                  <div key={s.keys} className="flex items-center gap-3">
                    <dt className="flex-1">{s.what}</dt>
                    <dd>
                      <Kbd keys={s.keys.replace("mod+", "Ctrl+")} />
                    </dd>
                  </div>
                ))}
            </dl>
          </section>
        ))}
      </div>
    </Dialog>
  );
}
