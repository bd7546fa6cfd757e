package image

import (
	"context"
	"errors"
	"net"
	"net/http"
	"runtime"
	"strings"

	"github.com/containerd/containerd/v2/core/remotes/docker"
	remoteerrors "github.com/containerd/containerd/v2/core/remotes/errors"
	"github.com/containerd/errdefs"

	"github.com/deckhand-sh/deckhand/internal/dialguard"
	"github.com/deckhand-sh/deckhand/internal/fault"
)

func wrongPlatform(ref, has string) error {
	return fault.New(fault.Precondition, "image %s is for %s, and this node is %s/%s", ref, has, runtime.GOOS, runtime.GOARCH).
		WithCode(fault.ImageUnavailable).WithFix("use an image for %s/%s, or choose a node of the image's kind with nodes.labels in the persona", runtime.GOOS, runtime.GOARCH)
}

// explain returns an error of a pull in a user's words: what happened, and what
// to do. An Unavailable error may pass if the pull is tried again.
func explain(ref string, err error) error {
	if err == nil {
		return nil
	}
	if e := (*fault.Error)(nil); errors.As(err, &e) {
		return e
	}
	refuse := func(kind fault.Kind, fix, format string, args ...any) error {
		return fault.New(kind, format, args...).WithCode(fault.ImageUnavailable).WithFix("%s", fix).WithObject(ref).WithCause(err)
	}
	var status remoteerrors.ErrUnexpectedStatus
	code := 0
	if errors.As(err, &status) {
		code = status.StatusCode
	}
	text := err.Error()
	var network net.Error
	broken := func() error {
		return refuse(fault.Unavailable, "check that the node reaches the registry, and try again",
			"the registry of image %s cannot be reached or broke off: %s", ref, last(text))
	}
	switch {
	case strings.Contains(text, "timeout awaiting response headers"): // it passes for the end of a context
		return broken()
	case errors.Is(err, context.Canceled), errors.Is(err, context.DeadlineExceeded), errdefs.IsCanceled(err), errdefs.IsDeadlineExceeded(err):
		return err
	case errors.Is(err, dialguard.ErrRefused):
		return refuse(fault.Denied, "have the node's operator allow the registry's network with registry-addresses in node.yaml",
			"the registry of image %s is at an address that this node does not connect to: %s", ref, last(text))
	case strings.Contains(text, "x509:"):
		return refuse(fault.Denied, "put the registry's certificate authority into the node's certs.d folder, see docs/images.md",
			"the certificate of the registry of image %s is not trusted: %s", ref, last(text))
	case strings.Contains(text, "no space left on device") || strings.Contains(text, "disk quota exceeded"):
		err = errors.Join(errFull, err)
		// Not Exhausted, which callers try again: each try would download it again.
		return refuse(fault.Precondition, "free some: deckhand node image prune NODE deletes images that nothing uses",
			"the node has no disk space for image %s", ref)
	case code == http.StatusTooManyRequests || strings.Contains(text, "toomanyrequests"):
		return refuse(fault.Exhausted, "wait, store credentials for this registry, which usually raises the limit, or use a mirror",
			"the registry limits how often image %s may be pulled", ref)
	case code == http.StatusUnauthorized, code == http.StatusForbidden, errors.Is(err, docker.ErrInvalidAuthorization),
		strings.Contains(text, docker.ErrInvalidAuthorization.Error()), strings.Contains(text, "insufficient_scope"):
		return refuse(fault.Denied, "check the name; if the image is private, store credentials for its registry",
			"the registry does not allow pulling image %s without other credentials", ref)
	case strings.Contains(text, "no match for platform"):
		return refuse(fault.Precondition, "use an image that is built for this kind of machine, or choose another node with nodes.labels in the persona",
			"image %s has no variant for %s/%s", ref, runtime.GOOS, runtime.GOARCH)
	case errdefs.IsNotFound(err), code == http.StatusNotFound:
		return refuse(fault.NotFound, "check the registry, the name and the tag; a private image may also need credentials",
			"image %s does not exist", ref)
	case errdefs.IsFailedPrecondition(err) && strings.Contains(text, "digest"), strings.Contains(text, "failed size validation"), strings.Contains(text, "past expected size"), strings.Contains(text, "unexpected commit digest"):
		return refuse(fault.Precondition, "have the image pushed again, or pull it from another registry",
			"the registry sent other data than the digest of image %s promises", ref)
	case code == 0 && errdefs.IsUnavailable(err): // registries have a status or a net.Error
		return refuse(fault.Unavailable, "check that containerd runs on the node, and try again", "containerd does not answer, so image %s cannot be pulled", ref)
	case code >= 500, errors.As(err, &network), strings.Contains(text, "connection reset"), strings.Contains(text, "EOF"):
		return broken()
	}
	return refuse(fault.Precondition, "the node's log has the details", "image %s cannot be pulled: %s", ref, last(text))
}

// maxReason bounds what of an error is shown: a registry chooses the text.
const maxReason = 300

// last returns the end of a chain of errors, which names the cause.
func last(text string) string {
	text = strings.ToValidUTF8(text, "")
	if len(text) > maxReason {
		text = strings.ToValidUTF8(text[len(text)-maxReason:], "")
	}
	return text
}
