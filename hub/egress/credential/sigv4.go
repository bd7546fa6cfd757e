package credential

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/netip"
	"net/url"
	"regexp"
	"slices"
	"strings"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	v4 "github.com/aws/aws-sdk-go-v2/aws/signer/v4"
	"github.com/aws/smithy-go/encoding/httpbinding"

	"github.com/deckhand-sh/deckhand/internal/fault"
	deckhandv1 "github.com/deckhand-sh/deckhand/proto/gen/deckhand/v1"
)

// Hashes of payloads in the header X-Amz-Content-Sha256
// (https://docs.aws.amazon.com/AmazonS3/latest/API/sig-v4-header-based-auth.html).
const (
	unsignedPayload   = "UNSIGNED-PAYLOAD"
	unsignedTrailer   = "STREAMING-UNSIGNED-PAYLOAD-TRAILER"
	streamingPrefix   = "STREAMING-"
	contentHashHeader = "X-Amz-Content-Sha256"
	// maxHashed bounds the body that is read to hash it.
	maxHashed = 8 << 20
	s3        = "s3"
)

var (
	// unsigned are hashes of bodies that are not signed.
	unsigned    = []string{unsignedPayload, unsignedTrailer}
	payloadHash = regexp.MustCompile(`^[0-9a-f]{64}$`)
	awsRegion   = regexp.MustCompile(`^[a-z]{2}(-[a-z]+)+-[0-9]{1,2}$`)
	// signingNames are those of services whose hosts have another name.
	signingNames = map[string]string{
		"email": "ses", "bedrock-runtime": "bedrock", "bedrock-agent": "bedrock", "bedrock-agent-runtime": "bedrock", "s3-fips": s3,
		"sts-fips": "sts", "dynamodb-fips": "dynamodb", "kms-fips": "kms", "sqs-fips": "sqs",
	}
	// signedHeaders are signed if they are set. What proxies may change is not.
	signedHeaders = []string{"Content-Type", "Content-Md5", "Range", "X-Amz-"}
	// presigned are the parameters of requests that a client has signed in the URL, and
	// presigned2 those of version 2, of which the first is in no other request.
	presigned = []string{
		"X-Amz-Algorithm", "X-Amz-Credential", "X-Amz-Date", "X-Amz-Expires", "X-Amz-SignedHeaders", "X-Amz-Signature", "X-Amz-Security-Token", contentHashHeader,
	}
	presigned2 = []string{"AWSAccessKeyId", "Signature", "Expires"}
)

// signingScope returns the region and the service of a host: what the settings say, else what
// the name of a host of AWS says.
func signingScope(s *deckhandv1.CredentialSettings, host string) (region, service string, err error) {
	region, service = s.GetRegion(), s.GetService()
	if region != "" && service != "" {
		return region, service, nil
	}
	name, ok := strings.CutSuffix(strings.TrimSuffix(host, ".cn"), ".amazonaws.com")
	if _, err := netip.ParseAddr(host); err == nil || !ok {
		return "", "", fault.New(fault.Invalid, "settings.region and settings.service are needed for %s, whose name does not say them", host).
			WithFix("give both, for example --region us-east-1 --service s3")
	}
	found, of := scopeOf(strings.Split(name, "."))
	if region == "" {
		region = found
	}
	if service == "" {
		service = of
	}
	return region, service, nil
}

// scopeOf returns region and service of the labels before amazonaws.com.
func scopeOf(labels []string) (region, service string) {
	region = "us-east-1" // that of services without regions
	at := len(labels)
	if i := slices.IndexFunc(labels, awsRegion.MatchString); i >= 0 {
		region, at = labels[i], i
	}
	for _, label := range slices.Backward(labels[:at]) {
		if label == "dualstack" || label == "fips" {
			continue
		}
		service = label
		break
	}
	// Names of S3 from before there were dots: s3-eu-west-1.
	if rest, ok := strings.CutPrefix(service, "s3-"); ok && awsRegion.MatchString(rest) {
		return rest, s3
	}
	if service == "" && at+1 < len(labels) {
		service = labels[at+1] // as in eu-west-1.queue
	}
	if name, ok := signingNames[service]; ok {
		service = name
	}
	return region, service
}

// sign signs a request with version 4 of AWS, in the place of what its client has signed.
func sign(req *http.Request, s *deckhandv1.CredentialSettings, value *deckhandv1.CredentialValue, name string, now time.Time) error {
	region, service, err := signingScope(s, req.URL.Hostname())
	if err != nil {
		return err
	}
	gone := presigned
	if req.URL.Query().Has(presigned2[0]) {
		gone = slices.Concat(presigned, presigned2)
	}
	for _, parameter := range gone {
		req.URL.RawQuery = withoutParameter(req.URL.RawQuery, parameter)
	}
	for _, header := range []string{"Authorization", "X-Amz-Date", "X-Amz-Security-Token", "Date"} {
		req.Header.Del(header)
	}
	hash, err := hashOf(req, service, name)
	if err != nil {
		return err
	}
	canonicalPath(req, service)
	// What is signed is a request of its own: its other headers may change on the way.
	signed := &http.Request{Method: req.Method, URL: req.URL, Host: req.Host, Header: http.Header{}}
	for header, values := range req.Header {
		if slices.ContainsFunc(signedHeaders, func(h string) bool {
			return header == h || strings.HasSuffix(h, "-") && strings.HasPrefix(header, h)
		}) {
			signed.Header[header] = values
		}
	}
	err = v4.NewSigner().SignHTTP(context.Background(), aws.Credentials{
		AccessKeyID: value.GetAccessKeyId(), SecretAccessKey: value.GetSecretAccessKey(), SessionToken: value.GetSessionToken(),
	}, signed, hash, service, region, now.UTC(), func(o *v4.SignerOptions) {
		// S3 signs the path as it is sent; others encode it once more.
		o.DisableURIPathEscaping = service == s3
	})
	if err != nil {
		return fmt.Errorf("sign with credential %s: %w", name, err)
	}
	for _, header := range []string{"Authorization", "X-Amz-Date", "X-Amz-Security-Token"} {
		if text := signed.Header.Get(header); text != "" {
			req.Header.Set(header, text)
		}
	}
	return nil
}

// canonicalPath has a request's path encoded as AWS does before it signs it: each byte that is
// not unreserved. Clients leave more as it is.
func canonicalPath(req *http.Request, service string) {
	if service == s3 {
		// An encoded slash is one of the key's.
		req.URL.RawPath = httpbinding.EscapePath(req.URL.Path, false)
		return
	}
	parts := strings.Split(req.URL.EscapedPath(), "/")
	for i, part := range parts {
		plain, err := url.PathUnescape(part)
		if err != nil {
			return // there is no such path in a request that was parsed
		}
		parts[i] = httpbinding.EscapePath(plain, true)
	}
	req.URL.RawPath = strings.Join(parts, "/")
}

// hashOf returns the hash of a request's payload that is signed: the client's if it is one
// that can stay, else it is computed.
func hashOf(req *http.Request, service, name string) (string, error) {
	hash := req.Header.Get(contentHashHeader)
	refuse := func(format string, args ...any) *fault.Error {
		return fault.New(fault.Denied, format, args...).WithCode(fault.CredentialRefused).WithObject(name)
	}
	switch {
	case payloadHash.MatchString(hash), slices.Contains(unsigned, hash):
		return hash, nil
	case strings.HasPrefix(hash, streamingPrefix):
		return "", refuse("the client signs each chunk of the body (%.64s), with a key that it does not have", hash).
			WithFix("have it send the body unsigned: payload_signing_enabled = false in the s3 section of ~/.aws/config, or chunkedEncodingEnabled(false) with the SDK for Java")
	case hash != "":
		return "", refuse("the header %s is not a hash of SHA-256", contentHashHeader).WithFix("leave it out")
	case service == s3:
		req.Header.Set(contentHashHeader, unsignedPayload)
		return unsignedPayload, nil
	}
	var body []byte
	if req.Body != nil && req.Body != http.NoBody {
		var err error
		if body, err = io.ReadAll(io.LimitReader(req.Body, maxHashed+1)); err != nil {
			return "", refuse("the body of the request cannot be read").WithFix("send the request again").WithCause(err)
		}
		if len(body) > maxHashed {
			return "", refuse("the body of the request is longer than %d MiB, the most that is signed without a hash", maxHashed>>20).
				WithFix("send its SHA-256 in the header %s", contentHashHeader)
		}
		if err := req.Body.Close(); err != nil && !errors.Is(err, http.ErrBodyReadAfterClose) {
			return "", refuse("the body of the request cannot be read").WithFix("send the request again").WithCause(err)
		}
		req.Body, req.ContentLength, req.TransferEncoding = io.NopCloser(bytes.NewReader(body)), int64(len(body)), nil
		req.GetBody = func() (io.ReadCloser, error) { return io.NopCloser(bytes.NewReader(body)), nil }
	}
	sum := sha256.Sum256(body)
	return hex.EncodeToString(sum[:]), nil
}
