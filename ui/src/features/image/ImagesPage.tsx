import { useInfiniteQuery } from "@connectrpc/connect-query";
import { Download } from "lucide-react";
import { useState } from "react";
import { byToken, useRest } from "@/api/pages";
import { useSession } from "@/app/session";
import { Button } from "@/components/Button";
import { Page } from "@/components/Page";
import { useShortcut } from "@/components/shortcuts";
import { may } from "@/features/session/queries";
import { NodeService } from "@/gen/deckhand/v1/node_pb";
import { NodeImages } from "./NodeImages";
import { PullImage } from "./PullImage";
import { Registries } from "./Registries";
import { Rules } from "./Rules";
import { SignatureRules } from "./SignatureRules";

// ImagesPage lists the images on the nodes, and what decides which images agents may
// use: registries, rules and signature rules.
export function ImagesPage() {
  const admin = may(useSession(), "admin");
  const [pulling, setPulling] = useState(false);
  const list = useInfiniteQuery(NodeService.method.listNodes, { pageSize: 500, pageToken: "" }, { ...byToken, refetchInterval: 15_000 });
  useRest(list);
  const nodes = (list.data?.pages.flatMap((page) => page.nodes) ?? []).filter((n) => n.status === "connected").map((n) => n.name);
  const pulls = admin && nodes.length > 0;
  useShortcut("n", "Pull image", "Images", () => setPulling(true), pulls);
  return (
    <Page
      title="Images"
      actions={
        pulls && (
          <Button look="primary" onClick={() => setPulling(true)}>
            <Download aria-hidden className="size-4" /> Pull image
          </Button>
        )
      }
    >
      <NodeImages nodes={nodes} list={list} admin={admin} />
      <Rules admin={admin} />
      <SignatureRules admin={admin} />
      {admin && <Registries />}
      {pulling && <PullImage nodes={nodes} onClose={() => setPulling(false)} />}
    </Page>
  );
}
