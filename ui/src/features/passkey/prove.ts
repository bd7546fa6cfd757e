import { createClient } from "@connectrpc/connect";
import { create, type MessageInitShape } from "@bufbuild/protobuf";
import { transport } from "@/api/transport";
import { AnswerInboxItemRequestSchema, PasskeyProofSchema, type PasskeyProof } from "@/gen/deckhand/v1/inbox_pb";
import { PasskeyService, type BeginPasskeyProofRequestSchema } from "@/gen/deckhand/v1/passkey_pb";
import { get, supported } from "./webauthn";

export const passkeys = createClient(PasskeyService, transport);

type Decision = NonNullable<MessageInitShape<typeof BeginPasskeyProofRequestSchema>["decision"]>;

// prove has the person confirm a decision with a passkey. What is signed is the digest of
// that decision, so the proof is good for nothing else.
export async function prove(decision: Decision): Promise<PasskeyProof> {
  if (!supported()) throw new Error("This needs a passkey, and this page cannot use one. Open the console by its HTTPS address, on a device with one of your passkeys.");
  const { challengeId, optionsJson } = await passkeys.beginPasskeyProof({ decision });
  return create(PasskeyProofSchema, { challengeId, credentialJson: await get(optionsJson) });
}

// dangersNeedPasskey reports whether the organisation asks for a passkey to approve what
// is dangerous, for a call that became dangerous as it was edited.
export const dangersNeedPasskey = async () => (await passkeys.getPasskeyRules({})).rules?.dangerousApprovals ?? false;

type AnswerRequest = MessageInitShape<typeof AnswerInboxItemRequestSchema>;

// proven adds the proof that an answer needs: that of an approval, or of accepting a
// review, for which the organisation asks for a passkey.
export async function proven(request: AnswerRequest, needed: boolean): Promise<AnswerRequest> {
  const runs = request.answer?.case === "approve" || request.answer?.case === "retry" || request.answer?.case === "accept";
  if (!needed || !runs) return request;
  return create(AnswerInboxItemRequestSchema, { ...create(AnswerInboxItemRequestSchema, request), proof: await prove({ case: "answer", value: request }) });
}
