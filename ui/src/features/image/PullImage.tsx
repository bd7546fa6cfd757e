import { createClient } from "@connectrpc/connect";
import { getRouteApi } from "@tanstack/react-router";
import { useEffect, useRef, useState } from "react";
import { toast } from "sonner";
import { useRefresh } from "@/api/refresh";
import { transport } from "@/api/transport";
import { Field, Input, Select } from "@/components/Field";
import { FormDialog } from "@/components/FormDialog";
import { bytes } from "@/components/money";
import { ImageService, type PullImageResponse } from "@/gen/deckhand/v1/image_pb";

const images = createClient(ImageService, transport);
const route = getRouteApi("/shell/images");

// PullImage has a node pull an image, and shows how far it is. Closing it cancels the
// pull, unless a task waits for the image, too.
export function PullImage(props: { nodes: string[]; onClose: () => void }) {
  const search = route.useSearch();
  const navigate = route.useNavigate();
  const [node, setNode] = useState(search.node && props.nodes.includes(search.node) ? search.node : props.nodes[0]!);
  const [reference, setReference] = useState("");
  const [progress, setProgress] = useState<PullImageResponse>();
  const refresh = useRefresh(ImageService);
  const abort = useRef(new AbortController());
  useEffect(() => {
    const own = new AbortController();
    abort.current = own;
    return () => own.abort();
  }, []);
  return (
    <FormDialog
      title="Pull image"
      action="Pull image"
      ready={reference.trim() !== ""}
      onClose={props.onClose}
      run={async () => {
        setProgress(undefined);
        const { signal } = abort.current;
        let pulled = "";
        for await (const res of images.pullImage({ nodeId: node, reference: reference.trim() }, { signal })) {
          setProgress(res);
          pulled = res.image?.reference ?? "";
        }
        toast.success(`Pulled ${pulled} to ${node}.`);
        await navigate({ search: { node } });
        await refresh();
      }}
    >
      <Field label="Node">
        <Select className="w-full" value={node} onChange={(e) => setNode(e.target.value)}>
          {props.nodes.map((name) => (
            <option key={name} value={name}>
              {name}
            </option>
          ))}
        </Select>
      </Field>
      <Field label="Image" hint="With its registry, and a tag or a digest.">
        <Input value={reference} onChange={(e) => setReference(e.target.value)} placeholder="docker.io/library/golang:1.26" autoComplete="off" spellCheck={false} maxLength={512} autoFocus />
      </Field>
      <p role="status" className="text-sm text-dim">
        {progress && stateOf(progress)}
      </p>
    </FormDialog>
  );
}

function stateOf(p: PullImageResponse): string {
  if (p.phase !== "downloading") return p.phase && `${p.phase[0]!.toUpperCase()}${p.phase.slice(1)}…`;
  return `Downloading… ${p.layersDone} of ${p.layers} layers, ${bytes(p.bytesDone)} of ${bytes(p.bytes)}`;
}
