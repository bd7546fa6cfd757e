import { createClient } from "@connectrpc/connect";
import { useState } from "react";
import { toast } from "sonner";
import { useRefresh } from "@/api/refresh";
import { transport } from "@/api/transport";
import { Field, Input } from "@/components/Field";
import { FormDialog } from "@/components/FormDialog";
import { ProviderService } from "@/gen/deckhand/v1/provider_pb";
import { parsePrice } from "./since";

const providers = createClient(ProviderService, transport);

// SetPrice sets the price of a model, which takes precedence over the built-in one.
export function SetPrice(props: { of: { provider: string; model: string }; onClose: () => void }) {
  const [provider, setProvider] = useState(props.of.provider);
  const [model, setModel] = useState(props.of.model);
  const [prices, setPrices] = useState({ input: "", output: "", cacheRead: "", cacheWrite: "" });
  const [tried, setTried] = useState(false);
  const refresh = useRefresh(ProviderService);
  const input = parsePrice(prices.input);
  const output = parsePrice(prices.output);
  const optional = (text: string) => text.trim() === "" || parsePrice(text) !== undefined;
  const ready = provider && model && input !== undefined && output !== undefined && optional(prices.cacheRead) && optional(prices.cacheWrite);
  const boxes: [keyof typeof prices, string, boolean][] = [
    ["input", "Input", true],
    ["output", "Output", true],
    ["cacheRead", "Cache read", false],
    ["cacheWrite", "Cache write", false],
  ];
  return (
    <FormDialog
      title="Set the price of a model"
      action="Save"
      onClose={props.onClose}
      check={() => {
        setTried(true);
        return Boolean(ready);
      }}
      run={async () => {
        await providers.setPrice({ provider: provider.trim(), model: model.trim(), input, output, cacheRead: parsePrice(prices.cacheRead), cacheWrite: parsePrice(prices.cacheWrite) });
        await refresh();
        toast.success(`Price of ${model} saved.`);
      }}
    >
      <p className="text-dim">US dollars per million tokens. Use 0 for models that you host yourself.</p>
      <Field label="Provider">
        <Input value={provider} onChange={(e) => setProvider(e.target.value)} required maxLength={60} />
      </Field>
      <Field label="Model">
        <Input value={model} onChange={(e) => setModel(e.target.value)} required maxLength={200} />
      </Field>
      <div className="grid gap-3 sm:grid-cols-2">
        {boxes.map(([name, label, needed]) => {
          const wrong = needed ? parsePrice(prices[name]) === undefined : !optional(prices[name]);
          return (
            <Field key={name} label={label} hint={needed ? undefined : "Defaults to the input price."} problem={tried && wrong ? "Enter a number from 0 to 100000." : undefined}>
              <Input inputMode="decimal" value={prices[name]} onChange={(e) => setPrices((p) => ({ ...p, [name]: e.target.value }))} autoComplete="off" />
            </Field>
          );
        })}
      </div>
    </FormDialog>
  );
}
