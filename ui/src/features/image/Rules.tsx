import { createClient } from "@connectrpc/connect";
import { useQuery } from "@connectrpc/connect-query";
import { useState } from "react";
import { toast } from "sonner";
import { useRefresh } from "@/api/refresh";
import { transport } from "@/api/transport";
import { Button } from "@/components/Button";
import { Field, TextArea } from "@/components/Field";
import { FormDialog } from "@/components/FormDialog";
import { Problem } from "@/components/Problem";
import { Facts, Section } from "@/components/Section";
import { Skeletons } from "@/components/Skeleton";
import { ImageService, type ImageRules } from "@/gen/deckhand/v1/image_pb";
import { linesOf } from "./reference";

const images = createClient(ImageService, transport);

// Rules shows which images agents may use. Administrators change it.
export function Rules({ admin }: { admin: boolean }) {
  const [editing, setEditing] = useState(false);
  const query = useQuery(ImageService.method.getImageRules, {});
  const rules = query.data?.rules;
  return (
    <Section title="Rules" actions={admin && rules && <Button onClick={() => setEditing(true)}>Change rules</Button>}>
      {query.isPending ? (
        <Skeletons rows={2} />
      ) : query.error ? (
        <Problem error={query.error} retry={() => void query.refetch()} />
      ) : (
        <Facts
          of={[
            [
              "Allowed repositories",
              rules && rules.allow.length > 0 ? (
                <ul key="a" className="font-mono text-xs">
                  {rules.allow.map((pattern) => (
                    <li key={pattern} className="break-all">
                      {pattern}
                    </li>
                  ))}
                </ul>
              ) : (
                "all"
              ),
            ],
            ["Digest", rules?.requireDigest ? "required" : "not required"],
            ["Root in jails", rules?.allowRoot ? "allowed" : "not allowed"],
          ]}
        />
      )}
      {editing && rules && <EditRules of={rules} onClose={() => setEditing(false)} />}
    </Section>
  );
}

function EditRules({ of, onClose }: { of: ImageRules; onClose: () => void }) {
  const [allow, setAllow] = useState(of.allow.join("\n"));
  const [requireDigest, setRequireDigest] = useState(of.requireDigest);
  const [allowRoot, setAllowRoot] = useState(of.allowRoot);
  const refresh = useRefresh(ImageService);
  return (
    <FormDialog
      title="Change rules"
      action="Save"
      onClose={onClose}
      run={async () => {
        await images.setImageRules({ rules: { allow: linesOf(allow), requireDigest, allowRoot } });
        await refresh();
        toast.success("Rules saved. They apply to the next attempt of each task.");
      }}
    >
      <Field label="Allowed repositories" hint="One per line with its registry, or all below a path: ghcr.io/team/*. Leave empty for all.">
        <TextArea value={allow} onChange={(e) => setAllow(e.target.value)} rows={5} spellCheck={false} className="font-mono text-xs" />
      </Field>
      <label className="flex min-h-7 items-center gap-2">
        <input type="checkbox" checked={requireDigest} onChange={(e) => setRequireDigest(e.target.checked)} />
        Require a digest
      </label>
      <label className="flex min-h-7 items-center gap-2">
        <input type="checkbox" checked={allowRoot} onChange={(e) => setAllowRoot(e.target.checked)} />
        Allow root in jails (<code>jail.user: root</code> and <code>jail.setup</code>)
      </label>
    </FormDialog>
  );
}
