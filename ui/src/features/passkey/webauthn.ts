// What the hub and the browser say to each other about passkeys: the JSON of WebAuthn
// level 3, in which bytes are base64 for URLs. Not every browser reads and writes it
// itself.

const toBytes = (text: string) => Uint8Array.from(atob(text.replaceAll("-", "+").replaceAll("_", "/")), (c) => c.charCodeAt(0));
const toText = (bytes: ArrayBuffer) =>
  btoa(String.fromCharCode(...new Uint8Array(bytes))).replaceAll("+", "-").replaceAll("/", "_").replaceAll("=", "");

type Descriptor = { id: string; type: "public-key"; transports?: AuthenticatorTransport[] };
const descriptors = (list: Descriptor[] | undefined) => list?.map((d) => ({ ...d, id: toBytes(d.id) }));

// supported reports whether this browser has passkeys for this page: it must have come
// over HTTPS, or from this machine.
export const supported = () => globalThis.isSecureContext && typeof PublicKeyCredential === "function";

// create has the person make a passkey, and returns it as RegistrationResponseJSON.
export async function create(optionsJson: string): Promise<string> {
  const o = JSON.parse(optionsJson) as {
    challenge: string;
    user: { id: string; name: string; displayName: string };
    excludeCredentials?: Descriptor[];
  } & Omit<PublicKeyCredentialCreationOptions, "challenge" | "user" | "excludeCredentials">;
  const made = (await navigator.credentials.create({
    publicKey: { ...o, challenge: toBytes(o.challenge), user: { ...o.user, id: toBytes(o.user.id) }, excludeCredentials: descriptors(o.excludeCredentials) },
  })) as PublicKeyCredential | null;
  if (!made) throw new Error("The browser made no passkey. Try again.");
  const response = made.response as AuthenticatorAttestationResponse;
  return JSON.stringify({
    ...common(made),
    response: {
      clientDataJSON: toText(response.clientDataJSON),
      attestationObject: toText(response.attestationObject),
      transports: response.getTransports?.() ?? [],
    },
  });
}

// get has the person use a passkey, and returns AuthenticationResponseJSON.
export async function get(optionsJson: string): Promise<string> {
  const o = JSON.parse(optionsJson) as { challenge: string; allowCredentials?: Descriptor[] } & Omit<
    PublicKeyCredentialRequestOptions,
    "challenge" | "allowCredentials"
  >;
  const used = (await navigator.credentials.get({
    publicKey: { ...o, challenge: toBytes(o.challenge), allowCredentials: descriptors(o.allowCredentials) },
  })) as PublicKeyCredential | null;
  if (!used) throw new Error("No passkey was used. Try again.");
  const response = used.response as AuthenticatorAssertionResponse;
  return JSON.stringify({
    ...common(used),
    response: {
      clientDataJSON: toText(response.clientDataJSON),
      authenticatorData: toText(response.authenticatorData),
      signature: toText(response.signature),
      userHandle: response.userHandle ? toText(response.userHandle) : undefined,
    },
  });
}

const common = (c: PublicKeyCredential) => ({
  id: c.id,
  rawId: toText(c.rawId),
  type: c.type,
  authenticatorAttachment: c.authenticatorAttachment ?? undefined,
  clientExtensionResults: c.getClientExtensionResults(),
});
