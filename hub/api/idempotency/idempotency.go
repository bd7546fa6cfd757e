// Package idempotency makes repeated calls harmless: a changing call of a user's that has
// the header Idempotency-Key is made once. A call that is repeated with the same key within
// 24 hours gets the first response, also at another hub, and with another request it is
// refused. Keys belong to a user and a procedure, whichever token or session of the same rights
// the call comes with, or to a task for programs in its jail. Reads ignore them, and so do calls
// that need no token.
//
// [Interceptor] claims the key before the handler runs. The transactions of the call record
// in the claim that they have committed something; see [store.WithClaim]. What a call changes
// outside the database is recorded before; see [store.Store.Touch]. The response is stored
// sealed, since it may have a secret that is shown once. The key of a refused call can be used
// again. If a call fails after a commit, repetitions are refused until the key expires,
// because the outcome is unknown.
//
// When a hub dies during a call, its claim counts as abandoned after half a minute. If
// nothing was committed, the next call takes the key over, and transactions of the former
// owner fail from then on. If the hub dies after a commit, repetitions are refused until the
// key expires, because the outcome is unknown.
package idempotency

import (
	"context"
	"crypto/hmac"
	"crypto/sha256"
	"crypto/subtle"
	"encoding/hex"
	"fmt"
	"strings"
	"time"

	"connectrpc.com/connect"
	"github.com/hashicorp/go-hclog"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/reflect/protoreflect"
	"google.golang.org/protobuf/reflect/protoregistry"
	"google.golang.org/protobuf/types/known/emptypb"

	"github.com/deckhand-sh/deckhand/hub/identity/auth"
	"github.com/deckhand-sh/deckhand/hub/storage/store"
	"github.com/deckhand-sh/deckhand/hub/storage/store/db"
	"github.com/deckhand-sh/deckhand/hub/storage/vault"
	"github.com/deckhand-sh/deckhand/internal/fault"
	"github.com/deckhand-sh/deckhand/internal/ident"
	"github.com/deckhand-sh/deckhand/internal/logging"
)

const (
	// Header has the key of a call.
	Header = "Idempotency-Key"
	// ReplayedHeader is set on a response that was stored.
	ReplayedHeader = "Idempotency-Replayed"
	// Keep is how long a key is kept.
	Keep = 24 * time.Hour
	// longest is the length of the longest key.
	longest = 255
	// lease is how long a call counts as alive after it was last heard of.
	lease = 30 * time.Second
	// atMost is how long a call with a key may take. It goes on when its caller leaves,
	// who comes back for the response.
	atMost = 10 * time.Minute
	// again is when a call that is in progress is asked for again.
	again = time.Second
)

// Config is what an Interceptor is made of.
type Config struct {
	Store *store.Store
	Vault *vault.Vault
	Log   hclog.Logger
}

// Interceptor returns the interceptor. It is the innermost: what it stores was validated and
// may be called.
func Interceptor(cfg Config) connect.Interceptor {
	k := keys(cfg)
	return connect.UnaryInterceptorFunc(func(next connect.UnaryFunc) connect.UnaryFunc {
		return func(ctx context.Context, req connect.AnyRequest) (connect.AnyResponse, error) {
			key := req.Header().Get(Header)
			id := auth.Known(ctx)
			if key == "" || id.Kind != auth.User && id.Kind != auth.Program || auth.Reads(req.Spec().Procedure) {
				return next(ctx, req)
			}
			return k.once(ctx, id, key, req, next)
		}
	})
}

type keys Config

// call is a call with a key.
type call struct {
	org, id, owner string
}

func (k keys) once(ctx context.Context, id auth.Identity, key string, req connect.AnyRequest, next connect.UnaryFunc) (connect.AnyResponse, error) {
	if len(key) > longest || strings.ContainsFunc(key, func(r rune) bool { return r <= ' ' || r > '~' }) {
		return nil, fault.New(fault.Invalid, "the header %s is not a key", Header).WithFix("use 1 to %d visible ASCII characters, such as a UUID", longest)
	}
	message, ok := req.Any().(proto.Message)
	if !ok {
		return nil, fmt.Errorf("the request of %s is not a message", req.Spec().Procedure)
	}
	body, err := proto.MarshalOptions{Deterministic: true}.Marshal(message)
	if err != nil {
		return nil, fmt.Errorf("digest the request: %w", err)
	}
	mac := hmac.New(sha256.New, []byte(key))
	mac.Write(body)
	digest, hash := mac.Sum(nil), sha256.Sum256([]byte(key))
	c := call{org: id.OrgID, owner: ident.New("call")}
	caller := callerOf(id)
	c.id, err = k.Store.ClaimIdempotencyKey(ctx, db.ClaimIdempotencyKeyParams{
		ID: ident.New("idem"), OrgID: id.OrgID, Caller: caller, Procedure: req.Spec().Procedure, KeyHash: hash[:], RequestDigest: digest,
		Owner: c.owner, Lease: lease, Keep: Keep,
	})
	if err == nil {
		return k.run(ctx, c, req, next)
	}
	if !store.IsNotFound(err) {
		return nil, fmt.Errorf("claim the idempotency key: %w", err)
	}
	row, err := k.Store.GetIdempotencyKey(ctx, db.GetIdempotencyKeyParams{
		OrgID: id.OrgID, Caller: caller, Procedure: req.Spec().Procedure, KeyHash: hash[:],
	})
	if store.IsNotFound(err) {
		return nil, inProgress() // the call that held the key has just released it
	}
	if err != nil {
		return nil, fmt.Errorf("read the idempotency key: %w", err)
	}
	switch {
	case subtle.ConstantTimeCompare(row.RequestDigest, digest) != 1:
		return nil, fault.New(fault.Invalid, "the idempotency key was used with another request").WithCode(fault.IdempotencyKeyReused).
			WithFix("send a new key with each new request")
	case row.State == "done":
		return k.stored(c.org, row.ID, row.Sealed, req)
	case row.State == "unknown" || row.Touched && row.Abandoned:
		return nil, fault.New(fault.Aborted, "an earlier call with this idempotency key broke off after it had changed something").
			WithCode(fault.IdempotencyUnknown).WithFix("look whether it took effect; if not, call again with a new key")
	default:
		return nil, inProgress()
	}
}

// callerOf returns whose a key is. A token with fewer rights than another has keys of its own:
// a stored response may have a secret with the rights of the first.
func callerOf(id auth.Identity) string {
	if id.Kind == auth.Program {
		return id.TokenID
	}
	rights := sha256.Sum256(append([]byte(id.Role+" "), id.Scope.Encode()...))
	return id.UserID + " " + hex.EncodeToString(rights[:8])
}

func inProgress() error {
	return fault.New(fault.Aborted, "an earlier call with this idempotency key has not ended yet").WithCode(fault.IdempotencyInProgress).
		WithFix("call again in a second for its response").WithRetryAfter(again)
}

// object is what a stored response is sealed for.
func object(org, id string) string { return "response of " + id + " of " + org }

// stored returns the response of an earlier call.
func (k keys) stored(org, id string, sealed []byte, req connect.AnyRequest) (connect.AnyResponse, error) {
	body, err := k.Vault.Open(sealed, object(org, id))
	if err != nil {
		return nil, fmt.Errorf("open the stored response: %w", err)
	}
	method, ok := req.Spec().Schema.(protoreflect.MethodDescriptor)
	if !ok {
		return nil, fmt.Errorf("%s has no schema", req.Spec().Procedure)
	}
	kind, err := protoregistry.GlobalTypes.FindMessageByName(method.Output().FullName())
	if err != nil {
		return nil, fmt.Errorf("find the type of the response: %w", err)
	}
	message := kind.New().Interface()
	if err := proto.Unmarshal(body, message); err != nil {
		return nil, fmt.Errorf("read the stored response: %w", err)
	}
	res := replayed{AnyResponse: connect.NewResponse(&emptypb.Empty{}), message: message}
	res.Header().Set(ReplayedHeader, "true")
	return res, nil
}

// replayed is a response whose type is known only at run time.
type replayed struct {
	connect.AnyResponse

	message proto.Message
}

// Any returns the message.
func (r replayed) Any() any { return r.message }

// run makes a call and stores its response. The call goes on if its caller leaves.
func (k keys) run(ctx context.Context, c call, req connect.AnyRequest, next connect.UnaryFunc) (connect.AnyResponse, error) {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), atMost)
	defer cancel()
	go k.keep(ctx, c)
	res, err := next(store.WithClaim(ctx, store.Claim{ID: c.id, Owner: c.owner}), req)
	// Also after the call has taken as long as it may.
	ctx, cancel = context.WithTimeout(context.WithoutCancel(ctx), lease)
	defer cancel()
	if err != nil {
		k.failed(ctx, c)
		return nil, err
	}
	if err := k.store(ctx, c, res); err != nil {
		// The call is done. A repetition is told that its outcome is not known.
		logging.From(ctx, k.Log).Error("store the response of a call with an idempotency key", "procedure", req.Spec().Procedure, "error", err)
	}
	return res, nil
}

// keep has a call count as alive.
func (k keys) keep(ctx context.Context, c call) {
	tick := time.NewTicker(lease / 3)
	defer tick.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
		}
		if _, err := k.Store.KeepIdempotencyKey(ctx, db.KeepIdempotencyKeyParams{OrgID: c.org, ID: c.id, Owner: c.owner, Lease: lease}); err != nil && ctx.Err() == nil {
			logging.From(ctx, k.Log).Warn("extend the claim of an idempotency key", "error", err)
		}
	}
}

func (k keys) store(ctx context.Context, c call, res connect.AnyResponse) error {
	message, ok := res.Any().(proto.Message)
	if !ok {
		return fmt.Errorf("the response is not a message")
	}
	body, err := proto.Marshal(message)
	if err != nil {
		return err
	}
	sealed, err := k.Vault.Seal(body, object(c.org, c.id))
	if err != nil {
		return err
	}
	_, err = k.Store.FinishIdempotencyKey(ctx, db.FinishIdempotencyKeyParams{OrgID: c.org, ID: c.id, Owner: c.owner, Sealed: sealed})
	return err
}

// failed frees the key of a call that changed nothing. Otherwise its outcome is unknown.
func (k keys) failed(ctx context.Context, c call) {
	n, err := k.Store.ReleaseIdempotencyKey(ctx, db.ReleaseIdempotencyKeyParams{OrgID: c.org, ID: c.id, Owner: c.owner})
	if err == nil && n == 0 {
		_, err = k.Store.DoubtIdempotencyKey(ctx, db.DoubtIdempotencyKeyParams{OrgID: c.org, ID: c.id, Owner: c.owner})
	}
	if err != nil {
		logging.From(ctx, k.Log).Warn("free an idempotency key", "error", err)
	}
}
