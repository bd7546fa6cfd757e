package signature

import (
	"crypto/sha256"
	"encoding/base64"
	"encoding/hex"
	"encoding/json"
	"encoding/pem"
	"errors"
	"fmt"

	protobundle "github.com/sigstore/protobuf-specs/gen/pb-go/bundle/v1"
	protocommon "github.com/sigstore/protobuf-specs/gen/pb-go/common/v1"
	protorekor "github.com/sigstore/protobuf-specs/gen/pb-go/rekor/v1"
	"github.com/sigstore/sigstore-go/pkg/bundle"

	nodev1 "github.com/deckhand-sh/deckhand/proto/gen/deckhand/node/v1"
)

// simplePayload is what a signature of cosign says that it is of
// (https://github.com/containers/image/blob/main/docs/containers-signature.5.md).
type simplePayload struct {
	Critical struct {
		Type  string `json:"type"`
		Image struct {
			Digest string `json:"docker-manifest-digest"`
		} `json:"image"`
	} `json:"critical"`
}

// logEntry is the entry in a transparency log that cosign stores with a signature.
type logEntry struct {
	SignedEntryTimestamp []byte
	Payload              struct {
		Body           []byte `json:"body"`
		IntegratedTime int64  `json:"integratedTime"`
		LogIndex       int64  `json:"logIndex"`
		LogID          string `json:"logID"`
	}
}

// timestamp is the response of a timestamp authority that cosign stores with a signature.
type timestamp struct {
	SignedRFC3161Timestamp []byte
}

// mediaBundle01 is the version of bundles whose log entries have a promise only, as
// those of cosign's layers.
const mediaBundle01 = "application/vnd.dev.sigstore.bundle+json;version=0.1"

// entityOf returns a signature of cosign as a bundle, which sigstore's library verifies.
func entityOf(simple *nodev1.ImageSignature_SimpleSigning) (*bundle.Bundle, error) {
	sig, err := base64.StdEncoding.DecodeString(simple.GetSignature())
	if err != nil {
		return nil, fmt.Errorf("the signature is not base64: %w", err)
	}
	sum := sha256.Sum256(simple.GetPayload())
	material := &protobundle.VerificationMaterial{Content: &protobundle.VerificationMaterial_PublicKey{PublicKey: &protocommon.PublicKeyIdentifier{}}}
	if simple.GetCertificate() != "" {
		block, _ := pem.Decode([]byte(simple.GetCertificate()))
		if block == nil || block.Type != "CERTIFICATE" {
			return nil, errors.New("the certificate is not PEM")
		}
		material.Content = &protobundle.VerificationMaterial_Certificate{Certificate: &protocommon.X509Certificate{RawBytes: block.Bytes}}
	}
	if simple.GetLogEntry() != "" {
		entry, err := readLogEntry(simple.GetLogEntry())
		if err != nil {
			return nil, err
		}
		material.TlogEntries = []*protorekor.TransparencyLogEntry{entry}
	}
	if simple.GetTimestamp() != "" {
		var stamp timestamp
		if err := json.Unmarshal([]byte(simple.GetTimestamp()), &stamp); err != nil {
			return nil, fmt.Errorf("the timestamp cannot be read: %w", err)
		}
		material.TimestampVerificationData = &protobundle.TimestampVerificationData{
			Rfc3161Timestamps: []*protocommon.RFC3161SignedTimestamp{{SignedTimestamp: stamp.SignedRFC3161Timestamp}},
		}
	}
	return bundle.NewBundle(&protobundle.Bundle{
		MediaType: mediaBundle01, VerificationMaterial: material,
		Content: &protobundle.Bundle_MessageSignature{MessageSignature: &protocommon.MessageSignature{
			MessageDigest: &protocommon.HashOutput{Algorithm: protocommon.HashAlgorithm_SHA2_256, Digest: sum[:]},
			Signature:     sig,
		}},
	})
}

func readLogEntry(text string) (*protorekor.TransparencyLogEntry, error) {
	var entry logEntry
	if err := json.Unmarshal([]byte(text), &entry); err != nil {
		return nil, fmt.Errorf("the log entry cannot be read: %w", err)
	}
	log, err := hex.DecodeString(entry.Payload.LogID)
	if err != nil {
		return nil, fmt.Errorf("the log entry's logID is not hexadecimal: %w", err)
	}
	var kind struct{ Kind, APIVersion string }
	if err := json.Unmarshal(entry.Payload.Body, &kind); err != nil {
		return nil, fmt.Errorf("the log entry's body cannot be read: %w", err)
	}
	return &protorekor.TransparencyLogEntry{
		LogIndex: entry.Payload.LogIndex, LogId: &protocommon.LogId{KeyId: log}, IntegratedTime: entry.Payload.IntegratedTime,
		KindVersion:       &protorekor.KindVersion{Kind: kind.Kind, Version: kind.APIVersion},
		InclusionPromise:  &protorekor.InclusionPromise{SignedEntryTimestamp: entry.SignedEntryTimestamp},
		CanonicalizedBody: entry.Payload.Body,
	}, nil
}
