import { createClient } from "@connectrpc/connect";
import { fromJson, toJson, type JsonValue } from "@bufbuild/protobuf";
import { ValueSchema } from "@bufbuild/protobuf/wkt";
import { useState } from "react";
import { toast } from "sonner";
import { useRefresh } from "@/api/refresh";
import { transport } from "@/api/transport";
import { useSession } from "@/app/session";
import { Field, Input, Select, TextArea } from "@/components/Field";
import { FormDialog } from "@/components/FormDialog";
import { may } from "@/features/session/queries";
import { MemoryService, MemoryType, type Memory } from "@/gen/deckhand/v1/memory_pb";
import { scopes, textOf, types, valueOf } from "./search";

const memories = createClient(MemoryService, transport);

const hints: Partial<Record<MemoryType, string>> = {
  [MemoryType.INSTRUCTION]: "Every run is told it before its goal.",
  [MemoryType.PREFERENCE]:
    "With a meaning: execution_speed (fast, normal, careful), confirmation_level (always, dangerous_only, never), default_timeout (45m), preferred_tools (a JSON list), language.",
};

// EditMemory creates an entry, or stores a new version of one.
export function EditMemory({ of, onClose }: { of?: Memory; onClose: () => void }) {
  const admin = may(useSession(), "admin");
  const refresh = useRefresh(MemoryService);
  const [scope, setScope] = useState("user");
  const [type, setType] = useState(of?.type ?? MemoryType.INSTRUCTION);
  const [key, setKey] = useState(of?.key ?? "");
  const [text, setText] = useState(of?.value ? textOf(toJson(ValueSchema, of.value)) : "");
  return (
    <FormDialog
      title={of ? `Edit ${of.key}` : "New entry"}
      action="Save"
      ready={key.trim() !== "" && text.trim() !== ""}
      onClose={onClose}
      run={async () => {
        await memories.setMemory({
          scope: of?.scope ?? { kind: scopes.find(([name]) => name === scope)![1], id: "" },
          type,
          key: key.trim(),
          value: fromJson(ValueSchema, valueOf(text) as JsonValue),
          expectedVersion: of?.version ?? 0,
        });
        await refresh();
        toast.success("Saved.");
      }}
    >
      {!of && (
        <>
          <Field label="Whose" hint={scope === "user" ? "Only your own runs get it." : "All runs of the organisation get it."}>
            <Select value={scope} onChange={(e) => setScope(e.target.value)}>
              {scopes
                .filter(([name]) => name === "user" || admin)
                .map(([name, , label]) => (
                  <option key={name} value={name}>
                    {label}
                  </option>
                ))}
            </Select>
          </Field>
          <Field label="Type" hint={hints[type]}>
            <Select value={String(type)} onChange={(e) => setType(Number(e.target.value))}>
              {types.map(([name, value, label]) => (
                <option key={name} value={value}>
                  {label}
                </option>
              ))}
            </Select>
          </Field>
          <Field label="Key" hint="A short name, in the words that somebody would look for.">
            <Input value={key} maxLength={255} onChange={(e) => setKey(e.target.value)} />
          </Field>
        </>
      )}
      <Field label="Value" hint="A text, or JSON. Values with secrets are refused.">
        <TextArea rows={6} value={text} onChange={(e) => setText(e.target.value)} />
      </Field>
    </FormDialog>
  );
}
