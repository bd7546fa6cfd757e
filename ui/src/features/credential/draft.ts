import { create } from "@bufbuild/protobuf";
import { CreateCredentialRequestSchema, CredentialValueSchema, type CreateCredentialRequest, type Credential, type CredentialValue } from "@/gen/deckhand/v1/credential_pb";

export const kinds = ["bearer", "basic", "header", "query", "github_app", "gitlab", "oauth2_client", "aws_sigv4", "password"] as const;
export type Kind = (typeof kinds)[number];

export const kindLabels: Record<Kind, string> = {
  bearer: "Bearer token",
  basic: "User name and password",
  header: "HTTP header",
  query: "URL parameter",
  github_app: "GitHub App",
  gitlab: "GitLab token",
  oauth2_client: "OAuth 2.0 client",
  aws_sigv4: "AWS access key",
  password: "Password for web pages",
};

// Secret is one part of a kind's value.
export type Secret = { name: SecretName; label: string; optional?: boolean; lines?: boolean };
export type SecretName = Exclude<keyof CredentialValue, "$typeName" | "$unknown">;

export const secretsOf: Record<Kind, Secret[]> = {
  bearer: [{ name: "token", label: "Token" }],
  basic: [
    { name: "username", label: "User name", optional: true },
    { name: "password", label: "Password", optional: true },
  ],
  header: [{ name: "value", label: "Value" }],
  query: [{ name: "value", label: "Value" }],
  github_app: [{ name: "privateKey", label: "Private key (PEM)", lines: true }],
  gitlab: [{ name: "token", label: "Access token" }],
  oauth2_client: [{ name: "clientSecret", label: "Client secret" }],
  aws_sigv4: [
    { name: "accessKeyId", label: "Access key ID" },
    { name: "secretAccessKey", label: "Secret access key" },
    { name: "sessionToken", label: "Session token", optional: true },
  ],
  password: [{ name: "password", label: "Password" }],
};

// Draft is what the form of a credential holds. Its value is not in it.
export type Draft = {
  kind: Kind;
  name: string;
  // Lists are with commas or line ends.
  hosts: string;
  ports: string;
  methods: string;
  paths: string;
  agents: string;
  private: boolean;
  variable: string;
  roots: string;
  header: string;
  parameter: string;
  baseUrl: string;
  api: string;
  appId: string;
  installationId: string;
  repositories: string;
  permissions: string;
  tokenUrl: string;
  clientId: string;
  scopes: string;
  audience: string;
  region: string;
  service: string;
};

export const emptyDraft: Draft = {
  kind: "bearer",
  name: "",
  hosts: "",
  ports: "",
  methods: "",
  paths: "",
  agents: "",
  private: false,
  variable: "",
  roots: "",
  header: "",
  parameter: "",
  baseUrl: "",
  api: "",
  appId: "",
  installationId: "",
  repositories: "",
  permissions: "",
  tokenUrl: "",
  clientId: "",
  scopes: "",
  audience: "",
  region: "",
  service: "",
};

type TextField = Exclude<keyof Draft, "kind" | "private">;
export type FormField = { name: TextField; label: string; hint?: string };

// forge are the fields of a credential for a service that hosts Git repositories.
const forge: FormField[] = [
  { name: "api", label: "Git service", hint: "github or gitlab, to open pull requests with it. Leave empty for other services." },
  { name: "baseUrl", label: "API URL", hint: "Default: https://api.github.com, or https://gitlab.com" },
];

// settingsOf are the fields that a kind has besides its value.
export const settingsOf: Record<Kind, FormField[]> = {
  bearer: forge,
  basic: forge,
  header: [{ name: "header", label: "Header name", hint: "Such as X-Api-Key." }],
  query: [{ name: "parameter", label: "Parameter name", hint: "Such as key." }],
  github_app: [
    { name: "appId", label: "App ID" },
    { name: "installationId", label: "Installation ID", hint: "Leave empty to look it up by the repository." },
    { name: "repositories", label: "Repositories", hint: "OWNER/NAME, or OWNER/* for all of an owner, separated by commas." },
    { name: "permissions", label: "Permissions", hint: "Such as contents=write, pull_requests=write." },
    { name: "baseUrl", label: "API URL", hint: "Default: https://api.github.com" },
  ],
  gitlab: [{ name: "baseUrl", label: "GitLab URL", hint: "Default: https://gitlab.com" }],
  oauth2_client: [
    { name: "tokenUrl", label: "Token URL" },
    { name: "clientId", label: "Client ID" },
    { name: "scopes", label: "Scopes", hint: "Separated by commas." },
    { name: "audience", label: "Audience", hint: "Leave empty unless the server needs one." },
  ],
  aws_sigv4: [
    { name: "region", label: "Region", hint: "Leave empty for hosts of amazonaws.com." },
    { name: "service", label: "Service", hint: "Leave empty for hosts of amazonaws.com." },
  ],
  password: [],
};

const list = (text: string) => text.split(/[\s,]+/).filter(Boolean);
const level = /^([a-z_]+)=(read|write|admin)$/;

export type Problems = Partial<Record<keyof Draft, string>>;

// problemsOf returns what is invalid, by field. The hub checks the rest.
export function problemsOf(d: Draft): Problems {
  const problems: Problems = {};
  if (!/^[a-z]([a-z0-9-]{0,61}[a-z0-9])?$/.test(d.name)) problems.name = "Use lower-case letters, digits and dashes, beginning with a letter.";
  if (d.kind !== "github_app" && d.kind !== "gitlab" && list(d.hosts).length === 0) problems.hosts = "Enter at least one host, such as api.example.com.";
  if (list(d.ports).some((p) => !/^\d{1,5}$/.test(p) || Number(p) < 1 || Number(p) > 65535)) problems.ports = "Enter numbers from 1 to 65535.";
  if (list(d.paths).some((p) => !/^!?\//.test(p))) problems.paths = "Begin each path with /, or with !/ to leave it out.";
  const required: Partial<Record<Kind, TextField[]>> = {
    header: ["header"],
    query: ["parameter"],
    github_app: ["appId", "repositories", "permissions"],
    oauth2_client: ["tokenUrl", "clientId"],
  };
  for (const name of required[d.kind] ?? []) if (!d[name].trim()) problems[name] = "Enter a value.";
  if (d.kind === "github_app" && d.permissions && list(d.permissions).some((p) => !level.test(p))) problems.permissions = "Use NAME=read, NAME=write or NAME=admin.";
  if (d.installationId && !/^\d{1,18}$/.test(d.installationId)) problems.installationId = "Enter a number, or leave it empty.";
  if (settingsOf[d.kind] === forge && !["", "github", "gitlab"].includes(d.api.trim())) problems.api = "Enter github or gitlab, or leave it empty.";
  if (d.tokenUrl && d.kind === "oauth2_client" && !d.tokenUrl.startsWith("https://")) problems.tokenUrl = "Enter an https URL.";
  return problems;
}

// valueOf is a value from what was typed, by the names of its parts.
export const valueOf = (typed: Partial<Record<SecretName, string>>): CredentialValue => create(CredentialValueSchema, typed);

// draftOf is a credential as the form holds it.
export function draftOf(c: Credential): Draft {
  const s = c.settings;
  return {
    ...emptyDraft,
    kind: kinds.find((k) => k === c.kind) ?? "bearer",
    name: c.name,
    hosts: c.hosts.join(", "),
    ports: c.ports.join(", "),
    methods: c.methods.join(", "),
    paths: c.paths.join(", "),
    agents: c.agents.join(", "),
    private: c.private,
    variable: c.variable,
    roots: c.roots,
    ...(s && {
      header: s.header,
      parameter: s.parameter,
      baseUrl: s.baseUrl,
      api: s.api,
      appId: s.appId,
      installationId: s.installationId ? String(s.installationId) : "",
      repositories: s.repositories.join(", "),
      permissions: Object.entries(s.permissions)
        .map(([name, right]) => `${name}=${right}`)
        .sort()
        .join(", "),
      tokenUrl: s.tokenUrl,
      clientId: s.clientId,
      scopes: s.scopes.join(", "),
      audience: s.audience,
      region: s.region,
      service: s.service,
    }),
  };
}

// requestOf is what the hub is asked for. It holds only for a draft without problems.
export function requestOf(d: Draft, value: CredentialValue): CreateCredentialRequest {
  const of = new Set(settingsOf[d.kind].map((f) => f.name));
  const text = (name: TextField) => (of.has(name) ? d[name].trim() : "");
  const permissions: Record<string, string> = {};
  for (const p of list(text("permissions"))) {
    const [, name, right] = level.exec(p) ?? [];
    if (name && right) permissions[name] = right;
  }
  return create(CreateCredentialRequestSchema, {
    name: d.name,
    kind: d.kind,
    hosts: list(d.hosts),
    ports: list(d.ports).map(Number),
    methods: list(d.methods).map((m) => m.toUpperCase()),
    paths: list(d.paths),
    private: d.private,
    agents: list(d.agents),
    variable: d.variable.trim(),
    roots: d.roots.trim(),
    value,
    settings: {
      header: text("header"),
      parameter: text("parameter"),
      baseUrl: text("baseUrl"),
      api: text("api"),
      appId: text("appId"),
      installationId: BigInt(text("installationId") || 0),
      repositories: list(text("repositories")),
      permissions,
      tokenUrl: text("tokenUrl"),
      clientId: text("clientId"),
      scopes: list(text("scopes")),
      audience: text("audience"),
      region: text("region"),
      service: text("service"),
    },
  });
}
