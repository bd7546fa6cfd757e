import { createClient } from "@connectrpc/connect";
import { useQuery } from "@connectrpc/connect-query";
import { useState } from "react";
import { useRefresh } from "@/api/refresh";
import { transport } from "@/api/transport";
import { useSession } from "@/app/session";
import { Field, Input, Select } from "@/components/Field";
import { FormDialog } from "@/components/FormDialog";
import { may } from "@/features/session/queries";
import { AgentService } from "@/gen/deckhand/v1/agent_pb";
import { CredentialService } from "@/gen/deckhand/v1/credential_pb";
import { KnowledgeService, KnowledgeSourceKind, type Collection } from "@/gen/deckhand/v1/knowledge_pb";
import { NodeService } from "@/gen/deckhand/v1/node_pb";
import { ScopeKind } from "@/gen/deckhand/v1/scope_pb";
import { TeamService } from "@/gen/deckhand/v1/team_pb";

const knowledge = createClient(KnowledgeService, transport);

// The largest file that is read.
const maxFile = 16 << 20;

type From = "files" | "workspace" | "git" | "web" | "node";

// AddDocuments adds documents to a collection, or to a new one, and syncs it.
export function AddDocuments(props: { to?: Collection; onClose: () => void }) {
  const session = useSession();
  const admin = may(session, "admin");
  const refresh = useRefresh(KnowledgeService);
  const [name, setName] = useState("");
  const [description, setDescription] = useState("");
  const [scope, setScope] = useState("user");
  const [from, setFrom] = useState<From>("files");
  const [files, setFiles] = useState<File[]>([]);
  const [agent, setAgent] = useState("");
  const [node, setNode] = useState("");
  const [path, setPath] = useState("");
  const [url, setUrl] = useState("");
  const [credential, setCredential] = useState("");
  const agents = useQuery(AgentService.method.listAgents, { pageSize: 500 });
  const nodes = useQuery(NodeService.method.listNodes, { pageSize: 500 }, { enabled: admin });
  const credentials = useQuery(CredentialService.method.listCredentials, { pageSize: 500 }, { enabled: admin && from === "git" });
  const teams = useQuery(TeamService.method.listTeams, { pageSize: 500 });
  const tooLarge = files.find((f) => f.size > maxFile);
  const badName = name !== "" && !/^[A-Za-z0-9][A-Za-z0-9._-]{0,99}$/.test(name);
  const ready =
    (props.to !== undefined || (name !== "" && !badName)) &&
    { files: files.length > 0 && !tooLarge, workspace: agent !== "", git: url !== "", web: url !== "", node: node !== "" && path !== "" }[from];
  const run = async () => {
    let id = props.to?.id;
    if (!id) {
      const team = scope.startsWith("team:") ? scope.slice("team:".length) : "";
      const kind = team ? ScopeKind.TEAM : scope === "organisation" ? ScopeKind.ORGANISATION : ScopeKind.USER;
      id = (await knowledge.createCollection({ name, description, scope: { kind, id: team } })).collection!.id;
    }
    if (from === "files") {
      for (const f of files) {
        await knowledge.uploadDocument({ collectionId: id, path: f.webkitRelativePath || f.name, content: new Uint8Array(await f.arrayBuffer()) });
      }
    } else {
      const kind = { workspace: KnowledgeSourceKind.WORKSPACE, git: KnowledgeSourceKind.GIT, web: KnowledgeSourceKind.WEB, node: KnowledgeSourceKind.NODE }[from];
      await knowledge.addSource({
        collectionId: id,
        source: {
          kind,
          agentId: from === "workspace" ? agent : "",
          nodeId: from === "node" ? node : "",
          path: from === "web" ? "" : path,
          url: from === "git" || from === "web" ? url : "",
          credential: from === "git" ? credential : "",
        },
      });
    }
    await knowledge.syncCollection({ collectionId: id });
    await refresh();
  };
  return (
    <FormDialog title={props.to ? `Add documents to ${props.to.name}` : "Add documents"} action="Add and sync" ready={ready} run={run} onClose={props.onClose}>
      {!props.to && (
        <>
          <Field label="Name of the collection" hint="Letters, digits, dots and dashes." problem={badName ? "Use letters, digits, dots and dashes, without spaces." : undefined}>
            <Input autoFocus value={name} maxLength={100} placeholder="handbook" onChange={(e) => setName(e.target.value)} />
          </Field>
          <Field label="Description" hint="What it is about, for people and agents.">
            <Input value={description} maxLength={500} onChange={(e) => setDescription(e.target.value)} />
          </Field>
          <Field label="Who finds it" hint="Agents find it when they run for one of them.">
            <Select value={scope} onChange={(e) => setScope(e.target.value)}>
              <option value="user">Only you</option>
              {teams.data?.teams.map((t) => (
                <option key={t.id} value={`team:${t.id}`}>
                  Team {t.name}
                </option>
              ))}
              {admin && <option value="organisation">Everybody in the organisation</option>}
            </Select>
          </Field>
        </>
      )}
      <Field label="Documents from">
        <Select value={from} onChange={(e) => setFrom(e.target.value as From)}>
          <option value="files">Files of this computer</option>
          <option value="workspace">A folder of an agent's workspace</option>
          {may(session, "advanced") && <option value="git">A Git repository</option>}
          {may(session, "advanced") && <option value="web">A web page</option>}
          {admin && <option value="node">A folder of a machine</option>}
        </Select>
      </Field>
      {from === "files" && (
        <Field label="Files" hint="Markdown, HTML, text, source code, PDF, DOCX or CSV, up to 16 MiB each." problem={tooLarge && `${tooLarge.name} is over 16 MiB.`}>
          <Input type="file" multiple onChange={(e) => setFiles([...(e.target.files ?? [])])} />
        </Field>
      )}
      {from === "workspace" && (
        <Field label="Agent">
          <Select value={agent} onChange={(e) => setAgent(e.target.value)}>
            <option value="">Choose an agent</option>
            {agents.data?.agents.map((a) => (
              <option key={a.id} value={a.id}>
                {a.name}
              </option>
            ))}
          </Select>
        </Field>
      )}
      {from === "node" && (
        <Field label="Node" hint="The node must show the folder (show_paths).">
          <Select value={node} onChange={(e) => setNode(e.target.value)}>
            <option value="">Choose a node</option>
            {nodes.data?.nodes.map((n) => (
              <option key={n.id} value={n.id}>
                {n.name}
              </option>
            ))}
          </Select>
        </Field>
      )}
      {(from === "git" || from === "web") && (
        <Field label="Address" hint={from === "git" ? "By https." : "By https, without a login."}>
          <Input type="url" value={url} placeholder={from === "git" ? "https://git.example.com/team/docs.git" : "https://example.com/manual"} onChange={(e) => setUrl(e.target.value)} />
        </Field>
      )}
      {from === "git" && admin && (
        <Field label="Credential" hint="Everybody who finds the collection reads what it opens.">
          <Select value={credential} onChange={(e) => setCredential(e.target.value)}>
            <option value="">None: the repository is public</option>
            {credentials.data?.credentials.map((c) => (
              <option key={c.name} value={c.name}>
                {c.name}
              </option>
            ))}
          </Select>
        </Field>
      )}
      {from !== "files" && from !== "web" && (
        <Field label="Folder" hint={from === "node" ? undefined : "Empty for all of it."}>
          <Input value={path} placeholder={from === "node" ? "/srv/handbook" : "docs"} onChange={(e) => setPath(e.target.value)} />
        </Field>
      )}
    </FormDialog>
  );
}
