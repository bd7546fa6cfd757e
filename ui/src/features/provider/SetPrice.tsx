import { useMutation } from "@connectrpc/connect-query";
import { useState } from "react";
import { toast } from "sonner";
import { useRefresh } from "@/api/refresh";
import { Button } from "@/components/Button";
import { Dialog } from "@/components/Dialog";
import { Field, Input } from "@/components/Field";
import { Problem } from "@/components/Problem";
import { ProviderService } from "@/gen/deckhand/v1/provider_pb";
import { parsePrice } from "./since";

// SetPrice sets the price of a model, which takes precedence over the built-in one.
export function SetPrice(props: { of: { provider: string; model: string }; onClose: () => void }) {
  const [provider, setProvider] = useState(props.of.provider);
  const [model, setModel] = useState(props.of.model);
  const [prices, setPrices] = useState({ input: "", output: "", cacheRead: "", cacheWrite: "" });
  const [tried, setTried] = useState(false);
  const refresh = useRefresh(ProviderService);
  const set = useMutation(ProviderService.method.setPrice, {
    onSuccess: async () => {
      await refresh();
      toast.success(`Price of ${model} saved.`);
      props.onClose();
    },
  });
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
    <Dialog open onClose={props.onClose} title="Set the price of a model">
      <form
        className="space-y-3"
        onSubmit={(e) => {
          e.preventDefault();
          setTried(true);
          if (ready) {
            set.mutate({ provider: provider.trim(), model: model.trim(), input, output, cacheRead: parsePrice(prices.cacheRead), cacheWrite: parsePrice(prices.cacheWrite) });
          }
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
        {set.error && <Problem error={set.error} />}
        <div className="flex justify-end gap-2">
          <Button onClick={props.onClose}>Cancel</Button>
          <Button type="submit" look="primary" busy={set.isPending}>
            Save
          </Button>
        </div>
      </form>
    </Dialog>
  );
}
