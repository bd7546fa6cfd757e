import { useNavigate } from "@tanstack/react-router";
import { useState } from "react";
import { Button } from "@/components/Button";
import { Field, Input, Select } from "@/components/Field";
import { FormDialog } from "@/components/FormDialog";
import { deleteView, readViews, saveView, type FleetSearch } from "./search";

// SavedViews keeps filters of the fleet under names, in this browser.
export function SavedViews({ search }: { search: FleetSearch }) {
  const navigate = useNavigate();
  const [views, setViews] = useState(readViews);
  const [naming, setNaming] = useState(false);
  const [name, setName] = useState("");
  const current = views.find((v) => JSON.stringify(v.search) === JSON.stringify(search))?.name ?? "";
  return (
    <>
      {views.length > 0 && (
        <Select
          aria-label="Saved view"
          value={current}
          onChange={(e) => {
            const view = views.find((v) => v.name === e.target.value);
            if (view) void navigate({ to: "/fleet", search: view.search });
          }}
        >
          <option value="">Saved views</option>
          {views.map((v) => <option key={v.name}>{v.name}</option>)}
        </Select>
      )}
      {current ? (
        <Button onClick={() => setViews(deleteView(current))}>Delete view</Button>
      ) : (
        <Button onClick={() => setNaming(true)}>Save view</Button>
      )}
      {naming && (
        <FormDialog
          title="Save this view"
          action="Save"
          onClose={() => setNaming(false)}
          run={async () => {
            if (!name.trim()) throw new Error("Enter a name.");
            setViews(saveView({ name: name.trim(), search }));
            setName("");
            setNaming(false);
          }}
        >
          <Field label="Name" hint="Kept in this browser. The address of the page does the same for others.">
            <Input autoFocus maxLength={60} value={name} onChange={(e) => setName(e.target.value)} />
          </Field>
        </FormDialog>
      )}
    </>
  );
}
